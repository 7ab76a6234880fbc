"""
OpenAPI 3.1 to 3.0, for tools that have not learned JSON Schema 2020-12.

Only what the contract uses is translated: a type list with null becomes `nullable`, a
constant an enumeration of one, examples an example, and a reference that has something
beside it (3.0 would not look at it) is wrapped in `allOf`. A union of several types has
no counterpart in 3.0 and is refused, so that a careless edit of the contract fails in
the tests instead of being served as something else.
"""

from typing import Any

_SCHEMA_MAPS = ("properties", "patternProperties")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
_SCHEMAS = ("items", "additionalProperties", "not")


def to_openapi_30(document: dict[str, Any]) -> dict[str, Any]:
    """
    The same contract as OpenAPI 3.0; the argument is left as it is.

    Raises:
        ValueError: a schema has several types apart from null.
    """
    lowered: dict[str, Any] = {**_lower(document), "openapi": "3.0.3"}
    schemas = document["components"]["schemas"]
    lowered["components"] = {
        **lowered["components"],
        "schemas": {name: _lower_schema(schema) for name, schema in schemas.items()},
    }
    return lowered


def _lower(node: Any) -> Any:
    """A part of the document that is no schema; those it holds are under `schema`."""
    if isinstance(node, dict):
        return {
            key: _lower_schema(value) if key == "schema" else _lower(value)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [_lower(entry) for entry in node]
    return node


def _lower_schema(schema: Any) -> Any:
    if not isinstance(schema, dict):  # `additionalProperties: false`
        return schema
    lowered: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _SCHEMA_MAPS:
            lowered[key] = {name: _lower_schema(part) for name, part in value.items()}
        elif key in _SCHEMA_LISTS:
            lowered[key] = [_lower_schema(part) for part in value]
        elif key in _SCHEMAS:
            lowered[key] = _lower_schema(value)
        elif key == "type" and isinstance(value, list):
            (lowered["type"],) = (name for name in value if name != "null")
            if "null" in value:
                lowered["nullable"] = True
        elif key == "const":
            lowered["enum"] = [value]
        elif key == "examples":
            lowered["example"] = value[0]
        elif key == "$ref" and len(schema) > 1:
            lowered["allOf"] = [{"$ref": value}]
        else:
            lowered[key] = value
    return lowered
