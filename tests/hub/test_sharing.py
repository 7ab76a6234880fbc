"""Whose work is next, when one worker does that of many."""

from relay.hub.sharing import FairLines


def drain(lines: FairLines[str], cost: dict[str, float] | None = None) -> list[str]:
    """Take everything, in order; a piece costs its owner a second by default."""
    order: list[str] = []
    while (taken := lines.take()) is not None:
        owner, work = taken
        order.append(work)
        lines.charge(owner, (cost or {}).get(str(owner), 1.0))
    return order


def fill(**works: list[str]) -> FairLines[str]:
    lines: FairLines[str] = FairLines()
    for owner, pieces in works.items():
        for piece in pieces:
            lines.add(owner, piece)
    return lines


def test_owners_take_turns_however_much_each_has() -> None:
    lines = fill(a=["a1", "a2", "a3", "a4"], b=["b1"], c=["c1", "c2"])

    assert drain(lines) == ["a1", "b1", "c1", "a2", "c2", "a3", "a4"]


def test_whoever_has_cost_least_is_next() -> None:
    """Time counts, not pieces."""
    lines = fill(a=["a1", "a2"], b=["b1", "b2", "b3", "b4"])

    assert drain(lines, {"a": 3.0}) == ["a1", "b1", "b2", "b3", "a2", "b4"]


def test_unfinished_work_goes_to_the_end_of_its_line() -> None:
    lines = fill(a=["a1", "a2"])

    taken = lines.take()
    assert taken == ("a", "a1")
    lines.charge("a", 1.0, "the rest of a1")

    assert drain(lines) == ["a2", "the rest of a1"]


def test_newcomer_has_nothing_to_catch_up_with() -> None:
    """Otherwise it would have the worker to itself for hours."""
    lines = fill(a=["a1", "a2", "a3"])
    for _ in range(2):
        taken = lines.take()
        assert taken is not None
        lines.charge("a", 3600.0)

    for piece in ("b1", "b2", "b3"):
        lines.add("b", piece)

    assert drain(lines) == ["a3", "b1", "b2", "b3"]


def test_owner_whose_only_work_is_being_done_is_remembered() -> None:
    """Its account is not closed before it is charged."""
    lines = fill(a=["a1"])
    taken = lines.take()
    assert taken is not None
    assert lines.take() is None
    assert len(lines) == 1

    lines.add("a", "a2")
    lines.add("b", "b1")
    lines.charge("a", 1.0)

    assert drain(lines) == ["b1", "a2"]
    assert len(lines) == 0


def test_everything_that_waits_can_be_taken_away() -> None:
    lines = fill(a=["a1", "a2"], b=["b1"])
    taken = lines.take()
    assert taken == ("a", "a1")

    assert lines.take_all() == ["a2", "b1"]

    assert lines.take() is None
    lines.charge("a", 1.0)
