"""How much memory there is, and what is said when there is too little. No torch.

>>> in_bytes(1_500_000), in_bytes(12), in_bytes(3.2e12)
('1.5 MB', '12 bytes', '3.2 TB')
"""

import os
import re
from contextlib import suppress
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")  # a container's limit: memory.max, of which memory.current is used
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "Unable to allocate")
ASKED = re.compile(r"allocate ([\d.]+) ?(bytes|[KMGTP]iB)")
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def in_bytes(size: float) -> str:
    """A size with three digits and a unit."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000 or unit == "PB":
            break
        size /= 1000
    return f"{size:,.3g} {unit}"


def available() -> float | None:
    """Bytes that a process can still have: what the system has free, within the limits of this process and its container; None if none of them says."""
    sizes = [size for size in (_free(), _of_group(), _of_process()) if size is not None]
    return min(sizes) if sizes else None


def _free() -> float | None:
    with suppress(OSError, ValueError, KeyError):
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines() if ":" in line)
        return 1024.0 * sum(int(lines[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    with suppress(OSError, ValueError, AttributeError):
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return None


def _of_group() -> float | None:
    with suppress(OSError, ValueError):
        return float(int((GROUP / "memory.max").read_text()) - int((GROUP / "memory.current").read_text()))
    return None


def _of_process() -> float | None:
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        return float(max(0, limit - used))
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Python's MemoryError, NumPy's, and torch's RuntimeError of that meaning."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY))


def out_of_memory(error: BaseException, what: str = "", smaller: str = "") -> str:
    """What was being made, how much was asked for, and what would make it smaller."""
    asked = ASKED.search(str(error))
    more = f", {in_bytes(float(asked[1]) * UNITS[asked[2]])} more were asked for" if asked else ""
    there = available()
    free = f", {in_bytes(there)} are free" if there is not None else ""
    return f"memory: there is too little{f' for {what}' if what else ''}{more}{free}; {smaller or 'use smaller numbers, or fewer texts at a time'}"
