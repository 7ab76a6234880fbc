"""What happened, line by line, and which law it broke."""

from collections import Counter, deque
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

KEPT_LINES: Final = 4000


@dataclass(frozen=True, slots=True)
class Broken(Exception):  # noqa: N818 - a law is broken, that is its name
    """A law did not hold."""

    law: str
    what: str

    def __str__(self) -> str:
        return f"law {self.law} is broken: {self.what}"


@dataclass(slots=True)
class Script:
    """
    The story of one simulation.

    Attributes:
        lines: The newest lines, to be read by people.
        seen: How often each kind of thing happened.
    """

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    seen: Counter[str] = field(default_factory=Counter)
    _hash: "Hash" = field(default_factory=sha256)

    def add(self, at: float, actor: str, text: str) -> None:
        """One thing that happened at that moment, in seconds since the beginning."""
        line = f"{at:12.3f}  {actor:<12} {text}"
        self.lines.append(line)
        self._hash.update(line.encode())

    @property
    def digest(self) -> str:
        """Stands for the whole story: two that differ anywhere have different ones."""
        return self._hash.hexdigest()

    def tell(self, lines: int) -> str:
        """The newest lines as one text."""
        return "\n".join(list(self.lines)[-lines:])
