"""Walks about on the surface, and requests of every kind."""

from collections import Counter
from random import SystemRandom
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode, Response
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation, BaseSchema

from relay_api.contract import Document
from tests.api.stateful.premises import Premises
from tests.fuzz.effort import effort

STEPS = 30
"""Of one walk at most."""

Tally = Counter[tuple[str, int]]
"""How often an operation was answered with a status."""


def walk_about(premises: Premises, surface: Document, walks: int) -> Tally:
    """
    Walk from answer to request along the links, each time on renewed premises.

    Every answer must be one that the surface has: in status, media type, headers and
    shape. All requests are valid, and must be accepted; what was deleted must be gone.

    Raises:
        BaseExceptionGroup: an answer was another one; says how to ask for it again.
    """
    tally: Tally = Counter()
    schema = _load(surface, premises)
    # What a link takes over may be invalid by the narrowed surface, and good enough.
    schema.config.checks.negative_data_rejection.enabled = False
    # It looks for the deletion of a thing itself, not of what the thing was part of.
    schema.config.checks.ensure_resource_availability.enabled = False
    schema.config.generation.update(modes=[GenerationMode.POSITIVE])
    machine: Any = schema.as_state_machine()

    class Walk(machine):  # type: ignore[misc]  # made at run time
        def setup(self) -> None:
            premises.renew()

        def get_call_kwargs(self, case: Case[Any]) -> dict[str, Any]:
            return {"session": premises.session}

        def after_call(self, response: Response, case: Case[Any]) -> None:
            super().after_call(response, case)
            tally[_name(case.operation), response.status_code] += 1

    limits = effort(walks, stateful_step_count=STEPS, phases=[Phase.generate])
    first = 0 if limits.derandomize else SystemRandom().getrandbits(32)
    for number in range(first, first + limits.max_examples):
        # Each is a run of its own, because what the server does by itself may come
        # sooner or later: Hypothesis takes it for a fault if of two walks with the same
        # beginning only one can go on. The first example of a run is the empty walk.
        Walk._hypothesis_internal_use_seed = number
        Walk.run(
            settings=settings(
                limits, max_examples=2, suppress_health_check=list(HealthCheck)
            )
        )
    return tally


def ask_anything(premises: Premises, surface: Document, requests: int) -> Tally:
    """
    Send requests to each operation, as many valid ones as invalid ones.

    Raises:
        BaseExceptionGroup: an answer was none that the surface has, or what is not
            valid was accepted.
    """
    tally: Tally = Counter()
    schema = _load(surface, premises)
    # The contract promises more than can be accepted, such as any name for a key.
    schema.config.checks.positive_data_acceptance.enabled = False
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        for mode in GenerationMode:
            premises.renew()
            _ask(premises, found.ok(), mode, requests, tally)
    return tally


def _ask(
    premises: Premises,
    operation: APIOperation[Any, Any, Any, Any],
    mode: GenerationMode,
    requests: int,
    tally: Tally,
) -> None:
    @effort(requests, phases=[Phase.generate])
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Case[Any]) -> None:
        response = case.call(session=premises.session)
        tally[_name(operation), response.status_code] += 1
        case.validate_response(response)

    if mode is GenerationMode.POSITIVE or operation.body or operation.query:
        ask()


def _load(surface: Document, premises: Premises) -> BaseSchema:
    schema = schemathesis.openapi.from_dict(surface)
    schema.config.update(base_url=premises.url)
    # Documented only where an executor is asked; anywhere else it is found as unknown.
    fault = schema.config.checks.not_a_server_error
    fault.expected_statuses = [*fault.expected_statuses, "503"]
    return schema


def _name(operation: APIOperation[Any, Any, Any, Any]) -> str:
    name: str = operation.definition.raw["operationId"]
    return name
