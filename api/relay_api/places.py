"""
Where in a request a value stands: in its path, its query or its body.

A use-case knows the names of values (`workflowId`), and not where an operation has put
them: one has the id of a workflow in its path, another one a list of ids in its body.
The route knows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request

from relay_api.bodies import JsonBody

KINDS: Final = ("path", "query", "body")
"""What a location begins with, in the order in which a name is looked for."""

_MORE_KINDS: Final = frozenset({*KINDS, "header", "cookie"})


@dataclass(frozen=True, slots=True)
class Places:
    """The names that an operation knows, by part; without `body` it has none."""

    path: frozenset[str] = frozenset()
    query: frozenset[str] = frozenset()
    body: frozenset[str] | None = None

    def locate(self, name: str) -> str:
        """
        The location of a value, such as `path.workflowId`.

        Args:
            name: its name in REST, or a location already, which is left as it is. One
                thing may be wanted where an operation takes several, or the other way
                round. Empty for the request as a whole.

        Returns:
            The part alone where no part has such a name.
        """
        if name.partition(".")[0] in _MORE_KINDS:
            return name
        parts = {"path": self.path, "query": self.query, "body": self.body or ()}
        for spelt in (name, f"{name}s", name.removesuffix("s")):
            for kind in KINDS:
                if spelt in parts[kind]:
                    return f"{kind}.{spelt}"
        if self.body is not None:
            return "body"
        return "query" if self.query else "path"


NOWHERE: Final = Places()
"""Of a request that belongs to no operation."""


def places_of(request: Request) -> Places:
    """The names that the operation of `request` knows."""
    route = request.scope.get("route")
    return read_places(route) if isinstance(route, APIRoute) else NOWHERE


def read_places(route: APIRoute) -> Places:
    """The names that the operation of `route` knows."""
    dependants = list(_walk(route.dependant))
    shapes = [d.call.shape for d in dependants if isinstance(d.call, JsonBody)]
    return Places(
        path=frozenset(field.alias for d in dependants for field in d.path_params),
        query=frozenset(field.alias for d in dependants for field in d.query_params),
        body=_list_names(shapes[0]) if shapes else None,
    )


def _list_names(shape: type[BaseModel]) -> frozenset[str]:
    fields = shape.model_fields.items()
    return frozenset(str(field.validation_alias or name) for name, field in fields)


def _walk(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for below in dependant.dependencies:
        yield from _walk(below)
