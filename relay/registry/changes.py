"""What may be changed about an application, and between which bounds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from relay.errors import InvalidInputError
from relay.records import ApplicationRecord, VersionPolicy

LONGEST_SPAN = timedelta(days=3650)
"""Ten years: beyond it a value is a mistake of unit, not a wish."""

SHORTEST_TIMEOUT = timedelta(seconds=1)
MOST_ROWS = 2**63 - 1


class Keep(Enum):
    """Leave a setting as it is; `None` would switch it off."""

    KEEP = "keep"


KEEP = Keep.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationChange:
    """
    New values for some settings of an application.

    In a threshold both `None` and zero mean off. Zero must never get as far as an
    executor, which would read it as "keep nothing".
    """

    executor_timeout: timedelta | Keep = KEEP
    gc_time_threshold: timedelta | Keep | None = KEEP
    gc_rows_threshold: int | Keep | None = KEEP
    global_timeout: timedelta | Keep | None = KEEP
    private_mode: bool | Keep = KEEP
    version_policy: VersionPolicy | Keep = KEEP
    imports_allowed: bool | Keep = KEEP

    def check(self) -> None:
        """
        Refuse values that no rule accepts.

        Raises:
            InvalidInputError: names the property of the request that is wrong.
        """
        if isinstance(self.executor_timeout, timedelta):
            location = "body.executorTimeoutSecs"
            if self.executor_timeout < SHORTEST_TIMEOUT:
                raise InvalidInputError(location, "must be at least 1 second")
            _check_span(location, self.executor_timeout)
        if isinstance(self.gc_time_threshold, timedelta):
            _check_span("body.gcTimeThresholdMs", self.gc_time_threshold)
        if isinstance(self.global_timeout, timedelta):
            _check_span("body.globalTimeoutMs", self.global_timeout)
        if isinstance(self.gc_rows_threshold, int):
            location = "body.gcRowsThreshold"
            if self.gc_rows_threshold < 0:
                raise InvalidInputError(location, "must not be negative")
            if self.gc_rows_threshold > MOST_ROWS:
                raise InvalidInputError(location, "must fit into 64 bits")

    def apply_to(self, old: ApplicationRecord) -> ApplicationRecord:
        """`old` with the new values; what is kept stays."""
        return replace(old, **self._given())

    def describe(self) -> Mapping[str, Any]:
        """The new values as audit details: snake case, the unit in the name."""
        given = self._given()
        details: dict[str, Any] = {}
        if "executor_timeout" in given:
            details["executor_timeout_secs"] = int(
                given["executor_timeout"].total_seconds()
            )
        for name in ("gc_time_threshold", "global_timeout"):
            if name in given:
                span: timedelta | None = given[name]
                details[f"{name}_ms"] = (
                    None if span is None else span // timedelta(milliseconds=1)
                )
        for name in ("gc_rows_threshold", "private_mode", "imports_allowed"):
            if name in given:
                details[name] = given[name]
        if "version_policy" in given:
            details["version_policy"] = given["version_policy"].value
        return details

    def _given(self) -> dict[str, Any]:
        thresholds = ("gc_time_threshold", "gc_rows_threshold", "global_timeout")
        given = {
            name: value
            for name in (
                "executor_timeout",
                "private_mode",
                "version_policy",
                "imports_allowed",
            )
            if (value := getattr(self, name)) is not KEEP
        }
        for name in thresholds:
            value = getattr(self, name)
            if value is not KEEP:
                given[name] = value or None
        return given


def _check_span(location: str, span: timedelta) -> None:
    if span < timedelta(0):
        raise InvalidInputError(location, "must not be negative")
    if span > LONGEST_SPAN:
        raise InvalidInputError(location, "must not exceed ten years (3650 days)")
