"""Memory in large pages: nothing shows but speed, so these tests watch what the system is asked for."""

import pytest
import torch

from transalg.cpu import pages
from transalg.cpu.pages import CHUNK, MADV_COLLAPSE, MADV_HUGEPAGE, PAGE, Range


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Range, int]]:
    asked: list[tuple[Range, int]] = []
    monkeypatch.setattr(pages, "_advise", lambda part, advice: asked.append((part, advice)))
    monkeypatch.setattr(pages, "_chunk", torch.empty(0, dtype=torch.uint8))
    return asked


def test_matrices_lie_side_by_side_in_a_chunk(advised: list[tuple[Range, int]]) -> None:
    shapes = [((3, 5), torch.float32), ((7,), torch.float64), ((2, 11), torch.float32)]
    parts = [pages.empty(shape, dtype).fill_(i) for i, (shape, dtype) in enumerate(shapes)]
    assert [(tuple(part.shape), part.dtype) for part in parts] == shapes
    assert all((part == i).all() for i, part in enumerate(parts)), "none overlaps another"
    ((start, end), advice), *others = advised
    assert not others and advice == MADV_HUGEPAGE and end - start == CHUNK
    assert all(start <= part.data_ptr() and part.data_ptr() + part.nbytes <= end and part.data_ptr() % 8 == 0 for part in parts)


def test_a_matrix_that_no_chunk_holds_has_its_own(advised: list[tuple[Range, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "CHUNK", 128)
    first, second, third = (pages.empty((count,), torch.float32) for count in (16, 301, 3))
    assert [end - start for (start, end), _ in advised] == [128, 4 * 301, 128]
    assert first.storage_offset() == second.storage_offset() == third.storage_offset() == 0


def test_what_is_taken_inside_is_collapsed(advised: list[tuple[Range, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    mappings = iter([[(10, 20), (40, 50)], [(5, 25), (40, 50), (60, 70)]])
    monkeypatch.setattr(pages, "_anonymous", lambda: next(mappings))
    with pages.large_pages():
        assert not advised
    assert advised == [(part, advice) for part in ((5, 10), (20, 25), (60, 70)) for advice in (MADV_HUGEPAGE, MADV_COLLAPSE)]


@pytest.mark.parametrize(
    ("ranges", "others", "parts"),
    [
        ([(0, 10)], [], [(0, 10)]),
        ([(0, 10)], [(0, 10)], []),
        ([(0, 10)], [(2, 3), (5, 7)], [(0, 2), (3, 5), (7, 10)]),
        ([(4, 10), (12, 20)], [(0, 6), (9, 14)], [(6, 9), (14, 20)]),
    ],
)
def test_ranges_without_others(ranges: list[Range], others: list[Range], parts: list[Range]) -> None:
    assert pages._without(ranges, others) == parts


def test_the_system_is_told_of_large_pages_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Library:
        def __init__(self, name: None) -> None: ...

        def madvise(self, start: object, length: object, advice: int) -> None:
            asked.append((start.value, length.value, advice))

    monkeypatch.setattr(pages.ctypes, "CDLL", Library)
    monkeypatch.setattr(pages.sys, "platform", "linux")
    pages._advise((PAGE + 1, 4 * PAGE - 1), MADV_HUGEPAGE)
    assert asked == [(2 * PAGE, PAGE, MADV_HUGEPAGE)]
    pages._advise((PAGE + 1, 2 * PAGE + 5), MADV_HUGEPAGE)  # no page lies in it
    monkeypatch.setattr(pages.sys, "platform", "win32")
    pages._advise((0, 4 * PAGE), MADV_HUGEPAGE)
    assert len(asked) == 1 and pages._anonymous() == []


def test_memory_is_where_the_system_says() -> None:
    ours = torch.ones(2**22)
    ranges = pages._anonymous()
    assert not ranges or any(start <= ours.data_ptr() < end for start, end in ranges)
