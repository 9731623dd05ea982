"""Keep the memory a training step has used for the next one, and say how much it was."""

import ctypes
import sys

import torch

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
NEVER, LARGEST = -1, 2**31 - 1


def keep_memory() -> bool:
    """Let the C library keep freed memory in this process; True if it does.

    By default glibc gives blocks of some megabytes back to the system as soon as they are free. A training step on a CPU frees and takes
    the same blocks each time, and the system clears every page again: a tenth of a step or more (docs/benchmarks.md). Other C libraries have no such setting.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST) and mallopt(M_TRIM_THRESHOLD, NEVER))


def peak_memory(device: torch.device) -> int | None:
    """The most bytes that this process has had, on a GPU its tensors; None where the system does not say."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
