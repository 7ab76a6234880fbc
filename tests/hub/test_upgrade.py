"""Who comes in, and what the others are told."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from relay.errors import StoreUnavailableError
from relay.hub.admission import ADMISSION_LIMIT, ADMISSIONS_AT_ONCE
from relay.hub.handshake import Refusal
from relay.ids import AppName
from relay.testing.clock import FakeClock
from tests.hub.conftest import (
    UPGRADE,
    Bench,
    HttpAnswer,
    eventually,
    executor_ref,
    knock,
    open_bench,
)


def read_problem(answer: HttpAnswer) -> dict[str, object]:
    """The problem document of a refusal, checked to be a complete one."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["content-length"] == str(len(answer.body))
    assert answer.headers["connection"] == "close"
    document: dict[str, object] = json.loads(answer.body.decode())
    assert document["status"] == answer.status
    return document


async def test_gatekeeper_is_told_what_was_asked(bench: Bench) -> None:
    """Name and key decoded, and the headers by which a browser is known."""
    bench.gatekeeper.verdict = Refusal(403, "Forbidden", "no")

    await knock(
        bench, "//websocket/or%64ers/s%2Fecret", {**UPGRADE, "Origin": "http://evil"}
    )

    (knocked,) = bench.gatekeeper.knocks
    assert (knocked.app_name, knocked.key) == ("orders", "s/ecret")
    assert (knocked.origin, knocked.host) == ("http://evil", "localhost")
    assert knocked.peer_address == "127.0.0.1"


async def test_trusted_proxy_names_the_client(clock: FakeClock) -> None:
    """Behind a proxy of the settings, the executor's own address is known."""
    async with open_bench(clock=clock, trusted_proxies=("127.0.0.1",)) as bench:
        executor = await bench.connect(headers={"X-Forwarded-For": "203.0.113.9"})

        assert bench.listener.arrivals[0].peer_address == "203.0.113.9"
        executor.abort()


@pytest.mark.parametrize(
    ("status", "title"),
    [(401, "Unauthorized"), (403, "Forbidden"), (404, "Not Found")],
)
async def test_refusal_is_a_problem_document(
    bench: Bench, status: int, title: str
) -> None:
    """The status and the words of the gatekeeper, complete and in UTF-8."""
    bench.gatekeeper.verdict = Refusal(status, title, "the key is unknown: ü")

    answer = await knock(bench, "/websocket/orders/key")

    assert answer.status == status
    assert read_problem(answer)["detail"] == "the key is unknown: ü"
    assert "retry-after" not in answer.headers
    assert bench.sample("relay_upgrades_total", outcome=str(status)) == 1
    assert bench.listener.events == []


@pytest.mark.parametrize(
    "path", ["/websocket/orders", "/websocket/orders/", "/elsewhere", "/p?q=/websocket"]
)
async def test_other_path_is_not_found(bench: Bench, path: str) -> None:
    """An upgrade of any other path is refused without asking the gatekeeper."""
    answer = await knock(bench, path)

    assert answer.status == 404
    assert "/websocket/{application}/{key}" in str(read_problem(answer)["detail"])
    assert bench.gatekeeper.knocks == []


async def test_root_path_is_taken_off(clock: FakeClock) -> None:
    """Under a prefix that a proxy leaves in place, executors connect all the same."""
    async with open_bench(clock=clock, root_path="/conductor") as bench:
        bench.gatekeeper.verdict = Refusal(401, "Unauthorized", "no")

        await knock(bench, "/conductor/websocket/orders/key")

        assert [knocked.app_name for knocked in bench.gatekeeper.knocks] == ["orders"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-WebSocket-Version": "8"}, 400),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Content-Length": "7"}, 400),
        ({"X-Long": "x" * 9000}, 400),
    ],
)
async def test_malformed_upgrade_is_refused(
    bench: Bench, headers: dict[str, str], status: int
) -> None:
    """Whatever is wrong with the request, the peer gets a complete answer."""
    answer = await knock(bench, "/websocket/orders/key", {**UPGRADE, **headers})

    assert answer.status == status
    read_problem(answer)
    assert bench.gatekeeper.knocks == []
    assert bench.sample("relay_upgrades_total", outcome=str(status)) == 1


async def test_upgrade_by_another_method_is_refused(bench: Bench) -> None:
    """The refusal says which method there is."""
    answer = await knock(bench, "/websocket/orders/key", method="PUT")

    assert answer.status == 405
    assert answer.headers["allow"] == "GET"
    read_problem(answer)


async def test_slow_gatekeeper_is_not_waited_for_long(
    bench: Bench, clock: FakeClock
) -> None:
    """Within the limit of the executors' own patience they get a 503."""
    bench.gatekeeper.held.clear()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(knock(bench, "/websocket/orders/key"))
        await eventually(lambda: bench.gatekeeper.knocks)

        await clock.advance(timedelta(seconds=4))

    answer = waiting.result()
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    read_problem(answer)


