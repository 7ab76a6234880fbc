"""
Who may do what, and which names are names.

Pure rules: `registry` finds the principal behind a credential, the REST edge asks here.
Permissions and the application scope of a principal are independent: it needs both.
Granting never widens either.
"""

import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, Literal
from unicodedata import normalize

from relay.errors import (
    InvalidInputError,
    MalformedInputError,
    PermissionDeniedError,
)
from relay.ids import ApplicationId, AppName, KeyName, OrgName

KEY_PREFIX: Final = "dbos_"
"""Starts every API key; what follows is random text of `[A-Za-z0-9_-]`."""

RESERVED_KEY_NAMES: Final = frozenset({"relay", "local"})
"""The names of the engine and of whoever runs the server in the audit log."""


class Permission(StrEnum):
    """What a principal may do; the names of the contract, in its order."""

    ORGANIZATION_READ = "organization.read"
    ORGANIZATION_WRITE = "organization.write"
    APPLICATION_READ = "application.read"
    APPLICATION_WRITE = "application.write"
    METRIC_READ = "metric.read"
    TOKEN_READ = "token.read"  # noqa: S105 - a permission's name
    TOKEN_WRITE = "token.write"  # noqa: S105 - a permission's name
    WEBSOCKET_CONNECT = "websocket.connect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """
    Who is asking.

    `application_ids` is `None` without a limit; empty, it covers no application (a key
    whose last application was deleted). `is_operator` marks whoever runs the server
    (`local` mode, the command line), who holds no credential.
    """

    kind: Literal["user", "api_key"]
    id: str
    display: str
    permissions: frozenset[Permission]
    application_ids: frozenset[ApplicationId] | None
    is_operator: bool

    def covers(self, application_id: ApplicationId) -> bool:
        """Whether the application is within the principal's scope."""
        return self.application_ids is None or application_id in self.application_ids


LOCAL_PRINCIPAL: Final = Principal(
    kind="user",
    id="local",
    display="local",
    permissions=frozenset(Permission),
    application_ids=None,
    is_operator=True,
)
"""Everybody, in `local` mode."""


def require_permission(principal: Principal, permission: Permission) -> None:
    """
    Demand a permission alone, for a listing that shows only what `covers` admits.

    Raises:
        PermissionDeniedError: the principal does not hold it.
    """
    if permission not in principal.permissions:
        raise PermissionDeniedError(f"the permission {permission} is missing")


def require(
    principal: Principal, permission: Permission, application_id: ApplicationId | None
) -> None:
    """
    Demand a permission on an application, or on the organization if there is none.

    What concerns the whole organization is refused to a principal that is limited to
    some applications.

    Raises:
        PermissionDeniedError: the permission is missing or the scope is too narrow.
    """
    require_permission(principal, permission)
    if application_id is None:
        if principal.application_ids is not None:
            raise PermissionDeniedError("this key is limited to some applications")
    elif not principal.covers(application_id):
        raise PermissionDeniedError("this key does not cover the application")


def parse_permissions(names: Collection[str]) -> frozenset[Permission]:
    """
    The permissions called `names`.

    Raises:
        MalformedInputError: a name is no permission; the message lists those there are.
    """
    if unknown := sorted(set(names) - frozenset(Permission)):
        raise MalformedInputError(
            f"unknown permission {unknown[0]!r}; there are {', '.join(Permission)}"
        )
    return frozenset(Permission(name) for name in names)


def check_grant(
    granter: Principal,
    permissions: frozenset[Permission],
    application_ids: frozenset[ApplicationId] | None,
    *,
    via_cli_admin: bool,
) -> None:
    """
    Judge whether `granter` may create a key with these rights.

    Args:
        granter: who creates the key.
        permissions: what the key will be allowed to do.
        application_ids: the applications it will cover; `None` is all of them.
        via_cli_admin: whether this is `relay key create --admin`, the only way to a key
            that can create keys: the right to spread rights stays with whoever runs the
            server.

    Raises:
        MalformedInputError: no key may hold `token.write`, not even from an
            administrator.
        PermissionDeniedError: the key would be able to do more than its creator, or to
            more applications.
    """
    if Permission.TOKEN_WRITE in permissions and not via_cli_admin:
        raise MalformedInputError(
            f"a key cannot hold {Permission.TOKEN_WRITE};"
            " `relay key create --admin` makes the only exception"
        )
    if excess := sorted(permissions - granter.permissions):
        raise PermissionDeniedError(
            f"cannot grant {', '.join(excess)}: the creator does not hold it"
        )
    if granter.application_ids is None:
        return
    if application_ids is None or not application_ids <= granter.application_ids:
        raise PermissionDeniedError(
            "cannot grant access to applications that the creator cannot access"
        )


def hash_key(text: str) -> bytes:
    """
    What is stored in the place of an API key: 32 bytes.

    A plain digest is enough: a key is long and random, there is nothing to guess. Any
    text has one, also what is no key.
    """
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def is_same_key(a: bytes, b: bytes) -> bool:
    """Whether two key hashes are equal; the time it takes tells nothing about them."""
    return hmac.compare_digest(a, b)


def check_application_name(name: str, location: str) -> AppName:
    """
    `name` as an application's name.

    Raises:
        InvalidInputError: at `location`; the message states the rule.
    """
    return AppName(_check(_APPLICATION_NAME, name, location))


def check_organization_name(name: str, location: str) -> OrgName:
    """`name` as an organization's name; raises as `check_application_name` does."""
    return OrgName(_check(_ORGANIZATION_NAME, name, location))


def check_key_name(name: str, location: str) -> KeyName:
    """
    `name` as an API key's name; raises as `check_application_name` does.

    A name stands in paths, so it is none that clients resolve (`..`). Reserved names
    are reserved in every spelling, since people read the audit log.
    """
    if (
        not 1 <= len(name) <= 100
        or not name.isprintable()
        or "/" in name
        or name != name.strip()
        or not name.strip(".")
    ):
        raise InvalidInputError(
            location,
            "must be 1 to 100 printable characters, without a slash, without blanks"
            " around, and not only dots",
            name,
        )
    if (plain := normalize("NFKC", name).casefold()) in RESERVED_KEY_NAMES:
        raise InvalidInputError(location, f"{plain!r} is reserved", name)
    return KeyName(name)


@dataclass(frozen=True, slots=True)
class _NameRule:
    pattern: re.Pattern[str]
    text: str


_APPLICATION_NAME: Final = _NameRule(
    re.compile(r"[a-z0-9_-]{3,256}"), "must be 3 to 256 characters of a-z, 0-9, _ and -"
)
_ORGANIZATION_NAME: Final = _NameRule(
    re.compile(r"[a-z0-9_]{3,30}"), "must be 3 to 30 characters of a-z, 0-9 and _"
)


def _check(rule: _NameRule, name: str, location: str) -> str:
    if rule.pattern.fullmatch(name) is None:
        raise InvalidInputError(location, rule.text, name)
    return name
