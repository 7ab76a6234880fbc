"""Who reads which database, and when that has stopped to matter."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from relay.census import sides
from relay.census.sides import Standing
from relay.ids import ApplicationId, ExecutorId
from relay.liveness.states import ExecutorStatus
from relay.records import DisputeRecord, DisputeSide
from relay.testing.clock import START

A, B, C, W = (ExecutorId(name) for name in "abcw")


def side(*executor_ids: ExecutorId, most: int | None = None) -> DisputeSide:
    ids = frozenset(executor_ids)
    return DisputeSide(ids, len(ids) if most is None else most)


def dispute(first: DisputeSide, second: DisputeSide) -> DisputeRecord:
    return DisputeRecord(
        application_id=ApplicationId("app"), since=START, sides=(first, second)
    )


def is_over(record: DisputeRecord, standings: Mapping[ExecutorId, Standing]) -> bool:
    """The same from either end: the places of the sides mean nothing."""
    turned = replace(record, sides=(record.sides[1], record.sides[0]))
    assert sides.is_over(record, standings) == sides.is_over(turned, standings)
    return sides.is_over(record, standings)


@pytest.mark.parametrize(
    ("row", "is_online", "expected"),
    [
        (None, False, Standing.GONE),
        (None, True, Standing.PRESENT),
        ((ExecutorStatus.HEALTHY, False), False, Standing.PRESENT),
        ((ExecutorStatus.DISCONNECTED, False), False, Standing.PRESENT),
        ((ExecutorStatus.DEAD, True), False, Standing.OWED),
        ((ExecutorStatus.DEAD, True), True, Standing.PRESENT),
        ((ExecutorStatus.DEAD, False), False, Standing.GONE),
    ],
)
def test_standing_is_what_the_rows_and_the_sockets_say(
    row: tuple[ExecutorStatus, bool] | None, *, is_online: bool, expected: Standing
) -> None:
    """One that may come back counts as present, one with an open recovery as owed."""
    assert sides.standing_of(row, is_online=is_online) is expected


def test_those_who_come_sit_down_on_their_side() -> None:
    """And the side remembers how many it once had."""
    record = dispute(side(A, B), side(W))

    after = sides.seated(record, {A: 0, B: 0, C: 0, W: 1})

    assert after.sides == (side(A, B, C), side(W))
    fewer = sides.seated(after, {A: 0, W: 1})
    assert fewer.sides == (side(A, B, C, most=3), side(W))


def test_one_that_came_back_on_another_database_changes_sides() -> None:
    """Its configuration was put right, and its id stayed."""
    after = sides.seated(dispute(side(A), side(W)), {A: 0, W: 0})

    assert after.sides == (side(A, W), side(most=1))


def test_those_who_are_gone_are_struck_off() -> None:
    """The size of their side is not forgotten with them."""
    standings = {A: Standing.PRESENT, B: Standing.GONE, W: Standing.OWED}

    after = sides.without_gone(dispute(side(A, B), side(W)), standings)

    assert after.sides == (side(A, most=2), side(W))


def test_a_dispute_lasts_while_both_sides_are_there() -> None:
    """Whoever is in the majority."""
    record = dispute(side(A, B), side(W))

    assert not is_over(record, dict.fromkeys([A, B, W], Standing.PRESENT))


def test_it_ends_when_the_smaller_side_has_left() -> None:
    """A single executor with a wrong address was stopped: that was the mistake."""
    record = dispute(side(A, B), side(W))

    assert is_over(record, {A: Standing.PRESENT, B: Standing.PRESENT, W: Standing.OWED})


def test_it_lasts_when_the_larger_side_has_left() -> None:
    """The one who is left would truly see nothing pending, and be believed."""
    record = dispute(side(A, B), side(W))

    assert not is_over(
        record, {A: Standing.OWED, B: Standing.GONE, W: Standing.PRESENT}
    )


def test_between_equals_the_absent_are_owed_an_answer() -> None:
    """Nobody knows who was right, so that nobody's record goes."""
    record = dispute(side(A), side(W))

    assert not is_over(record, {A: Standing.OWED, W: Standing.PRESENT})


def test_it_ends_when_nothing_is_owed_to_a_side_that_has_left() -> None:
    """Its recoveries have ended: they returned, or an operator gave them up."""
    record = dispute(side(A), side(W))

    assert is_over(record, {A: Standing.GONE, W: Standing.PRESENT})
    assert is_over(record, {A: Standing.GONE, W: Standing.OWED})


def test_it_lasts_while_everybody_is_away() -> None:
    """The next to connect could read either database."""
    record = dispute(side(A, B), side(W))

    assert not is_over(record, dict.fromkeys([A, B, W], Standing.OWED))


def test_a_side_is_found_by_its_members() -> None:
    """Executors that come back after a restart of Relay sit where they sat."""
    record = dispute(side(A), side(W))

    assert [sides.place_of(record, id_) for id_ in (A, W, C)] == [0, 1, None]
