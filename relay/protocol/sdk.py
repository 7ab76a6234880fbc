"""
What each SDK, in each version, can be trusted with.

Source: the public sources of the SDKs and runs of them. A version that nobody knows is
treated as the most fragile one.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

Version: TypeAlias = tuple[int, int, int, bool]
"""Major, minor, patch, and whether it is a release: its pre-releases sort before it."""


@dataclass(frozen=True, slots=True)
class Sdk:
    """What an executor says it is built with; `None` where it says nothing."""

    language: str | None
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """
    How an executor wants to be treated.

    Attributes:
        max_in_flight: requests that may be outstanding on one socket. Beyond its limit
            Python stops reading and Go answers no pings.
        max_in_flight_during_export: the same while an export is outstanding: Java
            mixes another reply into it.
        recovers_by_reenqueue: a recovery order only puts work back on a queue, so it
            may name several executors and may be repeated. Otherwise it starts the
            work on the spot, and a repetition can start it twice.
        is_safe: new enough for automatic recovery without reservations. Older ones
            reuse executor ids or run what they recover directly.
        retention_is_asynchronous: the reply to `retention` only means "begun".
        retention_is_database_wide: retention ignores application borders and acts on
            everything in the system database.
    """

    max_in_flight: int
    max_in_flight_during_export: int
    recovers_by_reenqueue: bool
    is_safe: bool
    retention_is_asynchronous: bool
    retention_is_database_wide: bool


OLD_SDK_WARNING: Final = (
    "this SDK is too old for recovery without reservations: it may reuse executor ids,"
    " and starts recovered work directly"
)
"""What is to be said of executors that are not `is_safe`, as long as they are there."""

_CAREFUL: Final = Capabilities(
    max_in_flight=1,
    max_in_flight_during_export=1,
    recovers_by_reenqueue=False,
    is_safe=False,
    retention_is_asynchronous=False,
    retention_is_database_wide=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Milestones:
    """The releases that changed one language's behaviour; `None` is "never so far"."""

    max_in_flight: int
    max_in_flight_during_export: int
    safe: Version
    reenqueue: Version | None
    scoped_retention: Version | None
    background_retention: Version | None


_MILESTONES: Final = {
    "python": _Milestones(
        max_in_flight=8,
        max_in_flight_during_export=8,
        safe=(2, 29, 0, True),
        reenqueue=(2, 29, 0, True),
        scoped_retention=(2, 30, 0, True),
        background_retention=(3, 0, 0, True),
    ),
    "typescript": _Milestones(
        max_in_flight=16,
        max_in_flight_during_export=16,
        safe=(4, 25, 0, True),
        reenqueue=(4, 25, 0, True),
        scoped_retention=(4, 26, 0, True),
        background_retention=(5, 0, 0, True),
    ),
    "go": _Milestones(
        max_in_flight=1,
        max_in_flight_during_export=1,
        safe=(1, 2, 0, True),
        reenqueue=(1, 2, 0, True),
        scoped_retention=(1, 2, 0, True),
        background_retention=None,
    ),
    "java": _Milestones(
        max_in_flight=8,
        max_in_flight_during_export=1,
        safe=(1, 0, 0, True),
        reenqueue=None,
        scoped_retention=None,
        background_retention=None,
    ),
}

_VERSION: Final = re.compile(
    r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.[0-9]+)*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_RELEASE_SUFFIX: Final = re.compile(r"(?:[.-]?post[0-9]*)?(?:\+.*)?", re.IGNORECASE)


def capabilities_of(sdk: Sdk) -> Capabilities:
    """How to treat an executor of `sdk`; most careful if it is not known."""
    milestones = _MILESTONES.get((sdk.language or "").strip().lower())
    version = parse_version(sdk.version or "")
    if milestones is None or version is None:
        return _CAREFUL
    in_background = _has_reached(version, milestones.background_retention)
    return Capabilities(
        max_in_flight=milestones.max_in_flight,
        max_in_flight_during_export=milestones.max_in_flight_during_export,
        recovers_by_reenqueue=_has_reached(version, milestones.reenqueue),
        is_safe=version >= milestones.safe,
        retention_is_asynchronous=in_background,
        # It was database-wide before rows had an owner, and is again since it runs in
        # the background.
        retention_is_database_wide=in_background
        or not _has_reached(version, milestones.scoped_retention),
    )


def _has_reached(version: Version, milestone: Version | None) -> bool:
    return milestone is not None and version >= milestone


def parse_version(text: str) -> Version | None:
    """
    The version in `text`, or `None` if there is none (`unknown`, `(devel)`).

    Takes a leading `v`, a missing patch number, Python's and semantic pre-releases
    (`3.0.0rc1`, `0.5.4-beta`), Go's pseudo-versions (they are pre-releases) and build
    tags (`+dirty`).
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    major, minor, patch, suffix = match.groups()
    is_release = _RELEASE_SUFFIX.fullmatch(suffix) is not None
    return int(major), int(minor), int(patch or 0), is_release
