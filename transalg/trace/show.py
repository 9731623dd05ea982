"""A trace on the terminal."""

import math
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from torch import Tensor

from transalg.formal.tree import Theta
from transalg.trace.export import distribution, summary, visible
from transalg.trace.listing import heading, marked
from transalg.trace.modal import Tokens, labels
from transalg.trace.record import Step, Trace, Value
from transalg.trace.why import why_of

BAR = 32  # cells of the longest bar
BARS = 6  # of a distribution
LOSSES = 24  # bars of a sequence's loss


def show_trace(trace: Trace, console: Console, *, passes: bool = False, brief: bool = False) -> None:
    """Every executed line: number, mathematics, why it is there, what it reads and sets, shapes in symbols and numbers, values shortened.

    Why it is there is said once. `passes` says of every line which pass of its loops it is, for a trace in which the heads of the
    loops are left out. `brief` leaves out why, and what a line reads.
    """
    _print(heading(trace.algorithm), console)
    for symbol, value in trace.inputs.items():
        equals = "" if symbol == "Mask" else " = "  # Mask[t_z,t_x] = …, Mask ≡ 1
        _print(Text.assemble((symbol + equals, "green"), _input(value, trace)), console, hanging=4)
    if trace.sizes:
        sizes = [f"{symbol.replace('ell', 'ℓ')} = {size}" for symbol, size in trace.sizes.items()]
        _print(Text(_listed(sizes, console.width), style="dim"), console)
    entered: set[int] = set()
    explained: set[tuple[str, int]] = set()
    call = 0
    for step in trace.steps:
        if step.depth and step.call != call:
            sign = "│ " if step.call in entered else "╭ "
            path = Text.assemble(sign, (step.path(line=False), "magenta"), f"  {step.algorithm.name}" if step.algorithm.number else "")
            _print(path, console, indent=4 * step.depth - 2, hanging=2)
        entered.add(call := step.call)
        key = step.algorithm.name, step.line.number
        _show_step(step, trace, console, passes and step.depth == 0, why=not brief and key not in explained, operands=not brief)
        explained.add(key)


def _listed(items: Sequence[str], width: int) -> str:
    """The items with commas, on lines that no item is broken by."""
    lines = [""]
    for i, item in enumerate(items):
        item += "," * (i < len(items) - 1)
        if lines[-1] and cell_len(f"{lines[-1]} {item}") > width:
            lines.append(item)
        else:
            lines[-1] = f"{lines[-1]} {item}".lstrip()
    return "\n".join(lines)


