"""Which SDKs tell the applications of one system database from each other."""

import pytest

from relay.protocol.sdk import Sdk
from relay.protocol.support import keeps_apart


@pytest.mark.parametrize(
    ("sdk", "does"),
    [
        (Sdk("python", "2.29.9"), False),
        (Sdk("python", "2.30.0"), True),
        (Sdk("typescript", "4.25.9"), False),
        (Sdk("typescript", "4.26.0"), True),
        (Sdk("go", "1.1.9"), False),
        (Sdk("go", "1.2.0"), True),
        (Sdk("java", "1.2.0"), False),
        (Sdk("rust", "1.0.0"), True),
        (Sdk(None, None), True),
    ],
    ids=str,
)
def test_applications_are_kept_apart_from_a_release_on(sdk: Sdk, does: bool) -> None:
    """Java knows none so far; what nobody knows is believed."""
    assert keeps_apart(sdk) is does
