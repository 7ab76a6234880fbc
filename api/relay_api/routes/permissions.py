"""The names of all permissions: `/v2/orgs/{orgName}/permissions`."""

from fastapi import APIRouter

from relay.access import Permission
from relay.registry import check_organization
from relay_api.dependencies import OrgName

router = APIRouter()


@router.get("/v2/orgs/{orgName}/permissions", operation_id="listPermissions")
async def list_permissions(organization: OrgName) -> list[str]:
    """Every permission there is; anybody may ask."""
    check_organization(organization)
    return [permission.value for permission in Permission]