async def test_who_is_decided_on_is_on_the_way_in(bench: Bench) -> None:
    """No deadline of its application is judged while the gatekeeper takes its time."""
    orders = executor_ref().application
    bench.gatekeeper.held.clear()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(knock(bench, "/websocket/orders/key"))
        await eventually(lambda: bench.gatekeeper.knocks)

        assert bench.hub.is_handshaking(orders)
        assert not bench.hub.is_handshaking(replace(orders, name=AppName("others")))
        bench.gatekeeper.verdict = Refusal(401, "Unauthorized", "unknown key")
        bench.gatekeeper.held.set()

    assert waiting.result().status == 401
    assert not bench.hub.is_handshaking(orders)


async def test_who_may_be_a_stranger_is_not_waited_for(bench: Bench) -> None:
    """Anybody can knock with a wrong key, and callers would wait for it."""
    orders = executor_ref().application
    bench.gatekeeper.held.clear()
    bench.gatekeeper.verdict = Refusal(401, "Unauthorized", "unknown key")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(knock(bench, "/websocket/orders/key"))
        await eventually(lambda: bench.gatekeeper.knocks)

        is_waited_for = bench.hub.is_anybody_arriving(orders)

        bench.gatekeeper.held.set()
    assert not is_waited_for


async def test_gatekeeper_sees_a_bounded_crowd(bench: Bench, clock: FakeClock) -> None:
    """More requests than the cap wait outside; who waits too long is refused."""
    bench.gatekeeper.held.clear()
    crowd = ADMISSIONS_AT_ONCE + 5
    async with asyncio.TaskGroup() as tasks:
        waiting = [
            tasks.create_task(knock(bench, "/websocket/orders/key"))
            for _ in range(crowd)
        ]
        links = bench.hub.switchboard.links
        await eventually(lambda: len(links) == crowd and bench.gatekeeper.knocks)
        await clock.settle()

        assert len(bench.gatekeeper.knocks) == ADMISSIONS_AT_ONCE
        await clock.advance(ADMISSION_LIMIT)

    assert [done.result().status for done in waiting] == [503] * crowd


@pytest.mark.parametrize(
    "failure", [StoreUnavailableError("down"), RuntimeError("a defect")]
)
async def test_failing_gatekeeper_refuses(bench: Bench, failure: Exception) -> None:
    """Nobody comes in unchecked, and nobody is told why."""
    bench.gatekeeper.failure = failure

    answer = await knock(bench, "/websocket/orders/key")

    assert answer.status == 503
    assert str(failure) not in str(read_problem(answer))


async def test_draining_hub_refuses(bench: Bench) -> None:
    """An instance that stops takes nobody in, and says when to come again."""
    await bench.hub.drain(timedelta(seconds=1))

    answer = await knock(bench, "/websocket/orders/key")

    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    assert "stopping" in str(read_problem(answer)["detail"])
    assert bench.gatekeeper.knocks == []


async def test_verdict_that_comes_while_draining_is_void(bench: Bench) -> None:
    """An admission decided before the drain began does not slip in after it."""
    bench.gatekeeper.held.clear()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(knock(bench, "/websocket/orders/key"))
        await eventually(lambda: bench.gatekeeper.knocks)
        draining = tasks.create_task(bench.hub.drain(timedelta(seconds=5)))
        await eventually(lambda: bench.hub.is_draining)

        bench.gatekeeper.held.set()

    assert waiting.result().status == 503
    assert draining.done()
    assert bench.listener.events == []


async def test_two_hosts_are_refused(bench: Bench) -> None:
    """Which of them the gatekeeper is to judge by is anybody's guess."""
    headers = {**UPGRADE, "host": "elsewhere"}

    answer = await knock(bench, "/websocket/orders/key", headers)

    assert answer.status == 400
    assert bench.gatekeeper.knocks == []


async def test_hub_without_a_gatekeeper_refuses(clock: FakeClock) -> None:
    """While the server is being assembled, nobody comes in unchecked."""
    async with open_bench(clock=clock) as bench:
        bench.hub.switchboard.gatekeeper = None

        assert (await knock(bench, "/websocket/orders/key")).status == 503


async def test_defect_before_admission_is_answered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a 500 that tells nothing, and the server goes on."""

    def fail(raw_path: str, root_path: str) -> None:
        raise RuntimeError("xyzzy")

    with monkeypatch.context() as patch:
        patch.setattr("relay.hub.socket.parse_upgrade_path", fail)
        answer = await knock(bench, "/websocket/orders/key")

    assert answer.status == 500
    assert "xyzzy" not in str(read_problem(answer))
    async with await bench.connect():
        assert bench.hub.connection_count == 1
