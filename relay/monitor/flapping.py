"""
Executors that come and go all the time: told once, not a hundred times.

What happens to such an executor is right in its row and in the figures. Only the audit
log is spared: after a few cuts it has one entry that says so, then nothing but deaths
and collisions, and one entry at the end with the number of those that were left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from relay.audit import engine_entry
from relay.ids import ExecutorRef
from relay.liveness.states import ExecutorStatus
from relay.records import AuditEntry
from relay.store.executors import ExecutorKey

CUTS_TO_FLAPPING = 3
WINDOW = timedelta(minutes=2)
"""So many cuts within this span make an executor a flapping one."""

STEADY_AFTER = timedelta(minutes=5)
"""How long after its last cut an executor is no longer called flapping."""

_ROUTINE = frozenset({"executor.connect", "executor.reconnect", "executor.disconnect"})


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """
    The last cuts of one executor.

    Attributes:
        cuts: When they were, on the monotonic clock in seconds; the oldest first, and
            no more than it takes to flap.
        left_out: Entries that were not written since it flaps.
    """

    ref: ExecutorRef
    cuts: tuple[float, ...] = ()
    is_flapping: bool = False
    left_out: int = 0
    last_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Condensed:
    """What is to be written of some entries, and what is to be remembered."""

    history: History
    entries: Sequence[AuditEntry]


def condense(history: History, entries: Sequence[AuditEntry], now: float) -> Condensed:
    """
    Leave out what goes without saying of a flapping executor.

    Args:
        entries: the changes of its status, in the order of their happening.
        now: the monotonic clock, in seconds.
    """
    kept: list[AuditEntry] = []
    for entry in entries:
        was_flapping = history.is_flapping
        if _is_cut(entry):
            history = _with_cut(history, entry, now)
        if was_flapping and entry.operation in _ROUTINE:
            history = replace(history, left_out=history.left_out + 1)
            continue
        kept.append(entry)
        if history.is_flapping and not was_flapping:
            kept.append(_tell_flapping(history))
        if entry.operation == "executor.dead":
            if was_flapping:
                steady = tell_steady(history, is_online=False)
                kept.append(replace(steady, recovery_id=entry.recovery_id))
            history = History(ref=history.ref)
    return Condensed(history, kept)


def tell_steady(history: History, *, is_online: bool) -> AuditEntry:
    """The entry that an executor no longer comes and goes: it stayed, or stays away."""
    return _entry(
        "executor.steady",
        history,
        {"entries_left_out": history.left_out, "is_online": is_online},
    )


class Histories:
    """The executors that were cut lately."""

    def __init__(self) -> None:
        self._histories: dict[ExecutorKey, History] = {}

    def __len__(self) -> int:
        return len(self._histories)

    def is_flapping(self, ref: ExecutorRef) -> bool:
        history = self._histories.get(ref.key)
        return history is not None and history.is_flapping

    def get(self, ref: ExecutorRef) -> History:
        return self._histories.get(ref.key) or History(ref=ref)

    def keep(self, history: History) -> None:
        """Remember it, if there is anything to remember."""
        if history.cuts:
            self._histories[history.ref.key] = history
        else:
            self._histories.pop(history.ref.key, None)

    def list_steady(self, now: float) -> Sequence[History]:
        """
        The flapping that had no cut for so long that they no longer flap.

        Who was cut too long ago to ever flap for it is forgotten on the way.
        """
        for key, history in list(self._histories.items()):
            if not history.is_flapping and _age(history, now) > WINDOW:
                del self._histories[key]
        return [
            history
            for history in self._histories.values()
            if history.is_flapping and _age(history, now) >= STEADY_AFTER
        ]


def _is_cut(entry: AuditEntry) -> bool:
    """Whether a connection ended; one that another replaced counts, too."""
    return entry.operation == "executor.disconnect" or (
        entry.operation == "executor.reconnect"
        and entry.details.get("was") == ExecutorStatus.HEALTHY.value
    )


def _with_cut(history: History, entry: AuditEntry, now: float) -> History:
    oldest = now - WINDOW.total_seconds()
    recent = tuple(cut for cut in history.cuts if cut >= oldest)
    cuts = (*recent, now)[-CUTS_TO_FLAPPING:]
    return replace(
        history,
        cuts=cuts,
        is_flapping=history.is_flapping or len(cuts) == CUTS_TO_FLAPPING,
        last_reason=entry.details.get("reason", "superseded"),
    )


def _tell_flapping(history: History) -> AuditEntry:
    within = history.cuts[-1] - history.cuts[0]
    return _entry(
        "executor.flapping",
        history,
        {"cuts": len(history.cuts), "within_secs": round(within, 3)},
    )


def _entry(operation: str, history: History, details: dict[str, Any]) -> AuditEntry:
    return engine_entry(
        operation, history.ref, last_reason=history.last_reason, **details
    )


def _age(history: History, now: float) -> timedelta:
    return timedelta(seconds=now - history.cuts[-1])
