"""The numbered lines of the formal algorithms, read from their source without running or importing it.

A tag stands on a comment line of its own: `# 6: X ← X + MHAttention(X̃ | 𝒲_l, Mask)`. The statements below it, up to
the next tag, are that line of the algorithm. An `end` is a tag alone.
"""

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

FORMAL = Path(__file__).parent.parent / "formal"

TAG = re.compile(r"\s*# (?P<number>\d+): (?P<math>.*?)(?:  ⟦(?P<name>\S+) ∈ ℝ(?:\^\{(?P<dims>.+)\})?⟧)?(?:  \(erratum (?P<erratum>\d+)\))?")
HEADING = re.compile(r"(?P<kind>Algorithm (?P<number>\d+)|Variant of Algorithm \d+): (?P<caption>.+)")
KINDS: dict[type[ast.stmt], str] = {ast.For: "for", ast.While: "while", ast.Return: "return", ast.Assign: "assign"}


@dataclass(frozen=True)
class Part:
    """A part of a line's expression that is worth seeing, though the paper gives it no line: attention weights, q, ∇loss(θ)."""

    math: str
    code: str
    dims: tuple[str, ...] | None = None  # None: those of a variable in it
    tokens: str = ""  # Python for the token IDs that stand along it


@dataclass(frozen=True)
class Line:
    """A numbered line of an algorithm: the paper's mathematics, and the statement that is it."""

    number: int
    math: str
    code: str  # all that stands below the tag, of a loop its header; empty for `end`
    indent: int  # how many loops it stands in
    kind: str  # "assign", "for", "while", "return" or "end"
    first: int  # the rows of the file that its statement (its header) stands in
    last: int
    stop: int  # the last row of a loop's body; `last` for other statements
    targets: tuple[str, ...] = ()  # the Python variables it sets
    symbol: str | None = None  # what it sets, as ⟦…⟧ names it
    dims: tuple[str, ...] | None = None  # the shape ⟦…⟧ declares; () is a scalar
    inner: tuple["Part", ...] = ()  # what its expression computes on the way
    operands: tuple[str, ...] = ()  # the Python variables and fields of θ that it reads
    erratum: int | None = None  # the entry of docs/errata.md that says why it is not the paper's line to the letter


@dataclass(frozen=True)
class Algorithm:
    """A formal algorithm as its source has it."""

    number: int | None  # None for a variant
    name: str
    module: str  # the file of `formal` that defines it
    kind: str  # "Algorithm 10" or "Variant of Algorithm 6"
    caption: str
    doc: tuple[str, ...]  # what it computes, its inputs, outputs and parameters
    parameters: tuple[str, ...]  # of the function, as written
    returns: str
    lines: tuple[Line, ...]

    @property
    def system(self) -> bool:
        """Whether it is one of the paper's architectures with some lines replaced, each under the number it has there."""
        return self.module == "decoders" or self.name == "Gato"

    @property
    def summary(self) -> str:
        return self.doc[0] if self.doc and not self.doc[0].startswith(("Input", "Output")) else ""


@dataclass(frozen=True)
class Definition:
    """A function that the paper defines in its text, or a variant that is a formula: no numbered lines."""

    name: str
    module: str
    doc: tuple[str, ...]  # the formula, then what else there is to say
    source: str  # Python, without the docstring


@cache
def algorithms() -> tuple[Algorithm, ...]:
    """Algorithms 1–15 in the paper's order, then the variants by file."""
    unordered = [algorithm for path in sorted(FORMAL.glob("*.py")) for algorithm in _read(path)]
    return tuple(sorted(unordered, key=lambda algorithm: algorithm.number or len(unordered)))


DEFINING = (
    "notation",
    "mask",
    "positions",
    "heads",
    "norm",
    "mlp",
    "bias",
    "embedding",
    "unembedding",
    "sharing",
    "systems",
    "resnet",
    "gato",
)  # files, in the order of the paper


@cache
def definitions() -> tuple[Definition, ...]:
    """softmax, GELU, the masks, the sinusoids …: by file, in the order of their source."""
    return tuple(one for module in DEFINING for one in _defined(FORMAL / f"{module}.py"))


def find(which: str) -> Algorithm:
    """The algorithm of this number or name."""
    names = _algorithms_by_name()
    if _folded(which) in names:
        return names[_folded(which)]
    raise _unknown(which, {folded: algorithm.name for folded, algorithm in names.items()})


