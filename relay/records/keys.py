"""API keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from relay.ids import ApplicationId, KeyId, KeyName, OrgName


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """
    An API key without its secret.

    `application_ids` is `None` for a key that covers every application; a key whose
    last application was deleted has an empty tuple and covers none.
    """

    id: KeyId
    organization: OrgName
    name: KeyName
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None
    permissions: frozenset[str]
    application_ids: Sequence[ApplicationId] | None
