"""Which versions are an application's own, where an SDK lists those of all."""

from collections.abc import Callable, Sequence

import pytest

from relay.errors import NotFoundError
from relay.ids import AppVersion
from relay.operations.versions import Versions
from relay.protocol.sdk import Sdk
from relay.protocol.versions import SetLatestApplicationVersionRequest
from relay.registry import LOCAL_ORGANIZATION
from tests.operations.crew import DONE, Crew
from tests.operations.desk import ANN, make_clerk
from tests.recovery.records import SHOP, V1, dead_ref, make_application, make_executor
from tests.recovery.stage import MODERN, FakePeer, replying

JAVA = Sdk("java", "1.2.0")
V2, THEIRS = AppVersion("v2"), AppVersion("theirs")

Connect = Callable[[Sdk], FakePeer]


@pytest.fixture
async def connect(crew: Crew) -> Connect:
    """An executor of `v2` connects; Relay knows a dead one of `v1`, the SDK all."""
    async with crew.store.write() as work:
        await work.organizations.ensure(LOCAL_ORGANIZATION)
        await work.applications.insert(make_application(SHOP))
        await work.executors.insert(make_executor(dead_ref("gone", SHOP)))

    def enter(sdk: Sdk) -> FakePeer:
        peer = crew.connect("first", replying(DONE), version=V2, sdk=sdk)
        peer.on(SetLatestApplicationVersionRequest, replying(DONE))
        crew.know_versions(THEIRS, V2, V1)
        return peer

    return enter


async def set_latest(crew: Crew, version: str) -> None:
    clerk = make_clerk(crew.store)
    versions = Versions(clerk=clerk, executors=crew.executors)
    await versions.set_latest(ANN, "shop", version)


async def test_another_applications_version_cannot_be_made_the_latest(
    crew: Crew, connect: Connect
) -> None:
    """What is enqueued without a version would wait for executors that never come."""
    peer = connect(JAVA)

    with pytest.raises(NotFoundError):
        await set_latest(crew, THEIRS)

    assert peer.asked(SetLatestApplicationVersionRequest) == []


@pytest.mark.parametrize(
    ("sdk", "version"), [(JAVA, V2), (JAVA, V1), (MODERN, THEIRS)], ids=str
)
async def test_a_version_of_its_own_can_be_made_the_latest(
    crew: Crew, connect: Connect, sdk: Sdk, version: AppVersion
) -> None:
    """One with an executor, living or dead; all of them where the SDK tells owners."""
    peer = connect(sdk)

    await set_latest(crew, version)

    [order] = peer.asked(SetLatestApplicationVersionRequest)
    assert order.version_name == version


@pytest.mark.parametrize(
    ("sdk", "expected"),
    [(JAVA, [V2, V1]), (MODERN, [THEIRS, V2, V1])],
    ids=["java", "modern"],
)
async def test_the_latest_of_its_own_stands_first(
    crew: Crew, connect: Connect, sdk: Sdk, expected: Sequence[AppVersion]
) -> None:
    connect(sdk)

    rows = await crew.executors.list_own_versions(crew.application)

    assert [row.version_name for row in rows] == expected
