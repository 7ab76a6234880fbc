"""
Which versions of an application may be retired: whose executors may be stopped.

Pure. A version is safe to retire when nothing is left that only its executors take, and
nothing new goes to it by itself. Whatever is not known speaks against it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from relay.diagnosis.findings import Gap, say_count
from relay.ids import AppVersion
from relay.liveness.states import ExecutorStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWork:
    """Workflows of one version that are not finished."""

    pending: int = 0
    enqueued: int = 0
    delayed: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.pending + self.enqueued + self.delayed


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCrew:
    """The executors of one version that Relay has a record of, and the last sign."""

    by_status: Mapping[ExecutorStatus, int] = field(default_factory=dict)
    last_seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainFacts:
    """
    What is known of all versions of an application.

    Attributes:
        crews: of the versions that have executors.
        work: unfinished workflows by version; those without one are under `None`.
        names: the application's own versions in its database, the latest first.
        recovering: versions of which a recovery is open.
        is_disputed: whether executors of the application read different databases, so
            that a count is one of several.
    """

    crews: Mapping[AppVersion, VersionCrew]
    work: Mapping[AppVersion | None, VersionWork] | Gap
    names: Sequence[AppVersion] | Gap
    recovering: Collection[AppVersion]
    is_disputed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionStanding:
    """
    Where one version stands.

    `work` and `is_latest` are `None` where they are not known. `reason` says in a
    sentence why it is safe to retire, or why not.
    """

    version: AppVersion
    crew: VersionCrew
    work: VersionWork | None
    is_latest: bool | None
    is_safe: bool
    reason: str


def judge_versions(facts: DrainFacts) -> Sequence[VersionStanding]:
    """All versions that are known from anywhere, by name."""
    names = {*facts.crews, *facts.recovering}
    if not isinstance(facts.names, Gap):
        names.update(facts.names)
    if not isinstance(facts.work, Gap):
        names.update(version for version in facts.work if version is not None)
    return [_judge(version, facts) for version in sorted(names)]


def _judge(version: AppVersion, facts: DrainFacts) -> VersionStanding:
    crew = facts.crews.get(version, VersionCrew())
    work = None
    if not isinstance(facts.work, Gap):
        work = facts.work.get(version, VersionWork())
    obstacle = _find_obstacle(version, facts, work)
    return VersionStanding(
        version=version,
        crew=crew,
        work=work,
        is_latest=_is_latest(version, facts.names),
        is_safe=obstacle is None,
        reason=obstacle or _say_safe(crew),
    )


def _is_latest(version: AppVersion, names: Sequence[AppVersion] | Gap) -> bool | None:
    if isinstance(names, Gap) or not names:
        return None
    return names[0] == version


def _find_obstacle(
    version: AppVersion, facts: DrainFacts, work: VersionWork | None
) -> str | None:
    if isinstance(facts.work, Gap):
        return f"Its unfinished workflows could not be counted: {facts.work.reason}."
    if work is not None and work != VersionWork():
        return f"It has {_say_work(work)}."
    if version in facts.recovering:
        return "A recovery of one of its executors is not over yet."
    if facts.is_disputed:
        return (
            "Executors of the application read different databases, and only one of"
            " them was counted."
        )
    match _is_latest(version, facts.names):
        case True:
            return "It is the latest version: new work goes to it."
        case None:
            reason = facts.names.reason if isinstance(facts.names, Gap) else None
            why = reason or "the application lists no version"
            return f"Which version is the latest is not known: {why}."
        case False:
            return None


def _say_work(work: VersionWork) -> str:
    parts = {
        "pending": work.pending,
        "enqueued": work.enqueued,
        "delayed": work.delayed,
    }
    counts = [f"{count} {name}" for name, count in parts.items() if count]
    return f"{say_count(work.total, 'unfinished workflow')}: {', '.join(counts)}"


def _say_safe(crew: VersionCrew) -> str:
    healthy = crew.by_status.get(ExecutorStatus.HEALTHY, 0)
    sentence = "Nothing of it is pending, enqueued or delayed."
    if healthy:
        sentence += (
            f" What still calls its {say_count(healthy, 'executor')} directly starts"
            " new work there: stop that first."
        )
    return sentence
