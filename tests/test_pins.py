"""What is installed is what was locked: the same pins everywhere, by their hashes."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "requirements"


def pins(lock: Path) -> dict[str, list[str]]:
    """The version and the hashes of each locked requirement, by its name."""
    found = re.findall(r"^(\S+?)==(.*(?:\n    .*)*)", lock.read_text(), re.MULTILINE)
    # The first word is the version; between it and the hashes a condition may stand.
    return {
        name: [rest.split()[0], *re.findall(r"--hash=(\S+)", rest)]
        for name, rest in found
    }


@pytest.mark.parametrize("name", ["build", "server"])
def test_what_is_shipped_is_what_is_tested(name: str) -> None:
    """Every pin of the image is one of the environment that the tests run in."""
    shipped, tested = pins(LOCKS / f"{name}.txt"), pins(LOCKS / "dev.txt")

    assert shipped
    assert {package: tested.get(package) for package in shipped} == shipped


@pytest.mark.parametrize(
    "lock", sorted(LOCKS.glob("*.txt")), ids=lambda lock: lock.stem
)
def test_locks_name_hashes_and_no_index(lock: Path) -> None:
    """They work with whatever index a machine is set up for."""
    assert all(len(pin) > 1 for pin in pins(lock).values())
    assert not re.search(r"index|https?:", lock.read_text())


def test_the_image_installs_only_what_is_locked() -> None:
    """Each pip either asks for hashes or takes nothing but our own wheel."""
    recipe = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
    commands = re.findall(r"pip (?:install|wheel) [^&\n]*", recipe)

    assert len(commands) == 4
    for command in commands:
        assert "--require-hashes" in command or "--no-deps" in command, command
        assert "--no-build-isolation" in command or "wheel " not in command, command
    assert not re.search(r"index-url|https?://(?!127)", recipe)
