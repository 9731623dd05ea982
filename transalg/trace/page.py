"""A trace as one self-contained page: the algorithm, and beside it a heat map for every executed line."""

import html
import json
import re
from base64 import b64encode
from dataclasses import replace
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from transalg.trace.errata import ERRATA, errata_of
from transalg.trace.export import as_data, distribution, plain
from transalg.trace.record import Step, Trace, Value
from transalg.trace.source import Algorithm
from transalg.trace.why import why_of

TOKENS = 48  # rows of a heat map whose names can still be read
NUMBERS = 2**15  # of a value whose rows are features
CORNER = 64  # rows and columns of an operand

UNSAFE = re.compile("[<\u2028\u2029\ud800-\udfff]")  # in a script element, in a line of JavaScript, in UTF-8
MARK = re.compile(r"(?<![A-Za-z])(?P<base>argmax|[^\W\d_]\u0303?\u0302?|Σ|[)}])(?P<marks>(?:[_^](?:\{(?:[^{}]|\{[^{}]*\})*\}|e/d|\w+))+)")


def page(trace: Trace) -> str:
    """The whole HTML document."""
    pool: dict[str, int] = {}  # a matrix that many lines read is in the page once
    shown = [_shown(step) for step in trace.steps]
    data = as_data(replace(trace, steps=[step for step, _ in shown]), lambda value: packed(value, pool))
    for step, of, (_, part) in zip(data["steps"], trace.steps, shown, strict=True):
        step |= {"part": part, "shape": None if of.shape is None else list(of.shape)}
        for one, before in zip(step["operands"] + step["inner"], of.operands + of.inner, strict=True):
            one["shape"] = None if before.shape is None else list(before.shape)
        _typeset_step(step)
    data["pool"] = list(pool)
    data["inputs"] = {typeset(symbol): typeset(value) if isinstance(value, str) else value for symbol, value in data["inputs"].items()}
    called = {step.algorithm.name: step.algorithm for step in trace.steps}
    data["listings"] = {name: _listing(algorithm) for name, algorithm in called.items()}
    data["errata"] = {erratum.number: [typeset(text) for text in (erratum.where, erratum.paper, erratum.decision)] for erratum in ERRATA}
    data["sizes"] = {typeset(symbol.replace("ell_max", "ℓ_max")): size for symbol, size in trace.sizes.items()}
    template = files("transalg.trace").joinpath("page.html").read_text(encoding="utf-8")
    title = html.escape(f"{trace.algorithm.kind}: {trace.algorithm.caption}")
    return template.replace("{{title}}", title).replace("{{data}}", embedded(data))


def embedded(data: Any) -> str:
    """JSON inside of a script element: nothing in a text ends the element, or begins a comment or another element in it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return UNSAFE.sub(lambda sign: f"\\u{ord(sign.group()):04x}", text)


def _shown(step: Step) -> tuple[Step, str]:
    """A step with what the page shows of its values, and a word on what that is."""
    step, part = _part(step)
    return replace(step, operands=[_corner(one) for one in step.operands], inner=[_part(one)[0] for one in step.inner]), part


def _corner(step: Step) -> Step:
    """An operand that is not too large to stand beside others: its first rows and columns."""
    value = step.value
    if isinstance(value, list):
        return replace(step, value=[one[:CORNER] for one in value[:CORNER]])
    if not isinstance(value, Tensor) or step.dims is None or max(value.shape) <= CORNER:
        return step
    axes = {dim: names[:CORNER] for dim, names in step.axes.items() if dim in step.dims}
    return replace(step, value=value[tuple(slice(CORNER) for _ in value.shape)], axes=axes)


def _part(step: Step) -> tuple[Step, str]:
    """What is shown of a value that has too many rows, and a word on it: the most probable tokens, or the first features."""
    value = step.value
    if not isinstance(value, Tensor) or not step.dims or value.ndim != len(step.dims) or not value.numel():
        return step, ""
    rows = step.dims[0]
    if rows == "N_V" and distribution(step) and len(value) > TOKENS:
        best = (value if value.ndim == 1 else value.amax(dim=1)).argsort(descending=True).tolist()
        last = value.reshape(len(value), -1)[:, -1].argsort(descending=True)[: TOKENS // 4].tolist()
        keep = list(dict.fromkeys([*last, *best]))[:TOKENS]  # what follows the last token comes first
        names = [step.axes[rows][v] for v in keep]
        return replace(step, value=value[keep], axes=step.axes | {rows: names}), f"the {TOKENS} most probable tokens"
    most = NUMBERS // max(1, value[0].numel()) if value.ndim == 2 else min(8, NUMBERS // max(1, value[0].numel()))
    if value.ndim > 1 and rows not in step.axes and len(value) > max(1, most):
        return replace(step, value=value[: max(1, most)]), f"the first {max(1, most)} of {rows}"
    return step, ""


def packed(value: Value, pool: dict[str, int] | None = None) -> Any:
    """Vectors and matrices as float32 in base64, which is shorter than digits, by their place in `pool` if any; else as JSON has it."""
    stacked = torch.stack(value) if isinstance(value, list) and value and isinstance(value[0], Tensor) else value
    if isinstance(stacked, Tensor) and stacked.ndim and (stacked.is_floating_point() or stacked.dtype == torch.bool):
        numbers = stacked.to(torch.float32).contiguous().numpy().astype("<f4")
        text = b64encode(numbers.tobytes()).decode()
        return {"shape": list(stacked.shape), "float32": text if pool is None else pool.setdefault(text, len(pool))}
    return plain(value, digits=5)  # more would not be seen


def _typeset_step(step: dict[str, Any]) -> None:
    step["math"], step["path"] = typeset(step["math"]), typeset(step["path"])
    for one in (step, *step["operands"], *step["inner"]):
        one["symbol"] = typeset(one["symbol"])
        one["dims"] = None if one["dims"] is None else [typeset(dim) for dim in one["dims"]]


def _listing(algorithm: Algorithm) -> dict[str, object]:
    return {
        "kind": algorithm.kind,
        "caption": typeset(algorithm.caption),
        "doc": [typeset(row) for row in algorithm.doc],
        "lines": [
            {
                "number": line.number,
                "math": typeset(line.math),
                "code": line.code.strip(),
                "indent": line.indent,
                "errata": [erratum.number for erratum in errata_of(algorithm, line)],
                "why": typeset(why_of(algorithm, line)),
            }
            for line in algorithm.lines
        ],
    }


def typeset(math: str) -> str:
    """The Unicode mathematics of a tag as HTML: W_mlp2^l has its marks below and above, mask_token stays a word."""

    def marks(mark: re.Match[str]) -> str:
        rows = {"_": "", "^": ""}
        for sign, braced, bare in re.findall(r"([_^])(?:\{((?:[^{}]|\{[^{}]*\})*)\}|(e/d|\w+?(?=[_^]|$)))", mark["marks"]):
            rows[sign] = typeset_inner(braced or bare)
        both = all(rows.values())
        shifted = "".join(f"<{tag}>{rows[sign]}</{tag}>" for sign, tag in (("^", "sup"), ("_", "sub")) if rows[sign])
        return mark["base"] + (f'<span class="both">{shifted}</span>' if both else shifted)

    def typeset_inner(text: str) -> str:
        return MARK.sub(marks, text)

    return MARK.sub(marks, html.escape(math, quote=False))
