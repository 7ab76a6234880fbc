"""
A test of the liveness machine that reads like the conversation it checks.

::

    with Playbook(policy) as play:
        play.feed(ExecutorConnected(at=NOON, connection_id=FIRST))
        play.expect(RecordHealthy(epoch=Epoch(1), connection_id=FIRST))
        play.feed(ConnectionLost(at=NOON, connection_id=OTHER, is_fault=False))
        play.believe(Healthy(epoch=Epoch(1), connection_id=FIRST))

What an event orders must be expected right after it, in order; an event without an
`expect` orders nothing. The two conversations are compared when the block ends.
"""

import difflib
from types import TracebackType
from typing import Self

from relay.liveness.effects import Effect
from relay.liveness.events import Event
from relay.liveness.machine import step
from relay.liveness.policy import LivenessPolicy
from relay.liveness.states import State, Unknown


class Playbook:
    """
    One executor's story, as it went and as it was expected to go.

    `policy` may be changed between two events, as a PATCH of the application does.
    """

    def __init__(self, policy: LivenessPolicy, state: State | None = None) -> None:
        self.policy = policy
        self.state: State = Unknown() if state is None else state
        self._actual: list[str] = []
        self._expected: list[str] = []

    def feed(self, event: Event) -> None:
        """Let `event` happen."""
        result = step(self.state, event, self.policy)
        self.state = result.state
        self._actual.append(f">> {event}")
        self._expected.append(f">> {event}")
        self._actual.extend(f"   << {effect}" for effect in result.effects)

    def expect(self, *effects: Effect) -> None:
        """Expect the last event to have ordered these, in this order."""
        self._expected.extend(f"   << {effect}" for effect in effects)

    def believe(self, state: State) -> None:
        """Expect `state` to be what is believed at this point."""
        self._actual.append(f"   == {self.state}")
        self._expected.append(f"   == {state}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """
        Compare the two conversations, unless the block failed already.

        Raises:
            AssertionError: they differ; its message shows where, `-` for what was
                expected and `+` for what happened.
        """
        if error is None and self._actual != self._expected:
            difference = difflib.ndiff(self._expected, self._actual)
            lines = [line for line in difference if not line.startswith("?")]
            raise AssertionError("the story went another way\n" + "\n".join(lines))
