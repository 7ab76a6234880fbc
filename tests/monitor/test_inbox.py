"""News that pile up while the store is away: bounded, and the rows the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.hub.events import Arrival, Departure, Loss
from relay.ids import AppVersion, ConnectionId, Epoch, ExecutorId, InstanceId
from relay.liveness.policy import LivenessPolicy
from relay.liveness.states import ExecutorStatus
from relay.monitor.draft import Circumstances, Draft
from relay.monitor.inbox import condense
from relay.monitor.monitor import BATCH
from relay.monitor.news import Missing, News
from relay.protocol.messages import ExecutorInfo
from relay.records import ExecutorRecord
from relay.testing.clock import START, FakeClock
from tests.monitor.scene import FAULT_GRACE, GRACE, SECOND, Scene, ref_of

REF = ref_of("e1")
CIRCUMSTANCES = Circumstances(
    now=START + timedelta(days=1),
    instance_id=InstanceId("instance-1"),
    policy=LivenessPolicy(grace=GRACE, fault_grace=FAULT_GRACE),
)


@dataclass
class Seat:
    """The connections of one executor, and what the hub tells of them."""

    open: list[str] = field(default_factory=list)
    told: list[News] = field(default_factory=list)
    opened: int = 0

    def take(self) -> None:
        self.opened += 1
        self.open.append(f"c{self.opened}")
        self.tell_arrival()

    def leave(self, place: int, loss: Loss) -> None:
        if not self.open:
            return
        gone = self.open.pop(place % len(self.open))
        if self.open and int(gone[1:]) > max(int(each[1:]) for each in self.open):
            self.tell_arrival()
            return
        at = START + len(self.told) * SECOND
        self.told.append(
            Departure(
                ref=REF,
                connection_id=ConnectionId(gone),
                at=at,
                last_seen_at=at,
                loss=loss,
                close_code=None,
                close_reason=gone,
                peer_address="",
                is_fault=loss.is_own_doing,
            )
        )

    def reconcile(self) -> None:
        """The row was not written yet, and is held against the sockets."""
        if self.open:
            self.tell_arrival()
        elif self.opened:
            self.told.append(Missing(REF, ConnectionId(f"c{self.opened}")))

    def tell_arrival(self) -> None:
        connection_id = self.open[-1]
        self.told.append(
            Arrival(
                ref=REF,
                connection_id=ConnectionId(connection_id),
                at=START + len(self.told) * SECOND,
                info=ExecutorInfo(
                    ExecutorId("e1"),
                    AppVersion(f"v-{connection_id}"),
                    None,
                    "python",
                    "3.2.0",
                    {"connection": connection_id},
                ),
                peer_address="",
                key_name=None,
                is_collision=len(self.open) > 1,
            )
        )


steps = st.one_of(
    st.just(("take",)),
    st.just(("reconcile",)),
    st.tuples(
        st.just("leave"),
        st.integers(0, 3),
        st.sampled_from([Loss.CLOSED, Loss.SILENT, Loss.PROTOCOL]),
    ),
)


def play(seat: Seat, story: Sequence[tuple[object, ...]]) -> Sequence[News]:
    """What the hub tells while the steps of `story` are taken."""
    for name, *arguments in story:
        getattr(seat, str(name))(*arguments)
    return seat.told


def fold(before: ExecutorRecord | None, news: Sequence[News]) -> Draft:
    draft = Draft(REF, before, None, CIRCUMSTANCES)
    for each in news:
        draft.take(each)
    return draft


def without_epoch(row: ExecutorRecord | None) -> ExecutorRecord | None:
    return replace(row, epoch=Epoch(0)) if row else None


def make_row(status: ExecutorStatus, connection_id: str) -> ExecutorRecord:
    """The row of an executor that was there before, on that connection."""
    seat = Seat()
    seat.take()
    row = fold(None, seat.told).after
    assert row is not None
    is_gone = status is ExecutorStatus.DISCONNECTED
    return replace(
        row,
        status=status,
        connection_id=ConnectionId(connection_id),
        grace_started_at=START if is_gone else None,
        dead_after=START + GRACE if is_gone else None,
    )


@pytest.mark.parametrize("status", [None, *ExecutorStatus])
@given(story=st.lists(steps, max_size=25))
def test_rows_become_what_all_the_news_would_make_them(
    status: ExecutorStatus | None, story: list[tuple[object, ...]]
) -> None:
    """Status, connection, description, deadline and last error; the epoch still grows.

    Whoever was on line before may be the oldest one on the seat.
    """
    before = make_row(status, "c0") if status else None
    is_there = status is ExecutorStatus.HEALTHY
    seat = Seat(open=["c0"] if is_there else [])
    news = play(seat, story)

    kept = condense(news)

    all_of_it, rest = fold(before, news), fold(before, kept)
    assert rest.after is not None or all_of_it.after is None
    if all_of_it.after != before:
        assert rest.after is not None
        assert all_of_it.after is not None
        if all_of_it.after.connection_id != (before and before.connection_id):
            assert without_epoch(rest.after) == without_epoch(all_of_it.after)
        assert rest.after.connection_id == all_of_it.after.connection_id
        assert rest.after.status is all_of_it.after.status
        assert not before or rest.after.epoch >= before.epoch
    # Who is superseded is closed all the same, if it is open still.
    open_still = {ConnectionId(each) for each in seat.open}
    assert open_still & set(all_of_it.superseded) <= set(rest.superseded)
    assert rest.ledger == all_of_it.ledger


@given(story=st.lists(steps, max_size=60))
def test_what_remains_of_an_executor_is_bounded(
    story: list[tuple[object, ...]],
) -> None:
    """By its open connections, and nothing else."""
    seat = Seat()

    kept = condense(play(seat, story))

    assert len(kept) <= len(seat.open) + 4
    assert condense(kept) == kept


async def test_an_executor_that_is_cut_every_second_does_not_fill_the_inbox(
    scene: Scene, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is away for hours; when it is back, the row is what it should be."""
    monkeypatch.setattr("relay.monitor.inbox.CROWDED", 3 * BATCH)
    scene.connect("steady", "s1")
    for number in range(5 * BATCH):
        scene.connect("flapping", f"c{number}")
        scene.lose("flapping", f"c{number}", loss=Loss.SILENT)
        scene.connect("other", f"o{number}", version=f"v{number}")
        scene.lose("other", f"o{number}")
    scene.connect("other", "last", version="newest")
    writes = scene.store.writes

    await scene.monitor.finish()

    assert scene.store.writes - writes <= 4
    flapping, other = await scene.row("flapping"), await scene.row("other")
    assert flapping.status is ExecutorStatus.DISCONNECTED
    assert flapping.connection_id == f"c{5 * BATCH - 1}"
    assert other.status is ExecutorStatus.HEALTHY
    assert other.app_version == "newest"
    assert await scene.status("steady") is ExecutorStatus.HEALTHY


async def test_a_batch_under_way_is_not_disturbed(
    scene: Scene, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What arrives while it is written is neither lost nor taken for written."""
    monkeypatch.setattr("relay.monitor.inbox.CROWDED", 2 * BATCH)
    scene.connect("e1", "first")
    scene.lose("e1", "first")
    scene.store.stall_next_write(SECOND)
    async with scene.background(scene.turn()) as turn:
        await scene.until(lambda: scene.store.is_stalling)
        for number in range(3 * BATCH):
            scene.connect("e1", f"c{number}")
            scene.lose("e1", f"c{number}")
        scene.connect("e2", "only")
        scene.connect("e1", "last")
        await clock.advance(SECOND)
        await turn

    await scene.monitor.finish()

    assert (await scene.row("e1")).connection_id == "last"
    assert await scene.status("e1") is ExecutorStatus.HEALTHY
    assert await scene.status("e2") is ExecutorStatus.HEALTHY
