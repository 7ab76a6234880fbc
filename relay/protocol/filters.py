"""Writing filters, so that what is empty is no filter to any SDK."""

from collections.abc import Iterable, Mapping


def drop_blank(values: Iterable[str]) -> tuple[str, ...]:
    """The texts that say something; an empty one would match nothing, or all."""
    return tuple(value for value in values if value.strip())


def keep_set(conditions: Mapping[str, object]) -> Mapping[str, object]:
    """The conditions that are one: neither `None` nor empty."""
    return {
        name: value
        for name, value in conditions.items()
        if value is not None and value != ()
    }
