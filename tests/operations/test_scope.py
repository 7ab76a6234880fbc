"""Whose a row is, where applications share a database."""

import pytest

from relay.errors import NotFoundError
from relay.operations.scope import check_owner, is_foreign
from tests.recovery.records import SHOP, make_application

APPLICATION = make_application(SHOP)


@pytest.mark.parametrize("name", [None, "", SHOP.name])
def test_row_of_ones_own_or_of_nobody_is_let_through(name: str | None) -> None:
    """Older SDKs do not say whose a row is."""
    check_owner(name, APPLICATION, "workflow", "w-1")

    assert not is_foreign(name, APPLICATION)


def test_row_of_another_application_does_not_exist() -> None:
    """Its owner is not named."""
    with pytest.raises(NotFoundError) as caught:
        check_owner("billing", APPLICATION, "workflow", "w-1")

    assert is_foreign("billing", APPLICATION)
    assert (caught.value.kind, caught.value.name) == ("workflow", "w-1")
    assert "billing" not in str(caught.value)
