"""A lock that keeps a second server away from an SQLite file."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from relay.errors import StoreLockedError


class LockFile:
    """
    The exclusive right to serve one SQLite file, held while the block runs.

    The lock is the kernel's, on a file beside the database: it ends with the process,
    however that ends, so a stale one cannot exist. The file itself stays (removing it
    would let two processes lock two files of one name) and holds the id of the process
    that took it last.
    """

    def __init__(self, database_path: Path) -> None:
        self._database_path = database_path
        self._lock_path = database_path.with_name(f"{database_path.name}.lock")
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        """
        Take the lock.

        Raises:
            StoreLockedError: another server has it. Waiting does not help.
            OSError: the directory is missing, or nothing may be written to it.
        """
        descriptor = os.open(
            self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StoreLockedError(
                str(self._database_path), process=holder or None
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        self._descriptor = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
