"""What each SDK, in each version, is taken to understand."""

import pytest

from relay.protocol.sdk import Sdk
from relay.protocol.support import (
    knows_message,
    list_ignored,
    surely_knows_message,
)
from tests.protocol.catalogue import CATALOGUE
from tests.protocol.sdks import EVERY_COUNT, FIRST, NEWEST


@pytest.mark.parametrize(
    ("message_type", "python", "typescript", "go", "java"),
    [
        ("cancel", "0.23.0", "2.6.0", "0.5.4-beta", "0.5.0"),
        ("list_workflows", "0.23.0", "2.6.0", "0.5.4-beta", "0.5.0"),
        ("exist_pending_workflows", "0.24.0", "2.6.0", "0.5.4-beta", "0.5.0"),
        ("list_steps", "0.25.0", "2.7.0", "0.5.4-beta", "0.5.0"),
        ("fork_workflow", "1.0.0", "2.9.0", "0.5.4-beta", "0.5.0"),
        ("retention", "1.5.0", "2.10.24", "0.5.4-beta", "0.5.0"),
        ("get_metrics", "2.6.0", "4.5.0", "0.9.0", "0.7.0"),
        ("delete", "2.9.0", "4.7.0", "0.12.0", "0.8.0"),
        ("export_workflow", "2.9.0", "4.7.0", "0.12.0", "0.8.0"),
        ("list_schedules", "2.13.0", "4.9.0", "0.14.0", "0.8.0"),
        ("backfill_schedule", "2.13.0", "4.9.0", "0.14.0", "0.8.0"),
        ("list_application_versions", "2.14.0", "4.10.0", "0.15.0", "0.8.0"),
        ("get_workflow_events", "2.15.0", "4.11.0", "0.15.0", "0.8.0"),
        ("get_workflow_aggregates", "2.16.0", "4.12.0", "0.15.0", "0.8.0"),
        ("fork_from_failure", "2.16.0", "4.12.0", "0.19.0", "1.0.0"),
        ("list_queues", "2.20.0", "4.17.0", "0.18.0", "0.9.0"),
        ("get_queue", "2.20.0", "4.17.0", "0.18.0", "0.9.0"),
        ("get_step_aggregates", "2.23.0", "4.19.0", "0.17.0", "1.0.0"),
    ],
)
def test_a_message_is_known_from_a_release_on(
    message_type: str, python: str, typescript: str, go: str, java: str
) -> None:
    """Not before it, and not in its pre-releases."""
    first = {"python": python, "typescript": typescript, "go": go, "java": java}

    for language, version in first.items():
        assert knows_message(Sdk(language, version), message_type)
        if version not in FIRST:
            below = Sdk(language, f"{version}-rc.1")
            assert not knows_message(below, message_type)


@pytest.mark.parametrize("sdk", NEWEST, ids=str)
def test_the_newest_sdks_know_all_that_relay_sends(sdk: Sdk) -> None:
    """What the project is tested against; but for rewinding, of which below."""
    known = CATALOGUE.keys() - {"rewind_workflow"}
    assert all(knows_message(sdk, message_type) for message_type in known)


def test_rewinding_is_known_in_two_languages_only() -> None:
    """No release of the other two has it."""
    assert [knows_message(sdk, "rewind_workflow") for sdk in NEWEST] == [
        True,
        True,
        False,
        False,
    ]
    assert not knows_message(Sdk("python", "3.0.9"), "rewind_workflow")


@pytest.mark.parametrize(
    "sdk",
    [
        Sdk(None, None),
        Sdk("rust", "0.0.1"),
        Sdk("python", None),
        Sdk("python", "unknown"),
        Sdk("go", "(devel)"),
        Sdk("", "2.0.0"),
        Sdk("go", "v0.0.0-20260820101112-abcdefabcdef"),
        Sdk("typescript", "0.0.0-development"),
        Sdk("python", "0.22.9"),
        Sdk("java", "0.4.0"),
    ],
    ids=str,
)
def test_an_unknown_sdk_is_tried_with_everything(sdk: Sdk) -> None:
    """
    What nobody knows is not held against it; it says itself what it cannot do.

    Nor is a version of before the first that connects: it is none of a release.
    """
    assert knows_message(sdk, "rewind_workflow")
    assert list_ignored(sdk, EVERY_COUNT) == ()


def test_an_unknown_message_is_tried() -> None:
    """A table that misses it proves nothing."""
    assert knows_message(Sdk("python", "0.23.0"), "juggle")


def test_a_language_is_known_however_it_is_written() -> None:
    """As it is elsewhere."""
    assert not knows_message(Sdk(" Python ", "v2.19.9"), "list_queues")


@pytest.mark.parametrize(
    ("sdk", "expected"),
    [
        (Sdk("python", "3.1.0"), True),
        (Sdk("python", "3.0.0"), False),
        (Sdk("python", "0.0.0"), False),
        (Sdk("python", None), False),
        (Sdk("cobol", "3.1.0"), False),
        (Sdk(None, None), False),
    ],
    ids=str,
)
def test_of_an_sdk_that_nobody_knows_nothing_is_sure(sdk: Sdk, expected: bool) -> None:
    """Where to try would do harm."""
    assert surely_knows_message(sdk, "rewind_workflow") is expected
    assert not surely_knows_message(sdk, "no_message")
