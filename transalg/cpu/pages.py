"""Large pages for weights: of 2 MiB where Linux offers them on request, instead of 4 KiB.

Decoding a token reads every weight once. With small pages the processor spends a third of that time on looking up where they are.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

PAGE = 2**21
CHUNK = 2**26  # bytes that are taken from the system at a time
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25  # of <linux/mman.h>: large pages from the first write on; large pages for what is written already
Range = tuple[int, int]  # of addresses, without the second

_chunk = torch.empty(0, dtype=torch.uint8)  # the part of the last chunk that nothing has taken


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """As torch.empty, side by side with others in chunks that have large pages. A chunk lives as long as anything in it."""
    global _chunk
    count = dtype.itemsize
    for size in shape:
        count *= size
    if count > len(_chunk):
        _chunk = torch.empty(max(count, CHUNK), dtype=torch.uint8)
        _advise((_chunk.data_ptr(), _chunk.data_ptr() + len(_chunk)), MADV_HUGEPAGE)
    taken, _chunk = _chunk[:count], _chunk[-(-count // 64) * 64 :]
    return taken.view(dtype).view(shape)


@contextmanager
def large_pages() -> Iterator[None]:
    """What has been written to new memory inside is in large pages afterwards: for libraries that take memory themselves."""
    before = _anonymous()
    yield
    for part in _without(_anonymous(), before):
        _advise(part, MADV_HUGEPAGE)
        _advise(part, MADV_COLLAPSE)


def _anonymous() -> list[Range]:
    """The memory of this process that is no file's, in order; none where the system does not say."""
    if not sys.platform.startswith("linux"):
        return []
    ranges = []
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            addresses, access, _, _, _, *name = line.split()
            if access == "rw-p" and (not name or name == ["[heap]"]):
                start, end = addresses.split("-")
                ranges.append((int(start, 16), int(end, 16)))
    return ranges


def _without(ranges: list[Range], others: list[Range]) -> list[Range]:
    """The parts of some ranges that are in none of the others; both are in order."""
    parts = []
    for start, end in ranges:
        for first, last in others:
            if start < last and first < end:
                parts.append((start, first))
                start = last
        parts.append((start, end))
    return [(start, end) for start, end in parts if start < end]


def _advise(part: Range, advice: int) -> None:
    """Tell the system about the large pages that lie in a range. Whether it listens changes nothing but speed."""
    start, end = -(-part[0] // PAGE) * PAGE, part[1] // PAGE * PAGE
    if start < end and sys.platform.startswith("linux"):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)
