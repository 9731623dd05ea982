"""An algorithm's source on the terminal, its line numbers those of the paper. Needs no torch."""

import textwrap
from collections.abc import Iterable
from itertools import accumulate

from rich.console import Console, Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from transalg.trace.errata import Erratum, errata_of
from transalg.trace.source import Algorithm, Definition, Line, difference, find
from transalg.trace.why import why_of


def heading(algorithm: Algorithm) -> Text:
    summary = f"\n{algorithm.summary}" if algorithm.summary else ""
    return Text.assemble((f"{algorithm.kind}  ", "bold cyan"), (algorithm.caption, "bold"), summary)


def show_list(algorithms: Iterable[Algorithm], definitions: Iterable[Definition], console: Console) -> None:
    """Number, name and title of every algorithm; then the variants, and what is defined by a formula."""
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
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("Definition", style="bold", no_wrap=True)
    table.add_column("formula", overflow="fold")
    for one in definitions:
        table.add_row(one.name, Text(one.doc[0]))  # no markup: Mask[t_z,t_x]
    console.print(table)
    console.print()
    console.print(Text("transalg algorithm 10 (or a name) shows one, transalg trace 10 runs it.", style="dim"))


def show_definition(definition: Definition, console: Console) -> None:
    """The formula, what else there is to say, and Python."""
    console.print(Text.assemble((definition.name, "bold cyan"), f"  formal/{definition.module}.py\n"))
    for part in definition.doc:
        console.print(Text(part))
        console.print()
    rows = (row for one in definition.source.splitlines() for row in _wrapped(one, console.width))
    console.print(_code("\n".join(rows)))


def show_errata(errata: Iterable[Erratum], console: Console) -> None:
    """Number, place, and what the paper says there, on a row or two each."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right", style="bold cyan", no_wrap=True)
    table.add_column("where", style="bold", max_width=24)
    table.add_column("the paper")
    for erratum in errata:
        table.add_row(str(erratum.number), Text(erratum.where), Text(textwrap.shorten(erratum.paper, 96, placeholder=" …")))
    console.print(table)
    console.print(Text("\ntransalg errata 7 (or another number) says what transalg does.", style="dim"))


def show_erratum(erratum: Erratum, console: Console) -> None:
    """One in full, with the lines it concerns."""
    console.print(Text.assemble((f"Erratum {erratum.number}  ", "bold cyan"), (erratum.where, "bold"), "\n"))
    for name, text in (
        ("Paper", erratum.paper),
        ("transalg", erratum.decision),
        ("Test", f"{erratum.test} in tests/formal/test_errata.py"),
    ):
        console.print(Text.assemble((f"{name}: ", "bold"), text))
    for name, numbers in erratum.lines.items():
        algorithm = find(name)
        console.print(Text.assemble("\n", (algorithm.kind, "bold cyan"), f"  {algorithm.name}"))
        for number in numbers:
            console.print(Text(f"{number:>4} {algorithm.lines[number - 1].math}"))


def marked(algorithm: Algorithm, line: Line) -> str:
    """The errata that concern a line: «  (erratum 3)»."""
    numbers = [str(erratum.number) for erratum in errata_of(algorithm, line)]
    return f"  ({'errata' if len(numbers) > 1 else 'erratum'} {', '.join(numbers)})" if numbers else ""


def show_source(algorithm: Algorithm, console: Console, *, why: bool = False) -> None:
    """The docstring as the paper's head of an algorithm, then every line: number, mathematics, Python, and why it is there if `why`."""
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
        table.add_row(str(line.number), _row(algorithm, line, console.width - 3))
        if why:
            margin = "    " * (line.indent + 1)
            rows = textwrap.wrap(why_of(algorithm, line), console.width - 4, initial_indent=margin, subsequent_indent=margin)
            table.add_row("", Text("\n".join([*rows, ""])))
    console.print(table)


def show_difference(system: Algorithm, console: Console) -> None:
    """A system as the paper's algorithm with some lines replaced: those that go, those that come, and Python for the latter."""
    console.print(heading(system))
    console.print()
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for before, after in difference(system):
        margin = "    " * after.indent
        if before.math == after.math:
            table.add_row("", str(after.number), Text(margin + after.math, style="dim"))
            continue
        table.add_row("−", str(before.number), Text(margin + before.math, style="red"))
        table.add_row("+", str(after.number), Text(margin + after.math, style="green"))
        rows = (row for one in after.code.splitlines() for row in _wrapped(f"{margin}    {one}", console.width - 6))
        table.add_row("", "", _code("\n".join(rows)))
    console.print(table)
    paper = system.kind.removeprefix("Variant of ")
    console.print(Text(f"\n−: {paper} of the paper; +: {system.name}. With --full all of its lines.", style="dim"))


def _row(algorithm: Algorithm, line: Line, width: int) -> RenderableType:
    """The mathematics, and below it Python, as in the source; wrapped where they are too wide."""
    margin = "    " * (line.indent + 1)
    math = line.math + marked(algorithm, line)
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
