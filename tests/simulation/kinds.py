"""The SDKs that take part, as far as they behave differently towards Relay."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    One SDK in one version.

    Attributes:
        reenqueues: A recovery order puts work back on a queue; otherwise it starts it.
        is_serial: It takes one request after another.
        keeps_its_id: A process that is started again has its old executor id, and
            starts its own pending work by itself.
        fails_as_a_whole: One bad row fails a recovery order; otherwise it is skipped,
            and the order succeeds all the same.
        pong_wait: How long it waits for a pong, in seconds.
        backs_off: How long it waits between attempts to connect grows up to 30 s, half
            as much more by chance; otherwise it is always a second.
    """

    language: str
    version: str
    reenqueues: bool
    is_serial: bool
    keeps_its_id: bool = False
    fails_as_a_whole: bool = True
    pong_wait: float = 15.0
    backs_off: bool = False

    def __str__(self) -> str:
        return f"{self.language} {self.version}"


PYTHON: Final = Kind(
    language="python",
    version="3.2.0",
    reenqueues=True,
    is_serial=True,
    fails_as_a_whole=False,
    pong_wait=20.0,
)
TYPESCRIPT: Final = Kind(
    language="typescript", version="5.2.11", reenqueues=True, is_serial=False
)
GO: Final = Kind(
    language="go",
    version="v1.2.0",
    reenqueues=True,
    is_serial=True,
    pong_wait=30.0,
    backs_off=True,
)
JAVA: Final = Kind(language="java", version="1.2.0", reenqueues=False, is_serial=False)
OLD_PYTHON: Final = Kind(
    language="python",
    version="2.20.0",
    reenqueues=False,
    is_serial=True,
    keeps_its_id=True,
    fails_as_a_whole=False,
    pong_wait=20.0,
)
"""Below the floor of safe recovery."""

KINDS: Final = (PYTHON, TYPESCRIPT, GO, JAVA, OLD_PYTHON)
