"""The last count of pending work from the shell."""

import asyncio

from relay.registry import LOCAL_ORGANIZATION
from relay.server import open_offline
from relay.settings import load_settings
from tests.census.findings import find_everything
from tests.cli.command import Run, register


async def prepare(*, has_findings: bool) -> None:
    async with open_offline(load_settings()) as offline:
        await register(offline, "loop")
        if has_findings:
            view = await offline.registry.applications.get("loop")
            assert view.record.ref.organization == LOCAL_ORGANIZATION
            await find_everything(offline.store, view.record.ref)


def test_an_application_that_was_never_counted_says_so(
    run: Run, database: None
) -> None:
    """A dash for what nobody knows yet."""
    asyncio.run(prepare(has_findings=False))

    header, line = run("census").out.splitlines()

    assert header.split() == [
        *("APPLICATION", "COUNTED", "ANSWERED", "BY"),
        *("PENDING", "OWNERS", "DATABASES"),
    ]
    assert line.split() == ["loop", "-", "-", "-", "0", "one"]


def test_findings_are_told_in_tables_and_words(run: Run, database: None) -> None:
    """Who owns what, and who reads which database."""
    asyncio.run(prepare(has_findings=True))

    out = run("census", "--app", "loop").out

    assert "at least 7" in out
    assert "DISPUTED" in out
    [owner] = [line.split() for line in out.splitlines() if "stranger" in line]
    assert owner[:5] == ["loop", "stranger", "v1", "UNKNOWN_OWNER", "3"]
    assert "loop: executors read different databases since 20" in out
    assert "  database 1: a, b\n  database 2: w\n" in out


def test_findings_are_one_object_an_application(run: Run, database: None) -> None:
    """With the names of REST."""
    asyncio.run(prepare(has_findings=True))

    [found] = run("census", "--json").objects

    assert found["application"] == "loop"
    assert (found["answeredBy"], found["complete"]) == ("a", False)
    assert str(found["owners"]).count("stranger") == 1


def test_an_unknown_application_is_refused(run: Run, database: None) -> None:
    """With one line that names it."""
    ran = run("census", "--app", "missing")

    assert ran.status == 1
    assert "'missing' does not exist" in ran.err
