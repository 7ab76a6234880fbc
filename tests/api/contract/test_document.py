"""The contract document is well-formed, complete, and says something about itself."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator
from referencing import Registry, Resource

from relay.errors import InvalidInputError, NotFoundError
from relay.settings import RelaySettings
from relay_api.contract import (
    list_operations,
    load_contract,
    render_contract,
    render_schema,
    server_address,
)
from tests.api.contract.expected import EXPECTED, NEEDS_OIDC

CONTRACT = load_contract()
OPERATIONS = {
    operation["operationId"]: (path, method, operation)
    for path, method, operation in list_operations(CONTRACT)
}
SCHEMAS = CONTRACT["components"]["schemas"]


def test_contract_is_valid_openapi_31() -> None:
    """A tool that reads OpenAPI 3.1 can read the contract."""
    OpenAPIV31SpecValidator(CONTRACT).validate()


def test_contract_is_valid_openapi_30_when_taken_down() -> None:
    """A tool that only reads OpenAPI 3.0 can read the form made for it."""
    document = json.loads(render_contract("3.0", "json"))

    OpenAPIV30SpecValidator(document).validate()
    assert document["openapi"].startswith("3.0.")


@pytest.mark.parametrize("name", SCHEMAS)
def test_component_is_valid_json_schema(name: str) -> None:
    """Each component is a JSON Schema of the 2020-12 dialect."""
    Draft202012Validator.check_schema(SCHEMAS[name])


def test_contract_has_the_known_operations() -> None:
    """The 64 operations are there, each once, and no other."""
    ids = [operation["operationId"] for *_, operation in list_operations(CONTRACT)]

    assert len(ids) == 64
    assert Counter(ids) == Counter(EXPECTED.keys())


@pytest.mark.parametrize("operation_id", EXPECTED)
def test_operation_has_its_success_code_and_problems(operation_id: str) -> None:
    """An operation documents one success code, and problem documents for the rest."""
    responses = OPERATIONS[operation_id][2]["responses"]

    assert set(responses) == {str(EXPECTED[operation_id].success), "default"}
    assert responses["default"]["content"] == {
        "application/problem+json": {
            "schema": {"$ref": "#/components/schemas/ErrorModel"}
        }
    }


@pytest.mark.parametrize("operation_id", EXPECTED)
def test_operation_has_no_body_exactly_where_none_is_sent(operation_id: str) -> None:
    """204 has no body, and neither has the import; every other success has one."""
    status = EXPECTED[operation_id].success
    response = OPERATIONS[operation_id][2]["responses"][str(status)]

    is_empty = status == 204 or operation_id == "importWorkflow"
    assert ("content" in response) is not is_empty


def test_operations_that_need_identities_say_so() -> None:
    """The flag for OIDC is on the sixteen operations that need a user's identity."""
    flagged = {
        name
        for name, (_, _, operation) in OPERATIONS.items()
        if operation.get("x-dbos-requires-oauth")
    }

    assert flagged == NEEDS_OIDC
    assert len(flagged) == 16


@pytest.mark.parametrize("operation_id", EXPECTED)
def test_operation_is_described(operation_id: str) -> None:
    """An operation, its parameters, body and answers are described in words."""
    _, _, operation = OPERATIONS[operation_id]

    assert operation["summary"]
    assert not operation["summary"].endswith(".")
    assert "Permission: " in operation["description"]
    for part in operation.get("parameters", []):
        assert part["description"].endswith("."), part["name"]
    if "requestBody" in operation:
        assert operation["requestBody"]["description"].endswith(".")
    for response in operation["responses"].values():
        assert response["description"].endswith(".")


@pytest.mark.parametrize("operation_id", EXPECTED)
def test_operation_names_the_errors_of_asking_an_executor(operation_id: str) -> None:
    """An operation that an executor answers says when it is 502 and when 503."""
    description = OPERATIONS[operation_id][2]["description"]

    may_fail_there = {502, 503} <= EXPECTED[operation_id].extra_errors
    assert ("503 when" in description) is may_fail_there
    assert ("502 when" in description) is may_fail_there


def test_import_names_the_setting_that_it_needs() -> None:
    """Whoever is refused with 403 has to find it; it is not in this document."""
    description = OPERATIONS["importWorkflow"][2]["description"]

    assert "off by default, and refused with 403 until `importsAllowed`" in description


def test_path_parameters_are_those_of_the_path() -> None:
    """Each name in a path is a required parameter, and there is no other."""
    for path, _, operation in OPERATIONS.values():
        names = [
            part["name"]
            for part in operation.get("parameters", [])
            if part["in"] == "path" and part["required"]
        ]
        assert sorted(names) == sorted(re.findall(r"\{(\w+)\}", path)), path


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_closed_and_described(name: str) -> None:
    """An object refuses unknown properties, and describes those it knows."""
    schema = SCHEMAS[name]

    assert schema["additionalProperties"] is False
    assert schema["description"].endswith(".")
    assert set(schema.get("required", ())) <= set(schema["properties"])
    for key, part in schema["properties"].items():
        assert part["description"].endswith("."), key


