"""What the witness has seen so far, as far as laws depend on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.executors import Process
    from tests.simulation.network import Cable

Name = tuple[str, str]
"""An application's name and an executor id in it."""


@dataclass(slots=True, eq=False)
class Order:
    """A recovery order as it was written to a socket."""

    names: tuple[str, ...]
    epochs: Mapping[str, int]
    target: "Process"
    cable: "Cable"
    written_at: float
    is_answered: bool = False
    settled_by: "Process | None" = None
    was_target_dead: bool = False
    succeeds_dead: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Evidence:
    """
    Facts by the executor that they are about; moments in seconds of the simulation.

    Attributes:
        known: Executors that Relay has ever recorded.
        died_at: When Relay last declared each dead.
        nothing_at: By application, id and version: the last moment of which Relay has
            been told that nothing was pending.
        remains_at: When Relay was last told that something is pending, unless an order
            has gone out since.
        orders: By request id.
        orders_of: The same, by whom they name, oldest first.
    """

    known: set[Name] = field(default_factory=set)
    died_at: dict[Name, float] = field(default_factory=dict)
    nothing_at: dict[tuple[str, str, str], float] = field(default_factory=dict)
    remains_at: dict[Name, float] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    orders_of: dict[Name, list[Order]] = field(default_factory=dict)
