"""
Runs one PostgreSQL server for as long as the tests that started this script live.

    python postgres_keeper.py DIRECTORY UID GID COMMAND...

The server ends when standard input says `stop`, and also when it ends without a word:
then the tests were killed, and their directory is removed as well. UID and GID are -1
to keep those of the tests.
"""

import shutil
import signal
import subprocess
import sys
from typing import Any


def main() -> None:
    directory, uid, gid, *command = sys.argv[1:]
    identity: dict[str, Any] = {}
    if int(uid) >= 0:
        identity = {"user": int(uid), "group": int(gid), "extra_groups": []}
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, cwd=directory, **identity
    )
    is_orderly = sys.stdin.readline() == "stop\n"
    server.send_signal(signal.SIGINT)
    try:
        server.wait(timeout=20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    if not is_orderly:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
