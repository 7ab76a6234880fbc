"""Links that are half there, very slow, or late."""

from datetime import timedelta

import pytest

from tests.acceptance.companies import Company
from tests.acceptance.environments import PYTHON
from tests.acceptance.processes import CLOCK
from tests.acceptance.proxy import Delay, End, Trickle, open_proxy
from tests.acceptance.stage import SHARP, Stage
from tests.acceptance.verdicts import nobody_died

pytestmark = pytest.mark.acceptance


async def test_a_host_that_loses_power_is_missed(stage: Stage) -> None:
    """
    No end of the connection reaches Relay: its silence is a death all the same.

    About 20 s.
    """
    sdk = PYTHON[0]
    relay = await stage.relay(**SHARP)
    async with open_proxy(relay.port) as proxy:
        victim = await stage.executor(sdk, "victim", relay=relay, through=proxy)
        peer = await stage.executor(sdk, "peer", relay=relay)
        await relay.configure("loop", executorTimeoutSecs=2)
        await victim.begin("w", steps=4, seconds=1)
        await stage.steps.reached("w", 2, within=20)

        proxy.half_open(gone=End.EXECUTOR)
        await victim.kill()

        assert (await relay.executors("loop"))[victim.executor_id] == "HEALTHY"
        await stage.succeeded("w", within=40)
        await relay.status_is("loop", victim.executor_id, None, within=20)
        assert stage.steps.executors_of("begin", "w")[4] == [peer.executor_id]


async def test_who_does_not_notice_that_relay_is_gone_comes_back_in_time(
    stage: Stage, company: Company
) -> None:
    """
    Only the executor's end of a link is left: it is back before 60 s have passed.

    About 55 s, 35 to 46 of which the SDKs need to notice by themselves.
    """
    relay = await stage.relay()
    async with open_proxy(relay.port) as proxy:
        members = await company.enter("left", relay, through=proxy)

        proxy.half_open(gone=End.RELAY)

        await company.all_are(relay, members, "DISCONNECTED", within=5)
        await company.all_are(relay, members, "HEALTHY", within=55)
        assert proxy.accepted == 2 * len(members)
        assert await nobody_died(relay)


async def test_a_reply_of_one_byte_a_second_is_life(stage: Stage) -> None:
    """
    No frame ends in four times the patience for silence, and the executor is kept.

    About 25 s, 12 of them at one byte a second.
    """
    sdk = PYTHON[0]
    relay = await stage.relay(**SHARP)
    async with open_proxy(relay.port) as proxy:
        victim = await stage.executor(sdk, "victim", relay=relay)
        peer = await stage.executor(sdk, "peer", relay=relay, through=proxy)
        await relay.configure("loop", executorTimeoutSecs=1)
        names = [f"w{number}" for number in range(10)]
        for name in names:
            await victim.begin(name, steps=4, seconds=1)
        await stage.steps.reached(names[-1], 2, within=20)

        proxy.degrade(up=Trickle())
        await victim.kill()
        await relay.status_is("loop", victim.executor_id, "DEAD", within=10)
        await CLOCK.sleep(timedelta(seconds=12))

        assert (await relay.executors("loop"))[peer.executor_id] == "HEALTHY"
        lost = await relay.audit(operation="executor.disconnect")
        assert [entry["details"]["executor_id"] for entry in lost] == [
            victim.executor_id
        ]
        proxy.heal()
        await stage.succeeded(*names, within=60)
        await relay.status_is("loop", victim.executor_id, None, within=30)


async def test_a_slow_link_recovers_all_the_same(stage: Stage) -> None:
    """
    With 1.5 s each way between Relay and the peer, the work is taken over and verified.

    About 25 s.
    """
    sdk = PYTHON[0]
    relay = await stage.relay()
    late = Delay(timedelta(seconds=1.5))
    async with open_proxy(relay.port) as proxy:
        proxy.degrade(up=late, down=late)
        victim = await stage.executor(sdk, "victim", relay=relay)
        peer = await stage.executor(sdk, "peer", relay=relay, through=proxy)
        await relay.configure("loop", executorTimeoutSecs=2)
        await victim.begin("w", steps=4, seconds=1)
        await stage.steps.reached("w", 2, within=20)

        await victim.kill()

        await stage.succeeded("w", within=60)
        await relay.status_is("loop", victim.executor_id, None, within=40)
        assert stage.steps.executors_of("begin", "w")[4] == [peer.executor_id]
        assert await relay.count_of("executor.disconnect") == 1
        assert await relay.count_of("recovery.order") == 1
