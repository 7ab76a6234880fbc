"""Who may open an executor's socket."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from relay.hub.handshake import Admission, Knock, Refusal
from relay.ids import AppName
from relay.records import RELAY_SUBJECT, AuditEntry, AuditStatus
from relay.registry import LOCAL_ORGANIZATION, SHELL_ACTOR, AuditQuery, Registry
from relay.store import Store
from relay.testing.clock import FakeClock

KNOCK = Knock(
    app_name="shop",
    key="anything",
    peer_address="192.0.2.9",
    origin=None,
    host="localhost:8090",
)


async def entries(registry: Registry) -> Sequence[AuditEntry]:
    """All audit entries, newest first."""
    records = await registry.list_audit(AuditQuery(limit=1000))
    return [record.entry for record in records]


async def mint(
    registry: Registry,
    name: str,
    permissions: Sequence[str] = ("websocket.connect",),
    applications: Sequence[str] | None = None,
) -> str:
    """The text of a new key."""
    minted = await registry.keys.create(
        SHELL_ACTOR,
        name,
        permissions=permissions,
        application_names=applications,
    )
    return minted.text


def refused(answer: Admission | Refusal, status: int) -> str:
    """The detail of `answer`, which must be a refusal with that status."""
    assert isinstance(answer, Refusal)
    assert answer.status == status
    return answer.detail


async def test_first_contact_registers_an_application(local: Registry) -> None:
    """An unknown application comes into being, by Relay, with its defaults."""
    answer = await local.admit(KNOCK)

    assert isinstance(answer, Admission)
    view = await local.applications.get("shop")
    assert answer.application == view.record.ref
    assert view.record.executor_timeout == timedelta(seconds=60)
    [entry] = await entries(local)
    assert (entry.operation, entry.subject) == ("application.create", RELAY_SUBJECT)
    assert entry.source_ip == "192.0.2.9"


async def test_second_contact_finds_the_application(local: Registry) -> None:
    """It is registered once."""
    first = await local.admit(KNOCK)
    second = await local.admit(replace(KNOCK, key="another"))

    assert first == second
    assert len(await entries(local)) == 1


async def test_first_contacts_at_once_register_once(local: Registry) -> None:
    """Executors of a new application start together."""
    answers = await asyncio.gather(*(local.admit(KNOCK) for _ in range(5)))

    assert len(set(answers)) == 1
    assert isinstance(answers[0], Admission)
    assert [entry.operation for entry in await entries(local)] == ["application.create"]


async def test_deleted_application_stays_deleted_until_put(local: Registry) -> None:
    """An executor that still dials does not bring it back."""
    await local.admit(KNOCK)
    await local.applications.delete(SHELL_ACTOR, "shop")

    detail = refused(await local.admit(KNOCK), 404)

    assert "PUT" in detail
    await local.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    assert isinstance(await local.admit(KNOCK), Admission)


async def test_unknown_application_is_refused_without_auto_register(
    make_registry: Callable[..., Registry],
) -> None:
    """The setting switches registration on first contact off."""
    registry = make_registry(auto_register=False)

    detail = refused(await registry.admit(KNOCK), 404)

    assert "PUT" in detail


@pytest.mark.parametrize("name", ["ab", "Shop", "sh op", "a" * 257, "a\0b", ""])
async def test_bad_name_is_refused_with_the_rule(local: Registry, name: str) -> None:
    """The text reaches the log of the application that has to be renamed."""
    detail = refused(await local.admit(replace(KNOCK, app_name=name)), 404)

    assert "3 to 256" in detail


async def test_web_page_cannot_pose_as_an_executor(local: Registry) -> None:
    """SDKs send no `Origin`, browsers always do."""
    for origin in ("http://evil.example", "http://localhost:8090", "null"):
        refused(await local.admit(replace(KNOCK, origin=origin)), 403)


@pytest.mark.parametrize("host", [None, "", "evil.example", "evil.example:8090"])
async def test_rebound_host_is_refused(local: Registry, host: str | None) -> None:
    """In local mode the host has to be this machine or configured."""
    detail = refused(await local.admit(replace(KNOCK, host=host)), 403)

    assert "RELAY_PUBLIC_URL" in detail


async def test_configured_host_is_accepted(
    make_registry: Callable[..., Registry],
) -> None:
    """The public URL's host is known."""
    registry = make_registry(public_url="http://relay.internal:8090")

    answer = await registry.admit(replace(KNOCK, host="relay.internal:8090"))

    assert isinstance(answer, Admission)


async def test_living_key_is_named_in_local_mode(local: Registry) -> None:
    """So that its revocation finds the sockets it opened."""
    text = await mint(local, "worker")

    answer = await local.admit(replace(KNOCK, key=text))

    assert isinstance(answer, Admission)
    assert answer.key_name == "worker"


