"""The lock that keeps a second server away from an SQLite file."""

import multiprocessing
import os
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from relay.errors import StoreLockedError
from relay.store.lockfile import LockFile


def hold(path: Path, pipe: Connection) -> None:
    with LockFile(path):
        pipe.send("held")
        pipe.recv()
        os._exit(1)  # as a crash would: nothing is cleaned up


def test_a_second_server_is_told_who_has_the_file(tmp_path: Path) -> None:
    """The error names the file and the process, and the holder keeps its lock."""
    path = tmp_path / "relay.db"

    with LockFile(path):
        for _ in range(2):
            with pytest.raises(StoreLockedError, match=str(path)) as caught:
                LockFile(path).__enter__()
            assert caught.value.process == str(os.getpid())

    with LockFile(path):
        pass


def test_the_lock_ends_with_the_process(tmp_path: Path) -> None:
    """A server that crashed leaves nothing to clean up."""
    path = tmp_path / "relay.db"
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=hold, args=(path, theirs))
    process.start()
    assert ours.recv() == "held"

    with pytest.raises(StoreLockedError) as caught:
        LockFile(path).__enter__()
    assert caught.value.process == str(process.pid)

    ours.send("crash")
    process.join()
    with LockFile(path):
        pass


def test_other_files_are_not_locked(tmp_path: Path) -> None:
    """Two servers on two files do not meet."""
    with LockFile(tmp_path / "one.db"), LockFile(tmp_path / "two.db"):
        pass
