"""Recoveries from the shell."""

import asyncio
import sqlite3
from contextlib import closing

from relay.ids import RecoveryId
from tests.cli.command import Ran, Run, order_recovery


def test_recoveries_are_listed_and_shown(run: Run, recovery_id: str) -> None:
    """A table for people, objects for programs, and the story of one."""
    (listed,) = run("recoveries", "list", "--json").objects

    assert listed["id"] == recovery_id
    assert (listed["state"], listed["executorId"]) == ("READY", "gone")
    assert recovery_id in run("recoveries", "list", "--app", "loop", "--open").out
    assert recovery_id not in run("recoveries", "list", "--state", "DONE").out
    shown = run("recoveries", "show", recovery_id).out
    assert "recovery.request" in shown
    assert shown.count("loop") == 2  # as a fact, and as the target of the entry
    (told,) = run("recoveries", "show", recovery_id, "--json").objects
    assert str(told["story"]).count("recovery.request") == 1


def test_a_held_recovery_says_why_and_until_when(
    run: Run, recovery_id: RecoveryId
) -> None:
    """Right after a start nothing is wrong, and the operator reads so."""
    reason = "no orders yet: Relay has just started"
    with closing(sqlite3.connect(".relay/relay.db")) as connection:
        connection.execute(
            "UPDATE recovery SET reason = ?, next_attempt_at = 4102444800000000",
            [reason],
        )
        connection.commit()

    for words in (("list",), ("show", recovery_id)):
        out = run("recoveries", *words).out
        assert reason in out
        assert "2100-01-01T00:00:00Z" in out


def test_facts_of_a_recovery_are_told_in_words(
    run: Run, recovery_id: RecoveryId
) -> None:
    """No values of Python: lists with commas, yes and no, a dash for nothing."""
    before = run("recoveries", "show", recovery_id).out
    with closing(sqlite3.connect(".relay/relay.db")) as connection:
        connection.execute(
            'UPDATE recovery SET is_verified = 0, pending_ids = \'["w-1","w-2"]\','
            " pending_count = 101"
        )
        connection.commit()
    after = run("recoveries", "show", recovery_id).out

    def facts(text: str) -> dict[str, str]:
        lines = text.split("\n\n")[0].splitlines()
        return {line[:20].strip(): line[21:] for line in lines}

    names = ("verified", "their ids", "pending workflows", "last order to")
    assert [facts(before)[name] for name in names] == ["-"] * 4
    assert [facts(after)[name] for name in names] == [
        "no",
        "w-1, w-2",
        "more than 100",
        "-",
    ]
    assert "more than 100" in run("recoveries", "list").out


def test_suspects_of_the_crash_brake_are_told(
    run: Run, recovery_id: RecoveryId
) -> None:
    """Which workflow, what it is called, and what became of its executors."""
    with closing(sqlite3.connect(".relay/relay.db")) as connection:
        connection.execute(
            "UPDATE recovery SET state = 'BRAKED', brake_level = 1,"
            ' suspect_ids = \'["w-1", "w-2"]\''
        )
        connection.execute(
            "INSERT INTO workflow_loss SELECT application_id, 'w-1', 'charge', 4,"
            " 1767268800000000, NULL FROM recovery"
        )
        connection.commit()

    (listed,) = run("recoveries", "list", "--json").objects
    told = run("recoveries", "show", recovery_id).out

    assert listed["suspects"] == [
        {
            "workflowId": "w-1",
            "name": "charge",
            "losses": 4,
            "lastLostAt": "2026-01-01T12:00:00.000Z",
        },
        {"workflowId": "w-2", "name": None, "losses": None, "lastLostAt": None},
    ]
    assert (
        "w-1 (charge): 4 executors lost in a row, the last at 2026-01-01T12:00:00Z"
    ) in told
    suspects = [line[21:] for line in told.splitlines() if line.startswith("suspect")]
    assert suspects[1] == "w-2"


def test_a_recovery_may_be_named_by_the_beginning_of_its_id(
    run: Run, recovery_id: RecoveryId
) -> None:
    """As long as it means one; otherwise the ids that it could mean are told."""
    other = asyncio.run(order_recovery("other"))
    with closing(sqlite3.connect(".relay/relay.db")) as connection:
        for start, identity in (("aaaa1", recovery_id), ("aaaa2", other)):
            connection.execute(
                "UPDATE recovery SET id = ? || substr(id, 6) WHERE id = ?",
                [start, identity],
            )
        connection.commit()
    first, second = f"aaaa1{recovery_id[5:]}", f"aaaa2{other[5:]}"

    (shown,) = run("recoveries", "show", "aaaa1", "--json").objects
    retried = run("recoveries", "retry", "aaaa2")
    abandoned = run("recoveries", "abandon", "aaaa1", "--reason", "test is over")
    ambiguous = run("recoveries", "show", "aaaa")

    assert shown["id"] == first
    assert retried.out == f"recovery {second} is READY\n"
    assert abandoned.out == f"recovery {first} is ABANDONED\n"
    assert ambiguous == Ran(
        1, "", f"relay: 'aaaa': several ids begin like this: {first}, {second}\n"
    )


def test_recoveries_are_retried_and_abandoned(run: Run, recovery_id: str) -> None:
    """Both are audited; an abandoned one is closed for good."""
    retried = run("recoveries", "retry", recovery_id)
    abandoned = run("recoveries", "abandon", recovery_id, "--reason", "test is over")
    again = run("recoveries", "retry", recovery_id)

    assert (retried.status, retried.out) == (0, f"recovery {recovery_id} is READY\n")
    assert abandoned.out == f"recovery {recovery_id} is ABANDONED\n"
    assert again.status == 1
    assert "ABANDONED already" in again.err
    assert run("recoveries", "list", "--open", "--json").objects == []
    operations = [entry["operation"] for entry in run("audit", "--json").objects]
    assert operations[-2:] == ["recovery.release", "recovery.abandon"]
