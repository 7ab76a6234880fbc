"""Who may do what: the rules of `relay.access`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.access import (
    KEY_PREFIX,
    LOCAL_PRINCIPAL,
    Permission,
    Principal,
    check_application_name,
    check_grant,
    check_key_name,
    check_organization_name,
    hash_key,
    is_same_key,
    parse_permissions,
    require,
    require_permission,
)
from relay.errors import (
    InvalidInputError,
    MalformedInputError,
    PermissionDeniedError,
)
from relay.ids import ApplicationId

SHOP = ApplicationId("app-shop")
BANK = ApplicationId("app-bank")

permission_sets = st.frozensets(st.sampled_from(Permission))
scopes = st.none() | st.frozensets(st.sampled_from([SHOP, BANK]))


def key(
    *permissions: Permission, scope: frozenset[ApplicationId] | None = None
) -> Principal:
    return Principal(
        kind="api_key",
        id="key-1",
        display="deploy",
        permissions=frozenset(permissions),
        application_ids=scope,
        is_operator=False,
    )


def test_permissions_are_the_eight_names_of_the_contract() -> None:
    """Renaming a permission would lock every existing key out."""
    assert [permission.value for permission in Permission] == [
        "organization.read",
        "organization.write",
        "application.read",
        "application.write",
        "metric.read",
        "token.read",
        "token.write",
        "websocket.connect",
    ]


@given(st.sampled_from(Permission))
def test_local_principal_may_do_everything(permission: Permission) -> None:
    """In local mode nobody is refused anything."""
    require(LOCAL_PRINCIPAL, permission, SHOP)
    require(LOCAL_PRINCIPAL, permission, None)

    assert (LOCAL_PRINCIPAL.kind, LOCAL_PRINCIPAL.id) == ("user", "local")
    assert LOCAL_PRINCIPAL.is_operator


def test_missing_permission_is_denied_by_name() -> None:
    """The refusal says which permission would have been needed."""
    reader = key(Permission.APPLICATION_READ)

    with pytest.raises(PermissionDeniedError, match=r"application\.write"):
        require(reader, Permission.APPLICATION_WRITE, SHOP)


def test_scope_limits_a_key_even_with_the_permission() -> None:
    """A key of one application is refused on another one."""
    limited = key(Permission.APPLICATION_READ, scope=frozenset({SHOP}))

    require(limited, Permission.APPLICATION_READ, SHOP)
    with pytest.raises(PermissionDeniedError, match="does not cover"):
        require(limited, Permission.APPLICATION_READ, BANK)


def test_key_without_a_remaining_application_covers_none() -> None:
    """An empty scope is not the unlimited one."""
    orphan = key(Permission.APPLICATION_READ, scope=frozenset())

    with pytest.raises(PermissionDeniedError):
        require(orphan, Permission.APPLICATION_READ, SHOP)


def test_limited_key_is_refused_on_the_organization() -> None:
    """What concerns all applications is not for a key of some."""
    limited = key(Permission.ORGANIZATION_READ, scope=frozenset({SHOP, BANK}))

    with pytest.raises(PermissionDeniedError, match="limited"):
        require(limited, Permission.ORGANIZATION_READ, None)


def test_limited_key_may_list_what_it_covers() -> None:
    """A filtered listing asks for the permission alone."""
    limited = key(Permission.APPLICATION_READ, scope=frozenset({SHOP}))

    require_permission(limited, Permission.APPLICATION_READ)

    assert [app for app in (SHOP, BANK) if limited.covers(app)] == [SHOP]


@given(permission_sets)
def test_parsed_permissions_are_those_named(permissions: frozenset[Permission]) -> None:
    """Names and permissions stand for each other."""
    names = [permission.value for permission in permissions]

    assert parse_permissions(names) == permissions


def test_unknown_permission_is_malformed_and_the_known_ones_are_listed() -> None:
    """A typing error is answered with the names that exist."""
    with pytest.raises(MalformedInputError, match=r"'app\.read'.*application\.read"):
        parse_permissions(["token.read", "app.read"])


def test_token_write_is_granted_by_the_command_line_only() -> None:
    """Even an administrator's call over REST cannot create a key that creates keys."""
    wanted = frozenset({Permission.TOKEN_WRITE})

    check_grant(LOCAL_PRINCIPAL, wanted, None, via_cli_admin=True)
    with pytest.raises(MalformedInputError, match=r"token\.write"):
        check_grant(LOCAL_PRINCIPAL, wanted, None, via_cli_admin=False)


