"""The memory of training: whether there is enough, before anything is made; kept from one step to the next; and how much it was."""

import ctypes
import sys

import torch

from transalg.hyper import Hyper
from transalg.hyper.cost import activations, checkpointed_activations, parameters
from transalg.memory import available, in_bytes
from transalg.runs.config import Train

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
NEVER, LARGEST = -1, 2**31 - 1
MOMENTS = {"adamw": 2, "muon": 1}  # numbers for every parameter; Muon has two for some
SMALLER = {
    "weights": "a smaller --model.d-e, --model.d-mlp, --model.L, --model.ell-max or --vocab-size takes less",
    "activations": "a smaller --train.batch-size or --train.batch-tokens takes less, and so do --train.accumulate and --train.recompute",
}


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


def least_memory(hyper: Hyper, options: Train, tokens: float, ell: float) -> dict[str, float]:
    """Bytes that training takes at least, by what takes them, with so many tokens in a batch and ℓ in a row; as `cost` counts them."""
    model, number = 4.0 * parameters(hyper), 2 if options.dtype == "bfloat16" else 4
    kept = (checkpointed_activations if options.recompute else activations)(hyper, max(1, round(ell)))
    return {
        "weights and gradients": 2 * model,
        "the optimiser": MOMENTS.get(options.optimizer or "", 0) * model,
        "activations": kept * tokens / len(hyper.stacks) / options.accumulate * number,
    }


def check_memory(hyper: Hyper, options: Train, tokens: float, ell: float, processes: int = 1) -> None:
    """A ValueError if this machine cannot have what training takes at least: better before an hour of tokenising than after it."""
    there = _there(options.device)
    parts = {name: size / processes for name, size in least_memory(hyper, options, tokens, ell).items()}
    if there is None or sum(parts.values()) <= there:
        return
    largest = max(parts, key=lambda name: parts[name])
    smaller = SMALLER["activations" if largest == "activations" else "weights"]
    raise ValueError(
        f"memory: training takes at least {in_bytes(sum(parts.values()))}, {in_bytes(parts[largest])} of it for {largest} "
        f"({in_bytes(parameters(hyper)).removesuffix(' bytes').rstrip('B')} parameters), and {in_bytes(there)} are free; {smaller}"
    )


def _there(device: str) -> float | None:
    """Bytes that are free where the model will be."""
    if device.startswith("cuda") or (device == "auto" and torch.cuda.is_available()):
        return float(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else None
    return available()


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