def _input(value: list[int] | Tokens | str, trace: Trace) -> str:
    """Token IDs with how they are written; tokens of all modalities likewise; words as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, Tokens):
        return " ".join(map(visible, labels(value.s, trace.vocabulary)))
    return f"{' '.join(_token(v, trace) for v in value)}   (IDs {' '.join(map(str, value))})"


def _token(v: int, trace: Trace) -> str:
    written = trace.vocabulary[v] if 0 <= v < len(trace.vocabulary) else str(v)
    return visible(written)


def _show_step(step: Step, trace: Trace, console: Console, passes: bool, why: bool, operands: bool) -> None:
    margin, inside = 4 * step.depth, 2 * step.line.indent
    row = Text.assemble((f"{step.line.number:>3} ", "cyan"), " " * inside, (step.line.math, "" if step.depth else "bold"))
    row.append(marked(step.algorithm, step.line), "dim")
    loop = step.line.kind in ("for", "while")
    if loop or (passes and step.passes):
        said = {step.symbol: step.value} if loop else step.passes
        row.append(
            "   " + ", ".join(f"{index} {count}" if index == "pass" else f"{index} = {count}" for index, count in said.items()),
            "magenta",
        )
    _print(row, console, indent=margin, hanging=4 + inside + 2)
    indent = margin + 6 + inside
    if why:
        _print(Text(why_of(step.algorithm, step.line), "italic"), console, indent=indent)
    if loop:
        return
    if operands and step.operands:
        _print(Text.assemble(("from ", "dim"), (", ".join(map(_operand, step.operands)), "dim")), console, indent=indent, hanging=2)
    for one in (*step.inner, step):
        _print(_result(one, trace, console.width - indent), console, indent=indent, hanging=2)
        for row in _bars(one) or _likeliest(one, console.width - indent - 2):
            _print(row, console, indent=indent + 2)


def _operand(step: Step) -> str:
    """W_q 8×16; with its numbers, where they are few."""
    value = step.value
    count = f" ({len(value)} of them)" if isinstance(value, list) else ""
    few = isinstance(value, Tensor) and value.ndim == 1 and len(value) <= 4
    return f"{step.symbol}\u00a0{'×'.join(map(str, step.shape or ()))}{count}" + (f" = {shortened(value, columns=4)}" if few else "")


def _bars(step: Step) -> list[Text]:
    """A bar for each of the most probable, or for the loss of every token."""
    value = step.value
    if not isinstance(value, Tensor) or value.ndim != 1 or not step.dims or step.dims[0] not in step.axes:
        return []
    names, numbers = [visible(name) for name in step.axes[step.dims[0]]], value.tolist()
    if len(names) != len(numbers) or not numbers:
        return []
    if distribution(step):
        order = [i for i in sorted(range(len(numbers)), key=lambda i: -numbers[i])[:BARS] if numbers[i] > 0]
    elif step.symbol.startswith("−log"):
        order = list(range(len(numbers)))[:LOSSES]
    else:
        return []
    longest = max((abs(numbers[i]) for i in order if math.isfinite(numbers[i])), default=0) or 1
    wide = max(cell_len(names[i]) for i in order)
    rows = []
    for i in order:
        size = round(8 * BAR * min(1.0, abs(numbers[i]) / longest))
        bar = "█" * (size // 8) + " ▏▎▍▌▋▊▉"[size % 8].strip()
        rows.append(Text.assemble((names[i] + " " * (wide - cell_len(names[i]) + 1), "green"), (bar, "cyan"), f" {_number(numbers[i])}"))
    return [*rows, Text("…", "dim")] if len(rows) < len(numbers) else rows


def _print(text: Text, console: Console, *, indent: int = 0, hanging: int = 0) -> None:
    """A text with a margin, its further lines indented by `hanging` more, without trailing blanks."""
    room = console.width - indent
    rows = text.split("\n") if max(map(cell_len, text.plain.split("\n"))) <= room else text.wrap(console, max(room - hanging, 20))
    for i, row in enumerate(rows):
        row.rstrip()
        console.print(Text.assemble(" " * (indent + (hanging if i else 0)), row), soft_wrap=True)


def _result(step: Step, trace: Trace, width: int) -> Text:
    """X ∈ ℝ^{d_e×ℓ} = 16×9 and the values, as many as there is room for."""
    value = step.value
    if isinstance(value, Theta) and step.symbol.startswith("∇"):
        return Text.assemble((f"‖{step.symbol}‖ = ", "green"), f"{summary(value)['norm']:.5g}")
    if step.symbol == "loss(θ)" and step.line.symbol != "loss(θ)":
        return Text.assemble(("loss(θ) = ", "green"), shortened(value), " at the new θ")
    if isinstance(value, Theta):
        of = summary(value)
        return Text.assemble((step.symbol, "green"), f" has {of['parameters']:,} numbers, ‖{step.symbol}‖ = {of['norm']:.5g}")
    space = Text()
    if step.dims:
        space.append(f"{step.symbol} ∈ ℝ^{{{'×'.join(step.dims)}}} = {'×'.join(map(str, step.shape or ()))}", "green")
        if isinstance(value, list):
            space.append(f" ({len(value)} of them)", "green")
        space.append("  ")
    else:
        space.append(f"{step.symbol} = ", "green")
        if isinstance(value, Tokens):
            return space.append(_input(value, trace))
        if value is None or value == []:
            return space.append("∅")
        if isinstance(value, Tensor) and step.symbol.startswith("T"):  # positions, which the paper counts from 1
            return space.append("{" + ", ".join(str(t + 1) for t in value.tolist()) + "}")
        if isinstance(value, Tensor) and value.ndim == 1:
            return space.append(_input(value.tolist(), trace))
        if step.symbol == "i" and isinstance(value, int):  # an index, which the paper counts from 1
            return space.append(str(value + 1))
        if step.symbol == "y" and isinstance(value, int) and value >= 0:
            return space.append(f"{value}   ({_token(value, trace)})")
    for columns in (6, 5, 4, 3, 2):
        values = shortened(value, rows=2, columns=columns)
        if len(space) + len(values) <= width:
            break
    return space.append(values, "dim" if step.dims else "")


def _likeliest(step: Step, width: int, most: int = 5) -> list[Text]:
    """t → ␣ 0.31, e 0.2, …: the most probable rows of the last column of P, of attention weights; of every mask, if there are any."""
    value = step.value
    if not distribution(step) or not step.dims or not isinstance(value, Tensor):
        return []
    rows = step.axes[step.dims[0]]
    columns = step.axes.get(step.dims[-1], ()) if value.ndim == 2 else ("",)
    if len(rows) != len(value) or len(columns) != value[0].numel():
        return []
    rendered = []
    for t in [t for t, token in enumerate(columns) if token == "mask"][:most] or [len(columns) - 1]:
        p, index = (value[:, t] if value.ndim == 2 else value).topk(min(most, len(value)))
        said = [f"{visible(rows[i])} {_number(number)}" for i, number in zip(index.tolist(), p.tolist(), strict=True)]
        head = f"{visible(columns[t])} → ".lstrip()
        while len(said) > 1 and cell_len(head + ", ".join(said)) > width - 3:
            said.pop()
        rendered.append(Text.assemble((head, "green"), ", ".join(said) + (", …" if len(said) < len(value) else "")))
    return rendered


def shortened(value: Value, rows: int = 2, columns: int = 3) -> str:
    """[a b c …; d e f …; …]: the first numbers of the first rows."""
    if isinstance(value, list):
        return shortened(value[0], rows, columns) + (", …" if len(value) > 1 else "")
    if not isinstance(value, Tensor):
        assert isinstance(value, float | int), f"expected numbers, got {type(value).__name__}"
        return _number(value)
    if value.ndim == 0:
        return _number(value.item())
    if value.ndim == 1:
        return "[" + " ".join(map(_number, value[:columns].tolist())) + (" …]" if columns < len(value) else "]")
    if value.ndim > 2:
        return shortened(value[0], rows, columns) + ", …"
    inner = "; ".join(shortened(row, rows, columns)[1:-1] for row in value[:rows])
    return f"[{inner}{'; …' if len(value) > rows else ''}]"


def _number(number: float) -> str:
    """Three significant digits, with a true minus."""
    text = f"{number + 0.0:.3g}" if isinstance(number, float) else str(number)
    return text.replace("inf", "∞").replace("-", "−")
