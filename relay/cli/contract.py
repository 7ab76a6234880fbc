"""`relay openapi`: the HTTP contract as a file."""

from enum import StrEnum
from importlib import import_module
from typing import Annotated

import typer

RENDERER = "relay_api.contract:render_contract"
"""Named, not imported: the engine does not depend on the HTTP edge."""


class SpecVersion(StrEnum):
    """Versions of the OpenAPI specification."""

    V3_1 = "3.1"
    V3_0 = "3.0"


def openapi(
    spec_version: Annotated[
        SpecVersion, typer.Option("--spec-version", help="3.0 for older tools")
    ] = SpecVersion.V3_1,
    yaml: Annotated[bool, typer.Option("--yaml", help="YAML instead of JSON")] = False,
) -> None:
    """Print the HTTP contract that the server serves as /openapi.json."""
    module, _, function = RENDERER.partition(":")
    render = getattr(import_module(module), function)
    typer.echo(render(spec_version.value, "yaml" if yaml else "json"), nl=False)