def find_all(which: str) -> Sequence[Algorithm | Definition]:
    """The algorithm of this number or name, or the definition; all definitions of a file of `formal` for its name, Mask say."""
    names = _algorithms_by_name()
    if _folded(which) in names:
        return [names[_folded(which)]]
    defined = {_folded(one.name): one for one in definitions()}
    if _folded(which) in defined:
        return [defined[_folded(which)]]
    if of_file := [one for one in definitions() if one.module == _folded(which)]:
        return of_file
    known = {folded: algorithm.name for folded, algorithm in names.items()} | {folded: one.name for folded, one in defined.items()}
    raise _unknown(which, known | {"mask": "Mask"})


def difference(system: Algorithm) -> list[tuple[Line, Line]]:
    """Every line of the paper's algorithm with the line that a system has in its place."""
    paper = find(system.kind.removeprefix("Variant of Algorithm "))
    return list(zip(paper.lines, system.lines, strict=True))


def _folded(name: str) -> str:
    """As people may write it: mask.sparse is sparse, d_transformer is DTransformer."""
    return re.sub(r"[\s_-]", "", name.lower().rpartition(".")[2]).lstrip("0")


def _without_pragmas(code: str) -> str:
    """Without comments that are for tools, not for readers."""
    return re.sub(r"  # (type: ignore|noqa).*$", "", code, flags=re.MULTILINE)


def _algorithms_by_name() -> dict[str, Algorithm]:
    return {_folded(name): one for one in algorithms() for name in (one.name, str(one.number or one.name))}


def _unknown(which: str, known: dict[str, str]) -> ValueError:
    likely = [] if which.isdecimal() else get_close_matches(_folded(which), known, n=3)
    close = list(dict.fromkeys(known[one] for one in likely))
    hint = f"; did you mean {' or '.join(close)}?" if close else ", or a name that `transalg algorithm` lists"
    return ValueError(f"there is no algorithm {which!r}: expected a number from 1 to 15{hint}")


def _defined(path: Path) -> Iterator[Definition]:
    """The public functions of a file that are no algorithms."""
    text = path.read_text(encoding="utf-8")
    rows = text.splitlines()
    for node in ast.parse(text).body:
        doc = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") else None
        if doc and not HEADING.match(doc):
            assert isinstance(node, ast.FunctionDef)
            said = node.body[0]
            source = rows[node.lineno - 1 : said.lineno - 1] + rows[said.end_lineno : node.end_lineno]
            yield Definition(
                node.name, path.stem, tuple(" ".join(part.split()) for part in doc.split("\n\n")), _without_pragmas("\n".join(source))
            )


def _read(path: Path) -> Iterator[Algorithm]:
    text = path.read_text(encoding="utf-8")
    rows = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and (heading := HEADING.match(ast.get_docstring(node) or "")):
            _, *doc = (ast.get_docstring(node) or "").splitlines()
            yield Algorithm(
                number=int(heading["number"]) if heading["number"] else None,
                name=node.name,
                module=path.stem,
                kind=heading["kind"],
                caption=heading["caption"],
                doc=_joined(doc),
                parameters=_parameters(node.args, text),
                returns=ast.get_source_segment(text, node.returns) or "" if node.returns else "",
                lines=tuple(sorted([*_lines(node.body[1:], rows, 0), *_ends(node, rows)], key=lambda line: line.first)),
            )


def _joined(doc: list[str]) -> tuple[str, ...]:
    """What an algorithm computes, then each of its inputs, outputs and parameters, on a row each however long it is."""
    joined: list[str] = []
    for row in filter(None, map(str.strip, doc)):
        if not joined or re.match(r"(Input|Output|Parameters|Hyperparameters): ", row):
            joined.append(row)
        else:
            joined[-1] += f" {row}"
    return tuple(joined)


