"""What each SDK and version is trusted with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.protocol.sdk import Capabilities, Sdk, capabilities_of

CAREFUL = Capabilities(
    max_in_flight=1,
    max_in_flight_during_export=1,
    recovers_by_reenqueue=False,
    is_safe=False,
    retention_is_asynchronous=False,
    retention_is_database_wide=True,
)


@pytest.mark.parametrize(
    ("language", "version", "in_flight", "during_export"),
    [
        ("python", "3.2.0", 8, 8),
        ("typescript", "5.2.11", 16, 16),
        ("go", "v1.2.0", 1, 1),
        ("java", "1.0.0", 8, 1),
    ],
)
def test_requests_in_flight_are_capped_per_language(
    language: str, version: str, in_flight: int, during_export: int
) -> None:
    """Each language has its own way to suffer from too many."""
    capabilities = capabilities_of(Sdk(language, version))

    assert capabilities.max_in_flight == in_flight
    assert capabilities.max_in_flight_during_export == during_export


@pytest.mark.parametrize(
    ("language", "version", "is_safe", "reenqueues"),
    [
        ("python", "2.28.9", False, False),
        ("python", "2.29.0", True, True),
        ("python", "10.0.0", True, True),
        ("typescript", "4.24.7", False, False),
        ("typescript", "4.25", True, True),
        ("go", "v1.1.9", False, False),
        ("go", "v1.2.0", True, True),
        ("java", "0.9.0", False, False),
        ("java", "1.0.0", True, False),
        ("java", "9.0.0", True, False),
    ],
)
def test_safe_recovery_has_a_floor_per_language(
    language: str, version: str, *, is_safe: bool, reenqueues: bool
) -> None:
    """Java is safe and still starts the work on the spot."""
    capabilities = capabilities_of(Sdk(language, version))

    assert capabilities.is_safe is is_safe
    assert capabilities.recovers_by_reenqueue is reenqueues


@pytest.mark.parametrize(
    ("language", "version", "is_asynchronous", "is_database_wide"),
    [
        ("python", "2.29.0", False, True),
        ("python", "2.31.1", False, False),
        ("python", "3.0.0", True, True),
        ("typescript", "4.25.0", False, True),
        ("typescript", "4.27.6", False, False),
        ("typescript", "5.0.2", True, True),
        ("go", "v1.1.0", False, True),
        ("go", "v1.2.0", False, False),
        ("java", "1.0.0", False, True),
    ],
)
def test_retention_differs_by_version(
    language: str, version: str, *, is_asynchronous: bool, is_database_wide: bool
) -> None:
    """Whose history it deletes, and whether the reply waits for it."""
    capabilities = capabilities_of(Sdk(language, version))

    assert capabilities.retention_is_asynchronous is is_asynchronous
    assert capabilities.retention_is_database_wide is is_database_wide


@pytest.mark.parametrize(
    ("version", "is_safe"),
    [
        ("2.29", True),
        ("v2.29.0", True),
        (" V2.29.0\n", True),
        ("2.29.0.post1", True),
        ("2.29.0+local.1", True),
        ("2.29.0.1", True),
        ("2.29.0rc1", False),
        ("2.29.0a3", False),
        ("2.29.0.dev7", False),
        ("2.29.0-beta", False),
        ("v2.29.0-0.20260820101112-abcdefabcdef", False),
        ("v2.29.1-0.20260820101112-abcdefabcdef", True),
        ("2.29.1-beta+dirty", True),
    ],
)
def test_pre_releases_of_the_floor_are_below_it(version: str, *, is_safe: bool) -> None:
    """A pre-release may miss the very change that made the release safe."""
    assert capabilities_of(Sdk("Python", version)).is_safe is is_safe


@pytest.mark.parametrize(
    ("language", "version"),
    [
        (None, None),
        (None, "3.2.0"),
        ("rust", "3.2.0"),
        ("python", None),
        ("python", ""),
        ("python", "unknown"),
        ("go", "(devel)"),
        ("python", "3"),
        ("python", "three.two"),
        ("python", "٣.٢"),
    ],
)
def test_unknown_sdk_is_treated_most_carefully(
    language: str | None, version: str | None
) -> None:
    """One request at a time, no batches, no trust."""
    assert capabilities_of(Sdk(language, version)) == CAREFUL


@given(st.none() | st.text(), st.none() | st.text())
def test_any_sdk_has_capabilities(language: str | None, version: str | None) -> None:
    """What an executor says of itself never breaks anything."""
    assert capabilities_of(Sdk(language, version)).max_in_flight >= 1
