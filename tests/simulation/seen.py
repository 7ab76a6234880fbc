"""What the simulations have to bring about so that the laws say something."""

from typing import Final

from tests.simulation.kinds import KINDS

BY_THE_ADVERSARY: Final = {
    "kill",
    "power off",
    "orderly end",
    "start again",
    "twin",
    "poisoned",
    "rollout",
    "reset",
    "mass reset",
    "hang-up",
    "late close",
    "freeze",
    "partition: IN",
    "partition: OUT",
    "partition: IN and OUT",
    "lost reply: recovery",
    "lost reply: exist_pending_workflows",
    "lost reply: list_workflows",
    "mood: failing",
    "mood: hollow",
    "mood: slow",
    "outage: REFUSED",
    "outage: HUNG",
    "trouble: UNDONE",
    "trouble: UNKNOWN",
    "database clock jump",
    "wall clock jump",
    "stall",
    "Relay stopped",
    "Relay killed",
    "Relay off",
    "start failed",
    "stale news",
    "settings",
}

BY_RELAY: Final = {
    "HEALTHY",
    "DISCONNECTED",
    "DEAD",
    "WAITING",
    "READY",
    "ORDERED",
    "BACKOFF",
    "STRANDED",
    "BRAKED",
    "DONE",
    "RETURNED",
    "delete",
    "reopen",
    *(f"order to {kind}" for kind in KINDS),
}

EVERYTHING: Final = BY_THE_ADVERSARY | BY_RELAY
