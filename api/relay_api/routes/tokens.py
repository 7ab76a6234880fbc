"""API keys: `/v2/orgs/{orgName}/tokens`."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field

from relay.access import Permission
from relay.records import KeyRecord
from relay.registry import NO_APPLICATION, Actor
from relay_api.bodies import json_body
from relay_api.dependencies import (
    ServerHere,
    TokenName,
    changes_token,
    reads_organization,
)
from relay_api.shapes import Answer, Instant, Order, schema_address

router = APIRouter()


def _refuse_repetition(names: list[str] | None) -> list[str] | None:
    if names is not None and len(set(names)) < len(names):
        raise ValueError("must not name an application twice")
    return names


class Token(Answer):
    """A key without its text; no `appIds` means every application."""

    token_name: str
    created_at: Instant
    permissions: list[str]
    app_ids: list[str]


class TokenCreated(Answer):
    """A new key; its text is shown here and nowhere else."""

    schema_url: str | None = Field(default=None, serialization_alias="$schema")
    token: str
    token_name: str


class CreateTokenInputBody(Order):
    """What the key may do; without `permissions`, connect as an executor."""

    app_names: Annotated[list[str] | None, AfterValidator(_refuse_repetition)] = None
    permissions: list[str] | None = None


@router.get("/v2/orgs/{orgName}/tokens", operation_id="listTokens")
async def list_tokens(
    _: Annotated[Actor, reads_organization(Permission.TOKEN_READ)],
    server: ServerHere,
) -> list[Token]:
    """The keys that are not revoked, by name."""
    return [_to_token(record) for record in await server.registry.keys.list_live()]


@router.post(
    "/v2/orgs/{orgName}/tokens/{tokenName}",
    operation_id="createToken",
    status_code=201,
    response_model_exclude_unset=True,
)
async def create_token(
    caller: Annotated[Actor, changes_token(Permission.TOKEN_WRITE, "token.create")],
    server: ServerHere,
    name: TokenName,
    body: Annotated[
        CreateTokenInputBody, json_body(CreateTokenInputBody, required=False)
    ],
) -> TokenCreated:
    """Mint a key that may do no more than the caller."""
    minted = await server.registry.keys.create(
        caller, name, permissions=body.permissions, application_names=body.app_names
    )
    return TokenCreated(token=minted.text, token_name=minted.record.name).model_copy(
        update=schema_address(server.settings, "TokenCreated")
    )


@router.delete(
    "/v2/orgs/{orgName}/tokens/{tokenName}",
    operation_id="deleteToken",
    status_code=204,
    response_class=Response,
)
async def delete_token(
    caller: Annotated[Actor, changes_token(Permission.TOKEN_WRITE, "token.revoke")],
    server: ServerHere,
    name: TokenName,
) -> None:
    """
    Revoke a key and close the sockets it opened.

    Executors cut off like this are recovered elsewhere once their grace has passed,
    unless they come back with another key.
    """
    await server.registry.revoke_key(caller, name)


def _to_token(record: KeyRecord) -> Token:
    scope = record.application_ids
    return Token(
        token_name=record.name,
        created_at=record.created_at,
        permissions=sorted(record.permissions),
        app_ids=[] if scope is None else list(scope) or [NO_APPLICATION],
    )
