"""
The code versions of an application: `list_application_versions` and
`set_latest_application_version`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

import msgspec

from relay.protocol.frames import read_frame
from relay.protocol.messages import Acknowledgement, read_acknowledgement
from relay.protocol.rows import (
    EPOCH,
    Scalar,
    read_instant,
    read_rows,
    require_label,
)
from relay.protocol.steps import LongReply, Steps, build_each


class VersionRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    A version of an application's code.

    The latest is the one with the newest `version_timestamp`, which moves when
    somebody sets it; `created_at` does not.
    """

    version_id: str
    version_name: str
    version_timestamp: datetime
    created_at: datetime


class _WireVersion(msgspec.Struct):
    version_id: Scalar = None
    version_name: Scalar = None
    version_timestamp: Scalar = None
    created_at: Scalar = None


_VERSION: Final = msgspec.json.Decoder(_WireVersion)


class _VersionsReply(msgspec.Struct):
    output: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class ListApplicationVersionsRequest(LongReply[tuple[VersionRow, ...]]):
    """
    Lists the versions of an application, and those that belong to nobody.

    It is scoped by the executor that is asked, and in Java not at all.
    """

    message_type: ClassVar[str] = "list_application_versions"

    def fields(self) -> Mapping[str, object]:
        return {}

    def decode_in_steps(self, frame: bytes) -> Steps[tuple[VersionRow, ...]]:
        """
        The versions, the latest first.

        A moment that cannot be read is taken from the other one of its row.

        Raises:
            FrameError: there is something else than a list, or a version without id or
                name.
        """
        rows = read_frame(frame, _VersionsReply).output
        if rows is None:
            return ()
        versions = yield from build_each(read_rows(rows, _VERSION), _read_version)
        return tuple(
            sorted(
                versions, key=lambda version: version.version_timestamp, reverse=True
            )
        )


def _read_version(wire: _WireVersion) -> VersionRow:
    stamped_at = read_instant(wire.version_timestamp)
    created_at = read_instant(wire.created_at)
    return VersionRow(
        version_id=require_label(wire.version_id, "a version without an id"),
        version_name=require_label(wire.version_name, "a version without a name"),
        version_timestamp=stamped_at or created_at or EPOCH,
        created_at=created_at or stamped_at or EPOCH,
    )


@dataclass(frozen=True, slots=True)
class SetLatestApplicationVersionRequest:
    """
    Makes a version the latest, by the executor's clock.

    Of a version that nobody knows every SDK says yes and changes nothing.
    """

    version_name: str
    message_type: ClassVar[str] = "set_latest_application_version"

    def fields(self) -> Mapping[str, object]:
        return {"version_name": self.version_name}

    def decode_reply(self, frame: bytes) -> Acknowledgement:
        return read_acknowledgement(frame)
