"""Organizations are found, made once, and listed."""

from datetime import timedelta

from relay.ids import OrgName
from relay.store import Store
from relay.testing.clock import START


async def test_ensure_makes_an_organization_once(store: Store) -> None:
    """A second `ensure` answers with the organization of the first."""
    async with store.write() as work:
        made = await work.organizations.ensure(
            OrgName("local"), audit_retention=timedelta(days=30)
        )

    async with store.write() as work:
        again = await work.organizations.ensure(OrgName("local"))

    assert again == made
    assert made.created_at == START
    assert made.audit_retention == timedelta(days=30)


async def test_find_answers_none_for_an_unknown_name(store: Store) -> None:
    """Nothing is found where nothing was made."""
    async with store.read() as work:
        assert await work.organizations.find(OrgName("nobody")) is None


async def test_list_all_is_ordered_by_name(store: Store) -> None:
    """Every organization is listed, by name."""
    async with store.write() as work:
        for name in ("beta", "alpha"):
            await work.organizations.ensure(OrgName(name))

    async with store.read() as work:
        names = [found.name for found in await work.organizations.list_all()]

    assert names == ["alpha", "beta"]


async def test_the_audit_retention_can_be_set(store: Store) -> None:
    """Of one organization; a name that nobody has is told."""
    async with store.write() as work:
        for name in ("alpha", "beta"):
            await work.organizations.ensure(
                OrgName(name), audit_retention=timedelta(days=30)
            )

    async with store.write() as work:
        week = timedelta(days=7)
        assert await work.organizations.set_audit_retention(OrgName("alpha"), week)
        assert not await work.organizations.set_audit_retention(OrgName("x"), week)

    async with store.read() as work:
        found = await work.organizations.list_all()
    assert [each.audit_retention.days for each in found] == [7, 30]
