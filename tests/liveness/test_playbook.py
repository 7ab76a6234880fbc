"""The playbook itself: a test tool that passes everything proves nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from relay.ids import ConnectionId, Epoch
from relay.liveness.effects import RecordHealthy, ReturnFromRecovery
from relay.liveness.events import ExecutorConnected
from relay.liveness.policy import LivenessPolicy
from relay.liveness.states import Unknown
from relay.testing.playbook import Playbook

POLICY = LivenessPolicy(grace=timedelta(seconds=1), fault_grace=timedelta(seconds=1))
FIRST = ConnectionId("first")
CONNECTED = ExecutorConnected(at=datetime(2026, 1, 1, tzinfo=UTC), connection_id=FIRST)


def test_playbook_shows_what_was_expected_and_what_happened() -> None:
    """A story that went another way is shown line by line, with both versions."""

    def tell() -> None:
        with Playbook(POLICY) as play:
            play.feed(CONNECTED)
            play.expect(RecordHealthy(epoch=Epoch(7), connection_id=FIRST))

    with pytest.raises(AssertionError) as failure:
        tell()

    lines = str(failure.value).splitlines()
    assert f"  >> {CONNECTED}" in lines
    assert "-    << RecordHealthy(epoch=7, connection_id='first')" in lines
    assert "+    << RecordHealthy(epoch=1, connection_id='first')" in lines
    assert f"+    << {ReturnFromRecovery()}" in lines


def test_playbook_complains_about_an_effect_nobody_expected() -> None:
    """An event without an expectation must order nothing."""
    with pytest.raises(AssertionError, match="ReturnFromRecovery"):
        with Playbook(POLICY) as play:
            play.feed(CONNECTED)


def test_playbook_complains_about_another_state() -> None:
    """What is believed is compared too."""
    with pytest.raises(AssertionError, match=r"- +== Unknown"):  # noqa: PT012 - the end of the block fails
        with Playbook(POLICY) as play:
            play.feed(CONNECTED)
            play.expect(
                RecordHealthy(epoch=Epoch(1), connection_id=FIRST), ReturnFromRecovery()
            )
            play.believe(Unknown())


def test_playbook_lets_the_failure_of_its_block_pass() -> None:
    """A failure inside the story is not hidden by the comparison."""

    def tell() -> None:
        with Playbook(POLICY) as play:
            play.feed(CONNECTED)
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        tell()
