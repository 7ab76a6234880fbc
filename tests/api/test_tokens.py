"""The operations on API keys."""

from collections.abc import Sequence
from typing import Any

import pytest

from relay.access import Permission
from relay.records import AuditStatus
from relay.registry import NO_APPLICATION
from tests.api.house import House, problem

TOKENS = "/v2/orgs/local/tokens"
EVERYTHING = [permission.value for permission in Permission]
GRANTABLE = [name for name in EVERYTHING if name != "token.write"]


async def test_create_token_shows_the_key_once(house: House) -> None:
    """201 with a real key; the list shows everything but its text."""
    created = await house.client.post(f"{TOKENS}/worker", json={})

    listed = await house.client.get(TOKENS)
    assert created.status_code == 201
    assert created.json().keys() == {"token", "tokenName"}
    text = created.json()["token"]
    assert text.startswith("dbos_")
    assert len(text) >= len("dbos_") + 43
    assert created.json()["tokenName"] == "worker"
    [token] = listed.json()
    assert token.pop("createdAt").endswith("Z")
    assert token == {
        "tokenName": "worker",
        "permissions": ["websocket.connect"],
        "appIds": [],
    }
    assert text not in listed.text


@pytest.mark.parametrize(
    "body", [{}, {"permissions": None}, {"permissions": []}, {"appNames": None}]
)
async def test_create_token_grants_the_least_by_default(
    house: House, body: dict[str, Any]
) -> None:
    """Without permissions a key may connect as an executor and nothing else."""
    await house.client.post(f"{TOKENS}/worker", json=body)

    [token] = (await house.client.get(TOKENS)).json()
    assert token["permissions"] == ["websocket.connect"]


async def test_create_token_needs_no_body(house: House) -> None:
    """An absent body means the defaults."""
    assert (await house.client.post(f"{TOKENS}/worker")).status_code == 201


async def test_create_token_scopes_by_name_and_lists_ids(house: House) -> None:
    """The scope is given by names and shown by ids; both names are audited."""
    shop, bank = await house.register("shop"), await house.register("bank")

    await house.client.post(f"{TOKENS}/worker", json={"appNames": ["shop", "bank"]})

    [token] = (await house.client.get(TOKENS)).json()
    assert sorted(token["appIds"]) == sorted([shop.id, bank.id])
    entry = (await house.audit(operation="token.create"))[0].entry
    assert entry.target is not None
    assert (entry.target.kind, entry.target.id) == ("token", "worker")
    assert entry.details == {
        "permissions": ["websocket.connect"],
        "applications": ["bank", "shop"],
    }


async def test_key_of_a_deleted_application_covers_nothing(house: House) -> None:
    """It must not read like a key for every application."""
    await house.register("shop")
    await house.client.post(f"{TOKENS}/worker", json={"appNames": ["shop"]})

    await house.client.delete("/v2/orgs/local/apps/shop")

    [token] = (await house.client.get(TOKENS)).json()
    assert token["appIds"] == [NO_APPLICATION]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"permissions": ["token.write"]}, 400),
        ({"permissions": ["application.fly"]}, 400),
        ({"permissions": [7]}, 422),
        ({"permissions": "application.read"}, 422),
        ({"appNames": []}, 422),
        ({"appNames": ["nowhere"]}, 422),
        ({"appNames": ["shop", "shop"]}, 422),
        ({"name": "x"}, 422),
    ],
)
async def test_create_token_refuses_what_it_cannot_grant(
    house: House, body: dict[str, Any], status: int
) -> None:
    """Nothing is created, and the attempt is audited."""
    await house.register("shop")

    response = await house.client.post(f"{TOKENS}/worker", json=body)

    problem(response, status)
    assert (await house.client.get(TOKENS)).json() == []
    entry = (await house.audit())[0].entry
    assert (entry.operation, entry.status) == ("token.create", AuditStatus.FAILURE)


@pytest.mark.parametrize(
    "name", ["relay", "Relay", "a%2Fb", "%20x", "x" * 101, "dbos_" + "k" * 43]
)
async def test_create_token_refuses_a_bad_name(house: House, name: str) -> None:
    """`relay` is the engine's own; a slash, blanks and keys are no names."""
    document = problem(await house.client.post(f"{TOKENS}/{name}"), 422)

    assert document["errors"][0]["location"] == "path.tokenName"


@pytest.mark.parametrize(
    ("encoded", "name"),
    [
        ("J%C3%BCrgen%20%231%3F", "Jürgen #1?"),
        ("100%25", "100%"),
        ("100%2525", "100%25"),
        ("a+b", "a+b"),
        ("%77orker", "worker"),
    ],
)
async def test_names_are_decoded_once(house: House, encoded: str, name: str) -> None:
    """A name is what its sender encoded, in every operation on it."""
    created = await house.client.post(f"{TOKENS}/{encoded}")

    listed = (await house.client.get(TOKENS)).json()
    deleted = await house.client.delete(f"{TOKENS}/{encoded}")
    assert created.json()["tokenName"] == name
    assert [token["tokenName"] for token in listed] == [name]
    assert deleted.status_code == 204


