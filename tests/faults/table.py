"""The table of what was tried and what held, and where it stands in a page."""

from collections.abc import Iterable
from pathlib import Path

BEGIN, END = "<!-- counts -->", "<!-- end of counts -->"


def table(rows: Iterable[tuple[str, int, int]]) -> str:
    """Markdown: kind of damage, tried, held; and their sums."""
    listed = list(rows)
    total = ("**all**", sum(tried for _, tried, _ in listed), sum(held for *_, held in listed))
    lines = ["| what was done | tried | held |", "| --- | ---: | ---: |"]
    return "\n".join([*lines, *(f"| {kind} | {tried:,} | {held:,} |" for kind, tried, held in (*listed, total))])


def write(path: Path, text: str) -> None:
    """Put a table between the two marks of a page."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{path}: expected the marks {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
