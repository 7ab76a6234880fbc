"""Asking for an application's versions, and which of them is the latest."""

from datetime import UTC, datetime
from typing import Any

import pytest

from relay.protocol import FrameError
from relay.protocol.messages import Acknowledgement
from relay.protocol.versions import (
    ListApplicationVersionsRequest,
    SetLatestApplicationVersionRequest,
    VersionRow,
)
from tests.protocol.fields import reply, written

LISTING = ListApplicationVersionsRequest()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def version(name: object, stamped: object, created: object = 0) -> dict[str, Any]:
    return {
        "version_id": f"id of {name}",
        "version_name": name,
        "version_timestamp": stamped,
        "created_at": created,
    }


def test_versions_are_listed_without_a_question() -> None:
    """The executor knows whose they are."""
    assert written(LISTING) == {}


def test_the_latest_version_comes_first() -> None:
    """By its stamp, which moves, and not by its age or place."""
    frame = reply(
        output=[version("v1", 1000, 3), version("v3", 3000, 1), version("v2", 2000, 2)]
    )

    assert [row.version_name for row in LISTING.decode_reply(frame)] == [
        "v3",
        "v2",
        "v1",
    ]


def test_a_version_has_two_moments() -> None:
    """Milliseconds as numbers or digits."""
    frame = reply(output=[version("v1", 1_790_000_000_123, "1780000000000")])

    assert LISTING.decode_reply(frame) == (
        VersionRow(
            version_id="id of v1",
            version_name="v1",
            version_timestamp=datetime(2026, 9, 21, 14, 13, 20, 123_000, tzinfo=UTC),
            created_at=datetime(2026, 5, 28, 20, 26, 40, tzinfo=UTC),
        ),
    )


@pytest.mark.parametrize(
    ("stamped", "created", "both"),
    [
        (None, 5000, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
        (5000, "soon", datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
        (10**18, [], EPOCH),
    ],
)
def test_a_moment_that_cannot_be_read_is_the_other_one(
    stamped: object, created: object, both: datetime
) -> None:
    """Both are needed in REST, and neither is worth an error."""
    (row,) = LISTING.decode_reply(reply(output=[version("v1", stamped, created)]))

    assert (row.version_timestamp, row.created_at) == (both, both)


@pytest.mark.parametrize("fields", [{}, {"output": None}, {"output": []}])
def test_no_versions_are_an_empty_list(fields: dict[str, Any]) -> None:
    """SDKs leave an empty list out, or write null."""
    assert LISTING.decode_reply(reply(**fields)) == ()


@pytest.mark.parametrize(
    "output",
    [
        {},
        "v1",
        ["v1"],
        [{"version_id": "id"}],
        [{"version_name": "v1"}],
        [version("", 1)],
    ],
)
def test_what_is_no_list_of_versions_is_refused(output: object) -> None:
    """A missing version could be the latest."""
    with pytest.raises(FrameError):
        LISTING.decode_reply(reply(output=output))


def test_the_latest_version_is_set_by_name() -> None:
    """The moment is the executor's own."""
    order = SetLatestApplicationVersionRequest("v1")

    assert written(order) == {"version_name": "v1"}
    assert order.decode_reply(reply(success=True)) == Acknowledgement(success=True)
    assert order.decode_reply(reply(success=None)) == Acknowledgement(success=False)
