"""What this machine is good for: how many threads, and which arithmetic. What is chosen is written to config.toml, so that a run resumes with it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Literal

import torch
from torch.nn.functional import gelu, linear

STAT = Path("/proc/stat")
CPU_MAX = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of processor time, or max, in so many of time
LOOK = 0.3  # seconds
BFLOAT16_WIDTH = 192  # d_e from which on bfloat16 was faster: docs/training.md
FASTER = 1.1  # times as fast as float32: less is noise
FEATURES = ("avx512_bf16", "amx_tile")  # of CPUs that multiply in bfloat16


def busy_cores(seconds: float = LOOK) -> float:
    """How many cores other processes use: over a short time, or over the last minute where the system does not say; 0 if it says nothing."""
    try:
        before, start, mine = _busy_time(), time.perf_counter(), time.process_time()
        time.sleep(seconds)
        used = (_busy_time() - before) - (time.process_time() - mine)
        return max(0.0, used / (time.perf_counter() - start))
    except (OSError, ValueError, IndexError):
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _busy_time() -> float:
    """Seconds that all cores together have worked since the system started."""
    user, nice, system, _, _, irq, softirq, steal = map(int, STAT.read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def usable_cores() -> int:
    """How many cores this process may use: not all, where it is bound to some of them or where a container has a quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CPU_MAX.read_text().split()
        return max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):  # there is no such file, or it says max
        return cores


def choose_threads(most: int, cores: int, busy: Callable[[], float] = busy_cores) -> tuple[int, str | None]:
    """How many of at most `most` threads find a core that is free, and a line that says why they are fewer.

    A step waits for the slowest of its threads, so one that shares its core makes all of them slow.

    >>> choose_threads(2, 2, lambda: 0.8)
    (1, '1 thread: the other core is busy')
    """
    if most == 1:
        return 1, None
    used = min(cores, round(busy()))
    threads = max(1, min(most, cores - used))
    if threads == most:
        return most, None
    why = ("both cores are busy" if used == 2 else "the other core is busy") if cores == 2 else f"{used} of {cores} cores are busy"
    return threads, f"{threads} thread{'s' if threads > 1 else ''}: {why}"


def computes_in_bfloat16(device: torch.device) -> bool:
    """Whether a device has instructions for bfloat16."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and any(getattr(torch.cpu, f"_is_{feature}_supported", lambda: False)() for feature in FEATURES)


def choose_dtype(d_e: int, native: bool, speed: Callable[[], float]) -> tuple[Literal["float32", "bfloat16"], str | None]:
    """bfloat16 where it is native and faster, and a line that says so.

    Not every CPU that has the instructions is faster with them, so what `speed` measures decides, and is asked for only where they are.
    """
    if native and d_e >= BFLOAT16_WIDTH and (gain := speed()) >= FASTER:
        return "bfloat16", f"bfloat16: {gain:.1f} times as fast as float32 here; --train.dtype float32 is exact"
    return "float32", None


def bfloat16_speed(d_e: int, device: torch.device, tokens: int = 256, rounds: int = 5) -> float:
    """How many times as fast as in float32 the MLP of a layer is trained in bfloat16: the two take turns, and the median counts."""
    wide, narrow = (torch.full(shape, 0.01, device=device, requires_grad=True) for shape in ((4 * d_e, d_e), (d_e, 4 * d_e)))
    X = torch.ones(tokens, d_e, device=device, requires_grad=True)

    def seconds(bfloat16: bool) -> float:
        start = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            Y = linear(gelu(linear(X, wide)), narrow)
        torch.autograd.backward(Y.float().mean())
        float(wide.grad[0, 0])  # type: ignore[index]  # a GPU has computed it then
        return time.perf_counter() - start

    seconds(False), seconds(True)  # the first ones allocate
    return median(seconds(False) / seconds(True) for _ in range(rounds))


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """In the block, numbers below 1.2e-38 are 0 to this thread and to threads that begin there, where the CPU can do so.

    CPUs compute with such numbers many times as slowly, and the gradients of a model whose attention is sharp are full of them: a step
    of a small Gato took twice as long (docs/benchmarks.md).
    """
    before = flushes_denormals()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def flushes_denormals() -> bool:
    """Whether such numbers are 0 to this thread now."""
    return float(torch.tensor(2e-38) * 0.5) == 0.0
