"""What the figures were measured on."""

import os
import platform
import resource
from importlib.metadata import version
from pathlib import Path

from relay.clock import SystemClock

_LIBRARIES = ("uvicorn", "uvloop", "websockets", "fastapi", "sqlalchemy", "aiosqlite")


def describe_machine() -> dict[str, object]:
    """Facts without which a figure means nothing; no name of the machine."""
    return {
        "measured_at": SystemClock().now().isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _read_processor(),
        "memory_gib": round(_read_memory_bytes() / 2**30, 1),
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "load_before": round(os.getloadavg()[0], 2),
    }


def _read_processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _read_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
