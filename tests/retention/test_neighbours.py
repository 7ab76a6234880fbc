"""Applications on one database are told that they share what is deleted."""

from relay.ids import ExecutorId
from relay.protocol.messages import (
    ListWorkflowsRequest,
)
from tests.recovery.records import (
    V1,
)
from tests.recovery.stage import (
    lost,
    replying,
    summary,
)
from tests.retention.room import BLOG, OLD_PYTHON, Room, on_sqlite, settings_of


@on_sqlite
async def test_shared_database_is_told_once(room: Room) -> None:
    """A connected executor of the other application owns workflows seen from here."""
    await room.set(settings_of(BLOG))
    peer = room.stage.connect("peer")
    room.stage.connect("blogger", application=BLOG)
    rows = (summary("w-1", ExecutorId("blogger")),)
    peer.on(ListWorkflowsRequest, replying(rows))

    for _ in range(3):
        await room.dispatch()

    [entry] = await room.list_entries("retention.shared_database")
    assert entry.details["application_name"] == "shop"
    assert entry.details["shared_with"] == "blog"
    assert len(peer.asked(ListWorkflowsRequest)) == 1


@on_sqlite
async def test_databases_of_their_own_are_not_told(room: Room) -> None:
    """No row of the other application's executors, no warning."""
    await room.set(settings_of(BLOG))
    peer = room.stage.connect("peer")
    room.stage.connect("blogger", application=BLOG)

    for _ in range(3):
        await room.dispatch()

    assert await room.list_entries("retention.shared_database") == []
    assert peer.asked(ListWorkflowsRequest)[0] == ListWorkflowsRequest(
        (ExecutorId("blogger"),), (), (), 1, BLOG.name
    )


@on_sqlite
async def test_neighbours_are_not_sought_where_retention_keeps_to_itself(
    room: Room,
) -> None:
    """These SDKs delete history of their own application only."""
    await room.set(settings_of(BLOG))
    peer = room.stage.connect("peer", V1, sdk=OLD_PYTHON)
    room.stage.connect("blogger", application=BLOG)

    await room.dispatch()

    assert peer.asked(ListWorkflowsRequest) == []


@on_sqlite
async def test_failing_search_for_neighbours_is_no_failure(room: Room) -> None:
    """It is a courtesy."""
    await room.set(settings_of(BLOG))
    peer = room.stage.connect("peer")
    room.stage.connect("blogger", application=BLOG)
    peer.on(ListWorkflowsRequest, lost("peer", delivered=True))

    await room.dispatch()

    assert await room.list_entries("retention.fail") == []
