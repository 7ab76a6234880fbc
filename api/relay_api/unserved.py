"""
Operations of the contract that have no route here.

Conductor's clients know the whole contract, and whoever meets a gap shall not take it
for a wrong path. Nothing lists the gaps: the router found no route, and the contract
has the operation.
"""

from dataclasses import dataclass
from functools import cache

from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from relay_api.contract import list_operations, load_contract

NOT_SERVED = "this version of Relay does not serve this operation"
NEEDS_OIDC = f"{NOT_SERVED}: it needs OIDC, which this version does not have"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the contract; `route` recognises its path and serves nothing."""

    method: str
    route: Route
    needs_oidc: bool


def explain_absence(scope: Scope) -> str | None:
    """
    Why the router has no route for a request; `None` when the contract has none either.

    Args:
        scope: of a request that the router has refused with 404 or 405.
    """
    for operation in _list_operations():
        # A route for GET would take HEAD too, which the contract does not.
        if (
            operation.method == scope["method"]
            and operation.route.matches(scope)[0] is Match.FULL
        ):
            return NEEDS_OIDC if operation.needs_oidc else NOT_SERVED
    return None


@cache
def _list_operations() -> tuple[Operation, ...]:
    return tuple(
        Operation(
            method=method,
            route=Route(path, Response, methods=[method]),
            needs_oidc=operation.get("x-dbos-requires-oauth", False),
        )
        for path, method, operation in list_operations(load_contract())
    )