@given(held=permission_sets, scope=scopes, wanted=permission_sets, wanted_scope=scopes)
def test_grants_never_exceed_the_creator(
    held: frozenset[Permission],
    scope: frozenset[ApplicationId] | None,
    wanted: frozenset[Permission],
    wanted_scope: frozenset[ApplicationId] | None,
) -> None:
    """What a granted key may do, its creator may do; and nothing less is refused."""
    wanted -= {Permission.TOKEN_WRITE}
    creator = key(*held, scope=scope)
    created = key(*wanted, scope=wanted_scope)
    everywhere = [SHOP, BANK, ApplicationId("app-of-tomorrow")]
    exceeds = not wanted <= held or any(
        created.covers(app) and not creator.covers(app) for app in everywhere
    )

    if exceeds:
        with pytest.raises(PermissionDeniedError):
            check_grant(creator, wanted, wanted_scope, via_cli_admin=False)
    else:
        check_grant(creator, wanted, wanted_scope, via_cli_admin=False)


def test_key_hash_is_the_sha256_of_its_text() -> None:
    """Stored hashes must stay comparable over releases."""
    assert hash_key(f"{KEY_PREFIX}abc").hex() == (
        "9013cd296b4fa41d93814ca2e6a70f83fffb5d522e7213c8a71c3688b1213a4d"
    )


@given(st.text(st.characters(categories=None)))
def test_every_text_has_a_hash(text: str) -> None:
    """A hostile credential is unknown, never an error."""
    assert len(hash_key(text)) == 32


def test_keys_are_compared_by_their_hashes() -> None:
    """Equal hashes are the same key, others are not."""
    one, other = hash_key("dbos_one"), hash_key("dbos_other")

    assert is_same_key(one, hash_key("dbos_one"))
    assert not is_same_key(one, other)


@pytest.mark.parametrize("name", ["abc", "a" * 256, "shop-2_b"])
def test_application_names_within_the_rule_pass(name: str) -> None:
    """Lower case, digits, underscore and hyphen; 3 to 256."""
    assert check_application_name(name, "path.appName") == name


@pytest.mark.parametrize(
    "name", ["", "ab", "a" * 257, "Shop", "shop.eu", "shop\n", "größe", "a/b"]
)
def test_other_application_names_are_refused_with_the_rule(name: str) -> None:
    """The refusal says where, what and which rule."""
    with pytest.raises(InvalidInputError, match="3 to 256 characters") as refusal:
        check_application_name(name, "path.appName")

    assert refusal.value.location == "path.appName"
    assert refusal.value.value == name


@pytest.mark.parametrize("name", ["local", "a" * 30, "org_2"])
def test_organization_names_within_the_rule_pass(name: str) -> None:
    """Lower case, digits and underscore; 3 to 30."""
    assert check_organization_name(name, "path.orgName") == name


@pytest.mark.parametrize("name", ["ab", "a" * 31, "my-org", "Local"])
def test_other_organization_names_are_refused(name: str) -> None:
    """An organization's name has no hyphen."""
    with pytest.raises(InvalidInputError, match="3 to 30 characters"):
        check_organization_name(name, "path.orgName")


@pytest.mark.parametrize("name", ["x", "a" * 100, "CI key (prod)", "schlüssel"])
def test_key_names_within_the_rule_pass(name: str) -> None:
    """Any printable name may be given to a key."""
    assert check_key_name(name, "path.tokenName") == name


@pytest.mark.parametrize(
    "name",
    ["", "a" * 101, "a/b", "line\nbreak", "nul\0", " padded", "\ud800", ".", ".."],
)
def test_other_key_names_are_refused(name: str) -> None:
    """Names that a path or a log line cannot show are refused."""
    with pytest.raises(InvalidInputError, match="printable"):
        check_key_name(name, "path.tokenName")


@pytest.mark.parametrize(
    "name", ["relay", "Relay", "RELAY", "\uff52elay", "local", "LOCAL"]
)
def test_names_of_the_engine_and_of_its_operator_are_reserved(name: str) -> None:
    """No key can pose as either in the audit log."""
    with pytest.raises(InvalidInputError, match="reserved"):
        check_key_name(name, "path.tokenName")