@pytest.mark.parametrize("suffix", ["Secs", "Ms"])
def test_spans_name_their_unit_in_words(suffix: str) -> None:
    """A bare number of time says in its description what it counts."""
    word = {"Secs": "second", "Ms": "millisecond"}[suffix]
    numbers = [
        (name, key, part)
        for name, schema in SCHEMAS.items()
        for key, part in schema["properties"].items()
        if key.endswith(suffix) and "boolean" not in part["type"]
    ]

    assert numbers
    for name, key, part in numbers:
        words = re.findall(r"[a-z]+", part["description"].lower())
        assert word in words or f"{word}s" in words, (name, key)


def test_every_reference_leads_to_a_component_and_every_component_is_used() -> None:
    """Nothing dangles, and nothing lies about unused."""
    text = json.dumps(CONTRACT)

    assert set(re.findall(r'"#/components/schemas/(\w+)"', text)) == set(SCHEMAS)


def test_tags_are_declared_and_used() -> None:
    """Each operation is in one group, and each group has a description."""
    declared = {tag["name"]: tag["description"] for tag in CONTRACT["tags"]}
    used = {operation["tags"][0] for _, _, operation in OPERATIONS.values()}

    assert all(len(operation["tags"]) == 1 for _, _, operation in OPERATIONS.values())
    assert set(declared) == used
    assert all(declared.values())


def test_deviations_are_named_once_and_explained() -> None:
    """The list of deviations is short, and each entry says what is different."""
    deviations = CONTRACT["x-relay-deviations"]

    assert [entry["name"] for entry in deviations] == [
        "null-clears-threshold",
        "long-application-names",
        "audit-log-in-every-mode",
        "autoscale-version",
    ]
    assert all(entry["summary"].endswith(".") for entry in deviations)


@pytest.mark.parametrize("version", ["3.1", "3.0"])
def test_yaml_says_the_same_as_json(version: str) -> None:
    """The YAML form is the JSON form, word for word."""
    as_json = json.loads(render_contract(version, "json", "/conductor"))
    as_yaml = yaml.safe_load(render_contract(version, "yaml", "/conductor"))

    assert as_yaml == as_json


def test_contract_carries_the_address_of_the_server() -> None:
    """The address is filled in, and nothing else is changed."""
    document = json.loads(render_contract("3.1", "json", "https://relay.example.org"))

    assert document == CONTRACT | {"servers": [{"url": "https://relay.example.org"}]}


@pytest.mark.parametrize(("version", "form"), [("2.0", "json"), ("3.1", "xml")])
def test_unknown_form_is_refused(version: str, form: str) -> None:
    """Asking for a version or form that does not exist is a clear error."""
    with pytest.raises(InvalidInputError, match="must be"):
        render_contract(version, form)


@pytest.mark.parametrize(
    ("public_url", "root_path", "address"),
    [
        (None, "", "/"),
        (None, "/", "/"),
        (None, "/conductor/", "/conductor"),
        ("https://relay.example.org/", "/conductor", "https://relay.example.org"),
    ],
)
def test_server_address_is_the_public_url_or_the_prefix(
    public_url: str | None, root_path: str, address: str
) -> None:
    """A public URL wins over a path prefix, and neither ends with a slash."""
    settings = RelaySettings(public_url=public_url, root_path=root_path)

    assert server_address(settings) == address


def test_schema_documents_validate_on_their_own() -> None:
    """A validator that follows the addresses finds every component it needs."""
    documents = [
        json.loads(render_schema(name, "https://x.test/p")) for name in SCHEMAS
    ]
    registry: Registry[Any] = Registry().with_resources(
        (document["$id"], Resource.from_contents(document)) for document in documents
    )
    validator = Draft202012Validator(
        {"$ref": "https://x.test/p/schemas/OrgMembers.json"}, registry=registry
    )
    role = {"name": "member", "isGlobal": True, "permissions": []}

    assert validator.is_valid({"orgName": "local", "users": {"ann": role}})
    assert not validator.is_valid({"orgName": "local", "users": {"ann": {}}})
    assert {reference for part in documents for reference in _references(part)} <= {
        document["$id"] for document in documents
    }


def test_unknown_schema_is_not_found() -> None:
    """A component that does not exist has no document."""
    with pytest.raises(NotFoundError):
        render_schema("Nothing")


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from _references(value)
    elif isinstance(node, list):
        for entry in node:
            yield from _references(entry)