def _parameters(arguments: ast.arguments, text: str) -> tuple[str, ...]:
    """Each parameter with its type and default; `*` before those that are given by keyword."""

    def written(argument: ast.arg, default: ast.expr | None) -> str:
        return " = ".join(ast.get_source_segment(text, node) or "" for node in (argument, default) if node)

    required = len(arguments.args) - len(arguments.defaults)
    defaults = [*[None] * required, *arguments.defaults]
    positional = [written(argument, default) for argument, default in zip(arguments.args, defaults, strict=True)]
    keyword = [written(argument, default) for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    rest = [f"**{written(arguments.kwarg, None)}"] if arguments.kwarg else []
    return (*positional, *(["*"] if keyword else []), *keyword, *rest)


def _lines(body: list[ast.stmt], rows: list[str], indent: int) -> Iterator[Line]:
    """The tagged lines of a body, and of the loops in it."""
    tagged: list[tuple[re.Match[str], list[ast.stmt]]] = []
    for statement in body:
        if tag := TAG.fullmatch(rows[statement.lineno - 2]):
            tagged.append((tag, []))
        assert tagged, f"line {statement.lineno}: expected a tag above {ast.unparse(statement)}"
        tagged[-1][1].append(statement)
    for tag, statements in tagged:
        yield _line(tag, statements, rows, indent)
        if isinstance(loop := statements[-1], ast.For | ast.While):
            yield from _lines(loop.body, rows, indent + 1)


def _ends(function: ast.FunctionDef, rows: list[str]) -> Iterator[Line]:
    for row in range(function.lineno, (function.end_lineno or 0) + 1):
        if (tag := TAG.fullmatch(rows[row - 1])) and tag["math"] == "end":
            indent = (len(rows[row - 1]) - len(rows[row - 1].lstrip())) // 4 - 1
            yield Line(int(tag["number"]), "end", "", indent, "end", row, row, row)


def _line(tag: re.Match[str], statements: list[ast.stmt], rows: list[str], indent: int) -> Line:
    """A tag and what stands below it: the last statement that is no `if` sets what the tag says, the others serve it."""
    main = [statement for statement in statements if not isinstance(statement, ast.If)][-1]
    target = main.targets[0] if isinstance(main, ast.Assign) else getattr(main, "target", None)
    # The variable a statement sets is the name its target starts with: x_tilde in x_tilde[t] = …
    while isinstance(target, ast.Subscript):
        target = target.value
    names = target.elts if isinstance(target, ast.Tuple) else [target] if target else []
    return Line(
        number=int(tag["number"]),
        math=tag["math"],
        code=_without_pragmas(textwrap.dedent("\n".join(rows[statements[0].lineno - 1 : _last(statements[-1])]))),
        indent=indent,
        kind=KINDS[type(main)],
        first=main.lineno,
        last=_last(main),
        stop=main.end_lineno or main.lineno,
        targets=tuple(name.id for name in names if isinstance(name, ast.Name)),
        symbol=tag["name"],
        dims=None if not tag["name"] else tuple(tag["dims"].split("×")) if tag["dims"] else (),
        inner=tuple(_parts(main, tag["math"])),
        operands=_operands(main),
        erratum=int(tag["erratum"]) if tag["erratum"] else None,
    )


def _last(statement: ast.stmt) -> int:
    """The last row of a statement, of a loop that of its header: a tag stands between it and the body."""
    if isinstance(statement, ast.For | ast.While):
        return statement.body[0].lineno - 2
    return statement.end_lineno or statement.lineno


def _parts(statement: ast.stmt, math: str) -> Iterator[Part]:
    """The softmax, q ∝ p^{1/τ}, the gradient, or the terms of the sum that the loss is."""
    expression = getattr(statement, "value", None)  # of a loop none: its body has lines of its own
    for node in ast.walk(expression) if expression is not None else ():
        if not isinstance(node, ast.Call) or node is expression:
            continue
        called = ast.unparse(node.func)
        if called == "softmax":
            written = re.search(r"softmax\(.*?\)", math)
            yield Part(written[0] if written else ast.unparse(node), ast.unparse(node))
        elif called == "tempered":
            yield Part("q", ast.unparse(node))
        elif called.startswith("grad("):
            yield Part("∇loss(θ)", ast.unparse(node), ())
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "sum" and math.startswith("loss(θ)"):
            terms = re.search(r"−Σ_\{(?P<over>.+?)\}(?:\^\{(?P<last>.+?)\})? (?P<term>.+)", math)
            index = next((one.slice for one in ast.walk(node) if isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Tuple)), None)
            assert terms and isinstance(index, ast.Tuple), f"expected a sum over tokens, got {math}"
            many = terms["last"] or f"|{terms['over'].partition('∈')[2]}|"
            yield Part(f"−{terms['term']}", f"-{ast.unparse(node.func.value)}", (many,), ast.unparse(index.elts[0]))


def _operands(statement: ast.stmt) -> tuple[str, ...]:
    """X and layer.W_mlp1, in the order in which they stand; not what a comprehension or lambda counts."""
    read = statement.iter if isinstance(statement, ast.For) else getattr(statement, "value", None)
    if read is None:
        return ()
    bound = {node.id for node in ast.walk(read) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(read) if isinstance(node, ast.arg)}
    codes: list[tuple[int, int, str]] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr not in ("T", "shape", "to"):
            codes.append((node.lineno, node.col_offset, ast.unparse(node)))
        elif isinstance(node, ast.Name):
            codes.append((node.lineno, node.col_offset, node.id))
        else:
            for child in ast.iter_child_nodes(node):
                visit(child)

    visit(read)
    return tuple(dict.fromkeys(code for _, _, code in sorted(codes) if code.partition(".")[0] not in bound))
