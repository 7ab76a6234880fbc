"""OpenAPI 3.1 is taken down to 3.0 without losing or inventing a fact."""

from typing import Any

import pytest

from relay_api.downgrade import to_openapi_30


def downgrade_schema(schema: dict[str, Any]) -> Any:
    document = {"openapi": "3.1.0", "components": {"schemas": {"Thing": schema}}}
    return to_openapi_30(document)["components"]["schemas"]["Thing"]


@pytest.mark.parametrize(
    ("schema", "lowered"),
    [
        pytest.param(
            {"type": ["string", "null"], "format": "date-time"},
            {"type": "string", "nullable": True, "format": "date-time"},
            id="null becomes a flag",
        ),
        pytest.param(
            {"const": "fixed"}, {"enum": ["fixed"]}, id="a constant is a choice of one"
        ),
        pytest.param(
            {"type": "string", "examples": ["a", "b"]},
            {"type": "string", "example": "a"},
            id="the first example stays",
        ),
        pytest.param(
            {"$ref": "#/components/schemas/Other"},
            {"$ref": "#/components/schemas/Other"},
            id="a bare reference stays",
        ),
        pytest.param(
            {"$ref": "#/components/schemas/Other", "description": "One."},
            {"allOf": [{"$ref": "#/components/schemas/Other"}], "description": "One."},
            id="a described reference keeps its description",
        ),
        pytest.param(
            {"type": "array", "items": {"type": ["integer", "null"]}},
            {"type": "array", "items": {"type": "integer", "nullable": True}},
            id="items are translated",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
            {
                "type": "object",
                "additionalProperties": {"type": "string", "nullable": True},
            },
            id="values are translated",
        ),
        pytest.param(
            {"anyOf": [{"const": 1}, {"type": "string"}]},
            {"anyOf": [{"enum": [1]}, {"type": "string"}]},
            id="alternatives are translated",
        ),
        pytest.param(
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {"type": {"const": 1}, "examples": {}},
            },
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {"type": {"enum": [1]}, "examples": {}},
            },
            id="properties may have the names of keywords",
        ),
    ],
)
def test_schema_is_translated(schema: dict[str, Any], lowered: dict[str, Any]) -> None:
    """Each keyword that 3.0 does not know finds its counterpart."""
    assert downgrade_schema(schema) == lowered


def test_union_of_several_types_is_refused() -> None:
    """What 3.0 cannot say is an error, not a guess."""
    with pytest.raises(ValueError, match="unpack"):
        downgrade_schema({"type": ["string", "integer"]})


def test_schemas_of_parameters_and_bodies_are_translated() -> None:
    """Schemas are found wherever the document has one, and the original stays."""
    schema = {"type": ["string", "null"]}
    document = {
        "openapi": "3.1.0",
        "paths": {"/x": {"get": {"parameters": [{"name": "q", "schema": schema}]}}},
        "components": {"schemas": {}},
    }

    lowered = to_openapi_30(document)

    parameter = lowered["paths"]["/x"]["get"]["parameters"][0]
    assert parameter == {"name": "q", "schema": {"type": "string", "nullable": True}}
    assert schema == {"type": ["string", "null"]}