async def test_revoked_key_is_let_in_with_a_warning_in_local_mode(
    local: Registry,
) -> None:
    """Local mode asks nobody for a key, and says what that means."""
    text = await mint(local, "worker")
    await local.revoke_key(SHELL_ACTOR, "worker")

    with capture_logs() as logged:
        answer = await local.admit(replace(KNOCK, key=text))

    assert isinstance(answer, Admission)
    assert answer.key_id is None
    warnings = [line for line in logged if line["log_level"] == "warning"]
    assert [line["event"] for line in warnings] == ["revoked_key_used"]
    assert text not in repr(logged)


async def test_keys_mode_admits_a_key_with_the_permission(keyed: Registry) -> None:
    """Origin and host do not matter where a key is needed."""
    await keyed.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    text = await mint(keyed, "worker")

    answer = await keyed.admit(
        replace(KNOCK, key=text, origin="http://a.example", host="relay.example")
    )

    assert isinstance(answer, Admission)
    assert (answer.application.name, answer.key_name) == ("shop", "worker")


async def test_keys_mode_refuses_in_the_documented_ways(keyed: Registry) -> None:
    """401 for who it is, 403 for what it may, 404 for what is not there."""
    await keyed.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    await keyed.applications.put(SHELL_ACTOR, "bank", private_mode=None)
    good = await mint(keyed, "good")
    reader = await mint(keyed, "reader", ["application.read"])
    limited = await mint(keyed, "limited", applications=["bank"])
    revoked = await mint(keyed, "revoked")
    await keyed.revoke_key(SHELL_ACTOR, "revoked")

    async def knock(key: str, app_name: str = "shop") -> Admission | Refusal:
        return await keyed.admit(replace(KNOCK, key=key, app_name=app_name))

    refused(await knock("dbos_" + "x" * 43), 401)
    refused(await knock("anything"), 401)
    refused(await knock(revoked), 401)
    refused(await knock(reader), 403)
    refused(await knock(limited), 403)
    refused(await knock(limited, "nowhere"), 403)
    refused(await knock(good, "nowhere"), 404)
    assert isinstance(await knock(limited, "bank"), Admission)


async def test_key_of_a_deleted_application_connects_nowhere(keyed: Registry) -> None:
    """Losing its last application does not make it a key for all."""
    await keyed.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    await keyed.applications.put(SHELL_ACTOR, "bank", private_mode=None)
    text = await mint(keyed, "limited", applications=["shop"])
    await keyed.applications.delete(SHELL_ACTOR, "shop")
    await keyed.applications.put(SHELL_ACTOR, "shop", private_mode=None)

    for name in ("shop", "bank"):
        refused(await keyed.admit(replace(KNOCK, key=text, app_name=name)), 403)


async def test_refusal_is_audited_once_an_hour(
    keyed: Registry, clock: FakeClock
) -> None:
    """One entry per key, application and reason, with key name and address."""
    text = await mint(keyed, "reader", ["application.read"])
    knock = replace(KNOCK, key=text)

    for _ in range(3):
        await keyed.admit(knock)
    await keyed.admit(replace(knock, app_name="bank"))
    once = [entry for entry in await entries(keyed) if entry.operation == REFUSAL]
    await clock.advance(timedelta(hours=1))
    await keyed.admit(knock)
    again = [entry for entry in await entries(keyed) if entry.operation == REFUSAL]

    assert len(once) == 2
    assert len(again) == 3
    entry = once[-1]
    assert entry.status is AuditStatus.FAILURE
    assert entry.subject.display == "reader"
    assert entry.source_ip == "192.0.2.9"
    assert entry.details == {
        "application_name": "shop",
        "reason": "permission",
        "status": 403,
    }


REFUSAL = "executor.refuse"


async def test_unknown_key_is_audited_without_its_text(keyed: Registry) -> None:
    """The entry tells that somebody knocked, from where, and no secret."""
    text = "dbos_" + "s" * 43

    with capture_logs() as logged:
        await keyed.admit(replace(KNOCK, key=text))

    [entry] = await entries(keyed)
    assert entry.operation == REFUSAL
    assert entry.subject.display == "unknown key"
    assert text not in repr(entry)
    assert text not in repr(logged)


async def test_hostile_name_is_not_repeated(local: Registry) -> None:
    """What breaks the rule may hold anything, so it is not written down."""
    await local.admit(replace(KNOCK, app_name="<script>\0"))

    [entry] = await entries(local)
    assert entry.target is None
    assert entry.details == {"reason": "name", "status": 404}


async def test_use_by_an_executor_counts_as_use(keyed: Registry) -> None:
    """Connecting is the use most keys see."""
    await keyed.applications.put(SHELL_ACTOR, "shop", private_mode=None)
    text = await mint(keyed, "worker")
    await keyed.admit(replace(KNOCK, key=text))

    await keyed.finish()

    [key] = await keyed.keys.list_live()
    assert key.last_used_at is not None


async def test_registered_name_is_the_one_asked_for(
    local: Registry, store: Store
) -> None:
    """The longest name of the rule fits."""
    name = "n" * 256

    await local.admit(replace(KNOCK, app_name=name))

    async with store.read() as work:
        record = await work.applications.find(LOCAL_ORGANIZATION, AppName(name))
    assert record is not None
