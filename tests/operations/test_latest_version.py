"""What only an executor of the latest application version may be asked to."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from relay.errors import NoExecutorError, ReplyTimeoutError, UnknownMessageError
from relay.ids import AppVersion
from relay.liveness.states import ExecutorStatus
from relay.protocol.sdk import Sdk
from relay.protocol.versions import ListApplicationVersionsRequest
from relay.protocol.workflow_orders import CancelRequest
from relay.registry import LOCAL_ORGANIZATION
from tests.operations.crew import DONE, FIRST, Crew
from tests.recovery.records import (
    SHOP,
    V1,
    dead_ref,
    make_application,
    make_executor,
)
from tests.recovery.stage import Behaviour, failing, replying, silence

on_sqlite = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

V2 = AppVersion("v2")
THEIRS = AppVersion("their newest")
JAVA = Sdk("java", "1.2.0")


@on_sqlite
async def test_only_the_latest_version_may_be_asked_to(crew: Crew) -> None:
    """However busy its executor is."""
    old = crew.connect("old", replying(DONE), version=V1)
    new = crew.connect("new", replying(DONE), version=V2)
    crew.know_versions(V2, V1)

    await crew.change(latest_version=True)

    assert old.asked(CancelRequest) == []
    assert len(new.asked(CancelRequest)) == 1


@on_sqlite
async def test_nobody_of_the_latest_version_is_told(crew: Crew) -> None:
    """With that version, for somebody has to start it."""
    crew.connect("old", replying(DONE), version=V1)
    crew.know_versions(V2, V1)

    with pytest.raises(NoExecutorError, match="latest version 'v2'") as caught:
        await crew.change(latest_version=True)

    assert caught.value.app_version == V2


@on_sqlite
@pytest.mark.parametrize(
    "versions",
    [replying(()), failing(UnknownMessageError(FIRST, "Unknown message type"))],
)
async def test_without_a_latest_version_everybody_may_be_asked_to(
    crew: Crew, versions: Behaviour
) -> None:
    """Old SDKs have no versions."""
    peer = crew.connect("first", replying(DONE))
    peer.on(ListApplicationVersionsRequest, versions)

    assert await crew.change(latest_version=True) is DONE


@on_sqlite
async def test_time_of_the_first_question_counts(crew: Crew) -> None:
    """Both together take no longer than the caller waits."""

    async def think(_: object) -> object:
        await crew.clock.sleep(timedelta(seconds=5))
        return ()

    crew.connect("only", silence).on(ListApplicationVersionsRequest, think)

    asking = asyncio.gather(crew.change(latest_version=True), return_exceptions=True)
    await crew.clock.advance(timedelta(seconds=25))

    [outcome] = await asking
    assert isinstance(outcome, ReplyTimeoutError)
    assert outcome.timeout == timedelta(seconds=20)


@pytest.fixture
async def shared(crew: Crew) -> Crew:
    """The same with a store that knows the application."""
    async with crew.store.write() as work:
        await work.organizations.ensure(LOCAL_ORGANIZATION)
        await work.applications.insert(make_application(SHOP))
    return crew


async def remember(crew: Crew, name: str, version: AppVersion) -> None:
    """Relay knows an executor that is not connected."""
    executor = make_executor(dead_ref(name, SHOP), status=ExecutorStatus.DEAD)
    async with crew.store.write() as work:
        await work.executors.insert(replace(executor, app_version=version))


@pytest.mark.parametrize("sdk", [JAVA, Sdk("python", "2.29.0")], ids=str)
async def test_versions_of_other_applications_in_the_database_do_not_count(
    shared: Crew, sdk: Sdk
) -> None:
    """An SDK that names no owners lists them too, and nobody of them ever comes."""
    old = shared.connect("old", replying(DONE), version=V1, sdk=sdk)
    new = shared.connect("new", replying(DONE), version=V2, sdk=sdk)
    await remember(shared, "new", V2)
    shared.know_versions(THEIRS, V2, V1)

    await shared.change(latest_version=True)

    assert old.asked(CancelRequest) == []
    assert len(new.asked(CancelRequest)) == 1


async def test_the_latest_version_that_is_away_is_waited_for_in_a_shared_database(
    shared: Crew,
) -> None:
    """Its executor is dead, and its work is not finished."""
    shared.connect("old", replying(DONE), version=V1, sdk=JAVA)
    await remember(shared, "new", V2)
    shared.know_versions(THEIRS, V2, V1)

    with pytest.raises(NoExecutorError) as caught:
        await shared.change(latest_version=True)

    assert caught.value.app_version == V2


@pytest.mark.parametrize("names", [(), (THEIRS,)], ids=["none", "theirs"])
async def test_without_a_version_of_its_own_everybody_may_be_asked_to(
    shared: Crew, names: Sequence[AppVersion]
) -> None:
    """None of its executors has come as far as to write its own down."""
    shared.connect("first", replying(DONE), version=V1, sdk=JAVA)
    shared.know_versions(*names)

    assert await shared.change(latest_version=True) is DONE


async def test_an_executor_counts_before_its_row_is_written(shared: Crew) -> None:
    """The one that says which versions there are."""
    new = shared.connect("new", replying(DONE), version=V2, sdk=JAVA)
    old = shared.connect("old", replying(DONE), version=V1, sdk=JAVA)
    await remember(shared, "old", V1)
    shared.know_versions(THEIRS, V2, V1)

    await shared.change(latest_version=True)

    assert len(new.asked(CancelRequest)) == 1
    assert old.asked(CancelRequest) == []


@on_sqlite
async def test_an_sdk_that_keeps_applications_apart_is_believed(crew: Crew) -> None:
    """Whoever Relay knows: a version that nobody has started yet is the latest too."""
    crew.connect("old", replying(DONE), version=V1)
    crew.know_versions(V2, V1)

    with pytest.raises(NoExecutorError):
        await crew.change(latest_version=True)