async def test_create_token_refuses_a_name_in_use(house: House) -> None:
    """409 while the name's key lives; after its end the name is free."""
    await house.client.post(f"{TOKENS}/worker")

    response = await house.client.post(f"{TOKENS}/worker")

    problem(response, 409)
    await house.client.delete(f"{TOKENS}/worker")
    assert (await house.client.post(f"{TOKENS}/worker")).status_code == 201


async def test_delete_token_closes_its_sockets(house: House) -> None:
    """The executors read why, within the size of a close frame."""
    created = await house.client.post(f"{TOKENS}/worker")
    key = await house.registry.keys.find(created.json()["token"])
    assert key is not None

    response = await house.client.delete(f"{TOKENS}/worker")

    assert (response.status_code, response.content) == (204, b"")
    [(closed, reason)] = house.sockets.closed_keys
    assert closed == key.id
    assert "recovered" in reason
    assert len(reason.encode()) <= 123
    entry = (await house.audit())[0].entry
    assert (entry.operation, entry.status) == ("token.revoke", AuditStatus.SUCCESS)


async def test_delete_of_an_unknown_token_is_an_audited_404(house: House) -> None:
    """Nothing was revoked, and that is recorded."""
    problem(await house.client.delete(f"{TOKENS}/worker"), 404)

    entry = (await house.audit())[0].entry
    assert (entry.operation, entry.status) == ("token.revoke", AuditStatus.FAILURE)


async def test_key_pasted_as_a_name_is_not_shown(house: House) -> None:
    """Who revokes by text instead of by name finds the text nowhere afterwards."""
    text = (await house.client.post(f"{TOKENS}/worker")).json()["token"]

    response = await house.client.delete(f"{TOKENS}/{text}")

    problem(response, 404)
    assert text not in response.text
    assert text not in repr(await house.audit())


async def test_permissions_are_listed_without_a_key(keyed: House) -> None:
    """The list is static and holds all eight."""
    response = await keyed.client.get("/v2/orgs/local/permissions")

    assert response.status_code == 200
    assert response.json() == [
        "organization.read",
        "organization.write",
        "application.read",
        "application.write",
        "metric.read",
        "token.read",
        "token.write",
        "websocket.connect",
    ]
    problem(await keyed.client.get("/v2/orgs/other/permissions"), 404)


GRANTS: list[tuple[Sequence[str], Sequence[str], int]] = [
    (EVERYTHING, GRANTABLE, 201),
    (EVERYTHING, ["token.write"], 400),
    (["token.write"], ["websocket.connect"], 403),
    (["token.write", "websocket.connect"], ["websocket.connect"], 201),
    (["token.write", "websocket.connect"], ["metric.read"], 403),
    (["token.read"], ["token.read"], 403),
]


@pytest.mark.parametrize(("held", "granted", "status"), GRANTS)
async def test_grants_never_exceed_the_creator(
    keyed: House, held: Sequence[str], granted: Sequence[str], status: int
) -> None:
    """Who creates a key hands out at most what it holds, and never `token.write`."""
    headers = await keyed.mint("creator", held)

    response = await keyed.client.post(
        f"{TOKENS}/worker", json={"permissions": list(granted)}, headers=headers
    )

    assert response.status_code == status


async def test_default_grant_is_checked_too(keyed: House) -> None:
    """A creator that may not connect cannot create a key that may."""
    headers = await keyed.mint("creator", ["token.write"])

    problem(await keyed.client.post(f"{TOKENS}/worker", headers=headers), 403)


async def test_limited_key_manages_no_keys(keyed: House) -> None:
    """What concerns the organization is refused to a key of some applications."""
    await keyed.register("shop")
    headers = await keyed.mint("limited", EVERYTHING, ["shop"])

    problem(await keyed.client.get(TOKENS, headers=headers), 403)
    problem(
        await keyed.client.post(
            f"{TOKENS}/worker", json={"appNames": ["shop"]}, headers=headers
        ),
        403,
    )


async def test_local_mode_mints_keys_that_keys_mode_accepts(house: House) -> None:
    """A key made in local mode is a real one."""
    text = (await house.client.post(f"{TOKENS}/worker")).json()["token"]

    principal = await house.registry.keys.authenticate(text)

    assert principal.display == "worker"
    assert principal.permissions == {Permission.WEBSOCKET_CONNECT}


async def test_create_token_refuses_a_scope_no_application_can_have(
    house: House,
) -> None:
    """Not every database could even look for such a name."""
    answer = await house.client.post(
        f"{TOKENS}/worker", json={"appNames": ["nul\0name"]}
    )

    [flaw] = problem(answer, 422)["errors"]
    assert flaw["location"] == "body.appNames[0]"
    assert "3 to 256 characters" in flaw["message"]
