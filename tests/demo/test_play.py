"""The demo as a program."""

import os
import signal
import subprocess
import sys


def test_the_demo_ends_quietly_when_nobody_reads_it() -> None:
    """`make demo | head` is no fault; its processes end with it."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as output:
        ended = subprocess.run(
            [sys.executable, "-m", "demo"],
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )

    assert ended.returncode == 128 + signal.SIGPIPE
    assert ended.stderr == b""
