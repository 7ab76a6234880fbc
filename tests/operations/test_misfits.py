"""Executors whose SDKs cannot do what is wanted, and values that cannot be sent."""

from typing import Any

import pytest

from relay.errors import InvalidInputError, UnknownMessageError
from relay.ids import RequestId
from relay.protocol import encode
from relay.protocol.schedules import ListSchedulesRequest
from relay.protocol.sdk import Sdk
from relay.protocol.workflow_orders import CancelRequest
from relay.protocol.workflows import SearchWorkflowsRequest, WorkflowFilter
from tests.operations.crew import Crew
from tests.recovery.records import SHOP
from tests.recovery.stage import replying

pytestmark = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)

OLD_JAVA = Sdk("java", "0.9.0")
SEARCH = SearchWorkflowsRequest(
    filter=WorkflowFilter(attributes={"customer": "acme"}), application=SHOP.name
)


async def test_executor_that_would_ignore_a_filter_is_passed_over(crew: Crew) -> None:
    """Fleets may be mixed; a wrong answer is worse than a busier executor."""
    old = crew.connect("old", replying("everything"), sdk=OLD_JAVA)
    crew.connect("new", replying("what was asked for"))

    answer: object = await crew.executors.read(crew.application, SEARCH)

    assert answer == "what was asked for"
    assert old.requests == []


async def test_filter_that_everybody_would_ignore_is_refused(crew: Crew) -> None:
    """The caller reads which one, and whose fault it is."""
    crew.connect("old", replying("everything"), sdk=OLD_JAVA)

    with pytest.raises(InvalidInputError, match=r"java 0\.9\.0") as caught:
        await crew.executors.read(crew.application, SEARCH)

    assert caught.value.location == "attributes"


async def test_a_filter_is_looked_at_once_however_many_executors_have_the_same_sdk(
    crew: Crew,
) -> None:
    """It may name ten thousand workflows, and there may be as many executors."""

    class CountedFilter(WorkflowFilter):
        looks = 0

        def used_options(self) -> tuple[str, ...]:
            type(self).looks += 1
            return super().used_options()

    for number in range(50):
        crew.connect(f"e-{number}", replying("never"), sdk=OLD_JAVA)
    counted = CountedFilter(attributes={"customer": "acme"})
    search = SearchWorkflowsRequest(filter=counted, application=SHOP.name)

    with pytest.raises(InvalidInputError, match="attributes"):
        await crew.executors.read(crew.application, search)
    assert CountedFilter.looks == 1


async def test_executor_that_does_not_know_the_message_is_not_asked(crew: Crew) -> None:
    """Old Java would not even answer."""
    old = crew.connect("old", replying("queue"), sdk=Sdk("java", "0.7.0"))

    with pytest.raises(UnknownMessageError, match=r"java 0\.7\.0.*get_queue"):
        await crew.read()
    crew.connect("new", replying("mail"))

    assert await crew.read() == "mail"
    assert old.requests == []


async def test_executor_of_an_unknown_sdk_is_tried(crew: Crew) -> None:
    """It may well know."""
    crew.connect("own", replying("mail"), sdk=Sdk(None, None))

    assert await crew.read() == "mail"


@pytest.mark.parametrize(
    ("request_", "location"),
    [
        (CancelRequest(workflow_ids=("a\0b",)), "workflowId"),
        (
            SearchWorkflowsRequest(
                filter=WorkflowFilter(user=("a\0b", "c")), application=SHOP.name
            ),
            "user",
        ),
        (
            SearchWorkflowsRequest(
                filter=WorkflowFilter(attributes={"a": {"b": "a\0b"}}),
                application=SHOP.name,
            ),
            "attributes",
        ),
        (
            ListSchedulesRequest(
                application=SHOP.name,
                status=(),
                workflow_name=(),
                schedule_name_prefix=("a\0b",),
                load_context=False,
            ),
            "scheduleNamePrefix",
        ),
    ],
)
async def test_value_that_cannot_be_sent_is_named_as_the_caller_knows_it(
    crew: Crew, request_: Any, location: str
) -> None:
    """The encoder knows wire names only."""

    async def write(request: Any) -> object:
        return encode(request, RequestId("r"))

    peer = crew.connect("first", write)
    peer.on(type(request_), write)

    with pytest.raises(InvalidInputError) as caught:
        await crew.executors.read(crew.application, request_)

    assert caught.value.location == location
