"""A trace on the terminal."""

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text
from torch import Tensor

from transalg.formal.theta import Theta
from transalg.trace.export import summary
from transalg.trace.listing import heading
from transalg.trace.record import Step, Trace


def show_trace(trace: Trace, console: Console) -> None:
    """Every executed line: number, mathematics, the variable it set, its shape in symbols and numbers, the values shortened."""
    console.print(heading(trace.algorithm))
    if trace.sizes:
        console.print(
            Text(", ".join(f"{symbol} = {size}" for symbol, size in trace.sizes.items()), style="dim")
        )
    call = None
    for step in trace.steps:
        if step.call != call and step.depth:
            which = "".join(f"  {index} = {count}" for index, count in step.passes.items())
            console.print(
                Padding(
                    Text.assemble(
                        "╭ ", (f"{step.algorithm.kind} ", "bold"), step.algorithm.name, (which, "magenta")
                    ),
                    (0, 0, 0, _margin(step) - 2),
                )
            )
        call = step.call
        _show_step(step, console)


def _margin(step: Step) -> int:
    return 4 * step.depth


def _show_step(step: Step, console: Console) -> None:
    margin = _margin(step)
    indent = margin + 4 + 2 * step.line.indent
    row = Text.assemble(
        (f"{step.line.number:>3} ", "cyan"),
        " " * (2 * step.line.indent),
        (step.line.math, "bold" if not step.depth else ""),
    )
    if step.line.kind in ("for", "while"):
        row.append(
            f"   {step.symbol} {step.value}"
            if step.line.kind == "while"
            else f"   {step.symbol} = {step.value}",
            "magenta",
        )
        console.print(Padding(row, (0, 0, 0, margin), expand=False))
        return
    console.print(Padding(row, (0, 0, 0, margin), expand=False))
    console.print(Padding(_result(step, console.width - indent - 2), (0, 0, 0, indent + 2), expand=False))


def _result(step: Step, width: int) -> Text:
    """X ∈ ℝ^{d_e×ℓ} = 16×9 and the values, as many as there is room for."""
    if isinstance(step.value, Theta):
        of = summary(step.value)
        return Text.assemble(
            (step.symbol, "green"), f" has {of['parameters']:,} numbers, ‖{step.symbol}‖ = {of['norm']:.5g}"
        )
    space = Text()
    if step.dims:
        space.append(
            f"{step.symbol} ∈ ℝ^{{{'×'.join(step.dims)}}} = {'×'.join(map(str, step.shape or ()))}", "green"
        )
        if isinstance(step.value, list):
            space.append(f" ({len(step.value)} of them)", "green")
        space.append("  ")
    elif step.shape:
        space.append(
            f"{step.symbol} ∈ V^{step.shape[0]} = " if step.symbol[0] in "xyzx̃x̂" else f"{step.symbol} = ",
            "green",
        )
    else:
        space.append(f"{step.symbol} = ", "green")
    for columns in (6, 5, 4, 3, 2):
        values = shortened(step.value, rows=2, columns=columns)
        if len(space) + len(values) <= width:
            break
    return space.append(values, "dim" if step.dims else "")


def shortened(value: Any, rows: int = 2, columns: int = 3) -> str:
    """[a b c …; d e f …; …]: the first numbers of the first rows."""
    if isinstance(value, list):
        return shortened(value[0], rows, columns) + (", …" if len(value) > 1 else "")
    if not isinstance(value, Tensor):
        return _number(value)
    if value.ndim == 0:
        return _number(value.item())
    if value.ndim == 1:
        shown = value if not value.is_floating_point() and len(value) <= 24 else value[:columns]
        return "[" + " ".join(map(_number, shown.tolist())) + (" …]" if len(shown) < len(value) else "]")
    if value.ndim > 2:
        return shortened(value[0], rows, columns) + ", …"
    inner = "; ".join(shortened(row, rows, columns)[1:-1] for row in value[:rows])
    return f"[{inner}{'; …' if len(value) > rows else ''}]"


def _number(number: float) -> str:
    """Three significant digits, with a true minus."""
    text = f"{number:.3g}" if isinstance(number, float) else str(number)
    return text.replace("inf", "∞").replace("-", "−")
