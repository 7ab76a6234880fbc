"""
Executors that are declared dead while they live, and have the database in reach.

Their work is recovered while they still do it. What happens then is the SDK's doing,
and the README says it: the step in flight runs twice, and with most of them no other.
"""

import asyncio
from datetime import timedelta

import pytest

from tests.acceptance.companies import Company, application_of
from tests.acceptance.environments import JAVA, PYTHON, TYPESCRIPT
from tests.acceptance.processes import CLOCK, ExecutorProcess
from tests.acceptance.proxy import Drop, open_proxy
from tests.acceptance.stage import SHARP, Stage

pytestmark = pytest.mark.acceptance

STALL = timedelta(seconds=40)
STEPS = 7
FENCED = {application_of(PYTHON[0]), application_of(TYPESCRIPT[0])}
"""SDKs whose executions carry a token, without which no result is recorded."""
HEEDLESS = {application_of(JAVA[0])}
"""SDKs that go on with a result of their own when another one is recorded already."""


async def test_a_partition_longer_than_the_grace_repeats_no_recorded_step(
    stage: Stage, everybody: Company
) -> None:
    """
    Two executions meet once; one of them gives up, with a token always the zombie.

    About 35 s. With Java neither does, and every step from there on runs twice. The
    zombie reads the same queue as its peer, so it may well be the one that takes its
    own work over.
    """
    relay = await stage.relay(**SHARP)
    async with open_proxy(relay.port) as proxy:
        zombies = await everybody.enter("zombie", relay, through=proxy)
        peers = await everybody.enter("peer", relay)
        await everybody.configure(relay, executorTimeoutSecs=1)
        await everybody.begin(zombies, steps=STEPS, seconds=2)
        await everybody.reached(2, within=20)

        proxy.degrade(up=Drop(), down=Drop())

        await everybody.all_are(relay, zombies, None, within=30)
        await everybody.succeeded(within=40)
        for name, zombie in zombies.items():
            assert await relay.executors(name) == {peers[name].executor_id: "HEALTHY"}
            begun = stage.steps.executors_of("begin", name)
            assert sorted(begun) == list(range(1, STEPS + 1)), name
            twice = [step for step, executors in begun.items() if len(executors) > 1]
            if name in FENCED:
                [met] = twice
                first, owner = begun[met]
                assert first == zombie.executor_id, (name, begun)
                for step in range(met + 1, STEPS + 1):
                    assert begun[step] == [owner], (name, begun)
            elif name in HEEDLESS:
                both = sorted((zombie.executor_id, peers[name].executor_id))
                assert twice == list(range(STEPS + 1 - len(twice), STEPS + 1)), begun
                assert all(sorted(begun[step]) == both for step in twice), begun
            else:
                # Whoever records the step in flight first goes on.
                assert len(twice) <= 1, (name, begun)
                last = max(twice, default=0)
                finishers = {begun[step][0] for step in begun if step > last}
                assert len(finishers) == 1, (name, begun)
            assert (await everybody.workflow(name)).recorded_steps == STEPS
        proxy.heal()
        await everybody.all_are(relay, zombies, "HEALTHY", within=60)
        assert await relay.count_of("executor.dead") == len(zombies)
        assert await relay.count_of("recovery.order") == len(zombies)


async def test_who_was_stopped_past_its_grace_does_not_go_on_from_a_recorded_step(
    stage: Stage, everybody: Company
) -> None:
    """
    SIGSTOP in mid-step, recovered, SIGCONT: it ends that step, which does not count.

    About 35 s. The peer has recorded the step meanwhile, which every SDK notices, but
    Java's: there the zombie skips what is recorded, and runs the rest a second time.
    """
    relay = await stage.relay(**SHARP)
    zombies = await everybody.enter("zombie", relay)
    peers = await everybody.enter("peer", relay)
    await everybody.configure(relay, executorTimeoutSecs=1)
    await everybody.begin(zombies, steps=10, seconds=1.5)
    await everybody.reached(2, within=20)

    async with asyncio.TaskGroup() as tasks:
        for name, zombie in zombies.items():
            tasks.create_task(_pause_in_mid_step(stage, name, zombie))

    for name, peer in peers.items():
        await stage.steps.ran_on(name, peer.executor_id, steps=3, within=40)
    before = {name: stage.steps.executors_of("begin", name) for name in zombies}
    for zombie in zombies.values():
        zombie.resume()
    await everybody.succeeded(within=40)
    await everybody.all_are(relay, zombies, "HEALTHY", within=20)
    # It would have begun the next step by now.
    await CLOCK.sleep(timedelta(seconds=2))
    for name, zombie in zombies.items():
        begun = stage.steps.executors_of("begin", name)
        ended = stage.steps.executors_of("end", name)
        heir = peers[name].executor_id
        met = max(
            step for step, ids in before[name].items() if zombie.executor_id in ids
        )
        assert begun[met] == [zombie.executor_id, heir], (name, begun)
        reached = max(before[name])
        alone = reached if name in HEEDLESS else 11
        for step in range(met + 1, alone):
            assert begun[step] == [heir], (name, begun)
        for step in range(alone, 11):
            assert heir in begun[step], (name, begun)
            assert len(begun[step]) <= 2, (name, begun)
        assert ended[met].count(zombie.executor_id) == 1, (name, ended)
        assert (await everybody.workflow(name)).recorded_steps == 10


async def test_who_was_stopped_past_its_grace_is_stopped_by_its_token_if_it_has_one(
    stage: Stage, everybody: Company
) -> None:
    """
    SIGSTOP for 40 s, and SIGCONT while the peer is in the very same step.

    About 80 s. The zombie is the first to end the step. With a token its result is
    refused, and the peer goes on. Older SDKs record it: the zombie goes on, and the
    peer gives up, but with Java, where it goes on as well.
    """
    relay = await stage.relay(**SHARP)
    zombies = await everybody.enter("zombie", relay)
    peers = await everybody.enter("peer", relay)
    # So that the peers are in the step when the stall ends.
    await everybody.configure(relay, executorTimeoutSecs=27)
    await everybody.begin(zombies, steps=2, seconds=16)
    await everybody.reached(1, within=20)

    for zombie in zombies.values():
        zombie.pause()
    await CLOCK.sleep(STALL)
    for name, peer in peers.items():
        await stage.steps.ran_on(name, peer.executor_id, within=5)
        assert stage.steps.executors_of("end", name) == {}
    for zombie in zombies.values():
        zombie.resume()

    await everybody.succeeded(within=50)
    await everybody.all_are(relay, zombies, "HEALTHY", within=20)
    for name, zombie in zombies.items():
        begun = stage.steps.executors_of("begin", name)
        ended = stage.steps.executors_of("end", name)
        both = [zombie.executor_id, peers[name].executor_id]
        assert begun[1] == ended[1] == both, (name, begun, ended)
        owner = peers[name] if name in FENCED else zombie
        owners = both if name in HEEDLESS else [owner.executor_id]
        assert sorted(begun[2]) == sorted(ended[2]) == sorted(owners), (name, begun)
        assert (await everybody.workflow(name)).recorded_steps == 2
    assert await relay.count_of("executor.dead") == len(zombies)
    assert await relay.count_of("recovery.order") == len(zombies)


async def _pause_in_mid_step(
    stage: Stage, workflow: str, executor: ExecutorProcess
) -> None:
    await stage.steps.turned(workflow, within=10)
    executor.pause()
