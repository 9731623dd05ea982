"""The numbered lines of the formal algorithms, read from their source without running or importing it."""

import ast
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

FORMAL = Path(__file__).parent.parent / "formal"
FILES = ("components", "architectures", "training", "inference", "variants", "systems")

TAG = re.compile(r"#\s(?P<number>\d+): (?P<math>.*?)(?:  ⟦(?P<name>\S+) ∈ ℝ(?:\^\{(?P<dims>.+)\})?⟧)?(?:  \(erratum (?P<erratum>\d+)\))?$")
HEADING = re.compile(r"(?P<kind>Algorithm (?P<number>\d+)|Variant of Algorithm \d+): (?P<caption>.+)")


@dataclass(frozen=True)
class Line:
    """A numbered line of an algorithm: the paper's mathematics, and the statement that is it."""

    number: int
    math: str
    code: str  # the statement, or the header of a loop; empty for `end`
    indent: int  # how many loops it stands in
    kind: str  # "assign", "for", "while", "return" or "end"
    first: int  # the lines of the file its statement (its header) stands in
    last: int
    stop: int  # the last line of a loop's body; `last` for other statements
    targets: tuple[str, ...] = ()  # the Python variables it sets
    symbol: str | None = None  # what it sets, as ⟦…⟧ names it
    dims: tuple[str, ...] | None = None  # the shape ⟦…⟧ declares; () is a scalar
    inner: str | None = None  # a softmax that is part of its expression
    erratum: int | None = None  # the row of docs/errata.md that says why it is not the paper's line to the letter


@dataclass(frozen=True)
class Algorithm:
    """A formal algorithm as its source has it."""

    number: int | None  # None for a variant
    name: str
    kind: str  # "Algorithm 10" or "Variant of Algorithm 6"
    caption: str
    doc: tuple[str, ...]  # what it computes, its inputs, outputs and parameters
    parameters: tuple[str, ...]  # of the function, as written
    returns: str
    lines: tuple[Line, ...]

    @property
    def summary(self) -> str:
        return self.doc[0] if self.doc and not self.doc[0].startswith(("Input", "Output")) else ""


@cache
def algorithms() -> tuple[Algorithm, ...]:
    """Algorithms 1–15 in the paper's order, then the variants."""
    found = [algorithm for file in FILES for algorithm in _read(FORMAL / f"{file}.py")]
    return tuple(sorted(found, key=lambda algorithm: algorithm.number or len(found)))


def find(which: str) -> Algorithm:
    """The algorithm of this number or name."""

    def folded(name: str) -> str:
        return name.strip().lower().replace("_", "").lstrip("0")

    names = {folded(name): algorithm for algorithm in algorithms() for name in (algorithm.name, str(algorithm.number or algorithm.name))}
    if folded(which) in names:
        return names[folded(which)]
    close = get_close_matches(folded(which), names, n=1)
    hint = f"; did you mean {names[close[0]].name}?" if close else ", or a name that `transalg algorithm` lists"
    raise ValueError(f"there is no algorithm {which!r}: expected a number from 1 to 15{hint}")


def _read(path: Path) -> list[Algorithm]:
    text = path.read_text(encoding="utf-8")
    rows = text.splitlines()
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and (heading := HEADING.match(ast.get_docstring(node) or "")):
            _, *doc = (ast.get_docstring(node) or "").splitlines()
            found.append(
                Algorithm(
                    number=int(heading["number"]) if heading["number"] else None,
                    name=node.name,
                    kind=heading["kind"],
                    caption=heading["caption"],
                    doc=tuple(row.strip() for row in doc if row.strip()),
                    parameters=_parameters(node.args),
                    returns=ast.unparse(node.returns) if node.returns else "",
                    lines=tuple(sorted(_lines(node, rows), key=lambda line: line.first)),
                )
            )
    return found


def _parameters(arguments: ast.arguments) -> tuple[str, ...]:
    """Each parameter with its type and default; `*` before those that are given by keyword."""

    def written(argument: ast.arg, default: ast.expr | None) -> str:
        return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")

    required = len(arguments.args) - len(arguments.defaults)
    positional = [
        written(argument, default) for argument, default in zip(arguments.args, [*[None] * required, *arguments.defaults], strict=True)
    ]
    keyword = [written(argument, default) for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return (*positional, *(["*"] if keyword else []), *keyword)


def _lines(function: ast.FunctionDef, rows: list[str]) -> list[Line]:
    lines = []
    covered: set[int] = set()
    for statement, indent in _statements(function.body[1:], 0):
        last = statement.body[0].lineno - 1 if isinstance(statement, ast.For | ast.While) else statement.end_lineno
        assert last is not None
        covered |= set(range(statement.lineno, last + 1))
        if tag := TAG.search(rows[last - 1]):
            code = "\n".join(rows[statement.lineno - 1 : last])
            code = TAG.sub("", code).rstrip()
            lines.append(_line(tag, code, indent, statement, last))
    for row in range(function.lineno, (function.end_lineno or 0) + 1):
        if row not in covered and rows[row - 1].lstrip().startswith("#") and (tag := TAG.search(rows[row - 1])):
            indent = (len(rows[row - 1]) - len(rows[row - 1].lstrip())) // 4 - 1
            lines.append(Line(int(tag["number"]), tag["math"], "", indent, tag["math"], row, row, row))
    return lines


def _line(tag: re.Match[str], code: str, indent: int, statement: ast.stmt, last: int) -> Line:
    kinds: dict[type[ast.stmt], str] = {ast.For: "for", ast.While: "while", ast.Return: "return"}
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    # The variable a statement sets is the name its target starts with: x_tilde in x_tilde[t] = …
    while isinstance(target, ast.Subscript):
        target = target.value
    names = target.elts if isinstance(target, ast.Tuple) else [target] if target else []
    return Line(
        number=int(tag["number"]),
        math=tag["math"],
        code=code,
        indent=indent,
        kind=kinds.get(type(statement), "assign"),
        first=statement.lineno,
        last=last,
        stop=statement.end_lineno or last,
        targets=tuple(name.id for name in names if isinstance(name, ast.Name)),
        symbol=tag["name"],
        dims=None if not tag["name"] else tuple(tag["dims"].split("×")) if tag["dims"] else (),
        inner=_softmax_inside(statement),
        erratum=int(tag["erratum"]) if tag["erratum"] else None,
    )


def _softmax_inside(statement: ast.stmt) -> str | None:
    whole = getattr(statement, "value", None)
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "softmax" and node is not whole:
            return ast.unparse(node)
    return None


def _statements(body: list[ast.stmt], indent: int) -> list[tuple[ast.stmt, int]]:
    """Every statement of a body, loops before what stands in them."""
    found = []
    for statement in body:
        found.append((statement, indent))
        found += _statements(getattr(statement, "body", []), indent + 1)
    return found
