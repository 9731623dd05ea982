"""A trace as one self-contained page: the algorithm, and beside it a heat map for every executed line."""

import html
import json
import re
from importlib.resources import files
from typing import Any

from transalg.trace.export import as_data
from transalg.trace.record import Trace
from transalg.trace.source import Algorithm

MARK = re.compile(r"(?<![A-Za-z])(?P<base>argmax|[^\W\d_]\u0303?\u0302?|Σ|[)}])(?P<marks>(?:[_^](?:\{(?:[^{}]|\{[^{}]*\})*\}|e/d|\w+))+)")


def page(trace: Trace) -> str:
    """The whole HTML document."""
    data = as_data(trace, digits=5)  # more would not be seen
    data["given"] = {typeset(symbol): typeset(value) if isinstance(value, str) else value for symbol, value in trace.given.items()}
    for shown in data["steps"]:
        _typeset_step(shown)
    called = {step.algorithm.name: step.algorithm for step in trace.steps}
    data["listings"] = {name: _listing(algorithm) for name, algorithm in called.items()}
    data["sizes"] = {typeset(symbol.replace("ell_max", "ℓ_max")): size for symbol, size in trace.sizes.items()}
    template = files("transalg.trace").joinpath("page.html").read_text(encoding="utf-8")
    title = html.escape(f"{trace.algorithm.kind}: {trace.algorithm.caption}")
    # «</» would end the script element that holds the data
    return template.replace("{{title}}", title).replace(
        "{{data}}", json.dumps(data, ensure_ascii=False, allow_nan=False).replace("</", "<\\/")
    )


def _typeset_step(step: dict[str, Any]) -> None:
    step["math"], step["symbol"] = typeset(step["math"]), typeset(step["symbol"])
    step["dims"] = None if step["dims"] is None else [typeset(dim) for dim in step["dims"]]
    if step["inner"] is not None:
        _typeset_step(step["inner"])


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
                "erratum": line.erratum,
            }
            for line in algorithm.lines
        ],
    }


def typeset(math: str) -> str:
    """The Unicode mathematics of a tag as HTML: W_mlp2^l has its marks below and above, mask_token stays a word."""

    def marks(found: re.Match[str]) -> str:
        rows = {"_": "", "^": ""}
        for sign, braced, bare in re.findall(r"([_^])(?:\{((?:[^{}]|\{[^{}]*\})*)\}|(e/d|\w+?(?=[_^]|$)))", found["marks"]):
            rows[sign] = typeset_inner(braced or bare)
        both = all(rows.values())
        shifted = "".join(f"<{tag}>{rows[sign]}</{tag}>" for sign, tag in (("^", "sup"), ("_", "sub")) if rows[sign])
        return found["base"] + (f'<span class="both">{shifted}</span>' if both else shifted)

    def typeset_inner(text: str) -> str:
        return MARK.sub(marks, text)

    return MARK.sub(marks, html.escape(math, quote=False))
