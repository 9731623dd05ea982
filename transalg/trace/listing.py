"""An algorithm's source on the terminal, its line numbers those of the paper. Needs no torch."""

import textwrap
from collections.abc import Iterable
from itertools import accumulate

from rich.console import Console, Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from transalg.trace.source import Algorithm, Line


def heading(algorithm: Algorithm) -> Text:
    summary = f"\n{algorithm.summary}" if algorithm.summary else ""
    return Text.assemble((f"{algorithm.kind}  ", "bold cyan"), (algorithm.caption, "bold"), summary)


def show_list(algorithms: Iterable[Algorithm], console: Console) -> None:
    """Number, name and title of every algorithm; then the variants."""
    listed = list(algorithms)
    for title, which in (
        ("Algorithm", [a for a in listed if a.number]),
        ("Variant", [a for a in listed if not a.number]),
    ):
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column(title, justify="right", style="bold cyan")
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("title")
        for algorithm in which:
            of = str(algorithm.number or algorithm.kind.removeprefix("Variant of Algorithm ") + "′")
            title = Text.assemble(algorithm.caption, (f"\n{algorithm.summary}" if algorithm.summary else "", "dim"))
            table.add_row(of, algorithm.name, title)
        console.print(table)
        console.print()
    console.print(Text("transalg algorithm 10 (or a name) shows one, transalg trace 10 runs it.", style="dim"))


def show_source(algorithm: Algorithm, console: Console) -> None:
    """The docstring as the paper's head of an algorithm, then every line: number, mathematics, Python."""
    console.print(heading(algorithm))
    console.print()
    for row in algorithm.doc[bool(algorithm.summary) :]:
        name, colon, rest = row.partition(": ")
        styled = Text.assemble((name + colon, "bold"), rest) if name in ("Input", "Output", "Parameters", "Hyperparameters") else Text(row)
        console.print(styled)
    console.print()
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(justify="right", style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("", _code(_header(algorithm, console.width - 3)))
    for line in algorithm.lines:
        table.add_row(str(line.number), _row(line, console.width - 3))
    console.print(table)


def _row(line: Line, width: int) -> RenderableType:
    """The mathematics, and below it Python, as in the source; wrapped where they are too wide."""
    margin = "    " * (line.indent + 1)
    math = line.math + (f"  (erratum {line.erratum})" if line.erratum else "")
    tag = textwrap.wrap(f"{margin}# {math}", width, subsequent_indent=f"{margin}#       ", break_long_words=False)
    rows = (row for one in line.code.splitlines() for row in _wrapped(margin + one, width))
    return Group(Text("\n".join(tag), style="dim italic"), *([_code("\n".join(rows))] if line.code else []))


def _wrapped(row: str, width: int) -> list[str]:
    """A row of Python as rows that fit."""
    hanging = " " * (len(row) - len(row.lstrip()) + 8)
    rows = []
    while len(row) > width and (at := _break(row, width)):
        rows.append(row[:at])
        row = hanging + row[at + 1 :]
    return [*rows, row]


def _break(row: str, width: int) -> int | None:
    """The blank to break a row at: in as few brackets as possible, there before `for`, `if` or `else`, else the last."""
    start = max(len(row) - len(row.lstrip()), row.find(" = ") + 2)
    depths = accumulate((sign in "([{") - (sign in ")]}") for sign in row)
    blanks = [
        (depth, not row.startswith((" for ", " if ", " else "), i), -i)
        for i, depth in enumerate(depths)
        if row[i] == " " and start < i <= width
    ]
    return -min(blanks)[2] if blanks else None


def _header(algorithm: Algorithm, width: int) -> str:
    """`def …:` on one line where it fits, else a parameter a line."""
    end = f") -> {algorithm.returns}:"
    short = f"def {algorithm.name}({', '.join(algorithm.parameters)}{end}"
    return short if len(short) <= width else "\n".join([f"def {algorithm.name}(", *(f"    {one}," for one in algorithm.parameters), end])


def _code(text: str) -> Syntax:
    return Syntax(text, "python", theme="ansi_dark", background_color="default")
