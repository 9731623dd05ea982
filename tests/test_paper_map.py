"""The source of `transalg.formal` is the paper: one statement for each numbered line, in order, complete."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

import transalg

FORMAL = Path(transalg.__file__).parent / "formal"

# What each numbered line of the paper does: the variable it sets, `for`/`while` with what it counts, `end`, `return`.
PAPER = {
    "token_embedding": "return",
    "positional_embedding": "return",
    "single_query_attention": "q k v alpha return",
    "Attention": "Q K V S S return",
    "MHAttention": "Y_h Y return",
    "layer_norm": "m v return",
    "unembedding": "return",
    "EDTransformer": "ell_z e Z for:l Z Z Z Z end ell_x e X for:l X X X X X X end return",
    "ETransformer": "ell e X for:l X X X X end X X return",
    "DTransformer": "ell e X for:l X_tilde X X_tilde X end X return",
    "EDTraining": "for:i for:n ell P loss theta end end return",
    "ETraining": "for:i for:n ell for:t x_tilde end T_tilde P loss theta end end return",
    "DTraining": "for:i for:n ell P loss theta end end return",
    "DInference": "ell for:i P p y x end return",
    "EDInference": "x_hat y while P p y x_hat end return",
}
# The paper's letters in ASCII, where a tag's variable is not spelt like the Python one.
ASCII = {
    "ℓ": "ell", "ℓ_z": "ell_z", "ℓ_x": "ell_x", "e_t": "e", "k_t": "k", "v_t": "v", "α_t": "alpha", "X̃": "X_tilde", "Y^h": "Y_h",
    "P(θ)": "P", "loss(θ)": "loss", "θ": "theta", "x̃_n": "x_tilde", "T̃": "T_tilde", "x̂": "x_hat",
}  # fmt: skip
FILES = ("components", "architectures", "training", "inference")


def functions() -> dict[str, tuple[ast.FunctionDef, dict[int, str]]]:
    """Every function of the formal files that the paper has, with its comments by line."""
    found = {}
    for file in FILES:
        text = (FORMAL / f"{file}.py").read_text(encoding="utf-8")
        comments = {
            t.start[0]: t.string
            for t in tokenize.generate_tokens(io.StringIO(text).readline)
            if t.type == tokenize.COMMENT
        }
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name in PAPER:
                assert node.end_lineno
                # the last `end` of a function is a comment before its return, so it lies within
                found[node.name] = (
                    node,
                    {row: c for row, c in comments.items() if node.lineno <= row <= node.end_lineno},
                )
    return found


def walk(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements in source order; the body of a lambda or comprehension is part of its statement."""
    return [found for statement in body for found in (statement, *walk(getattr(statement, "body", [])))]


def sets(statement: ast.stmt, math: str) -> str:
    """What a Python statement does, in the words of PAPER."""
    if isinstance(statement, ast.Return):
        return "return"
    if isinstance(statement, ast.While):
        return "while"
    if isinstance(statement, ast.For):
        return "for:" + re.match(r"for (\w) = 1, 2, …, \S+ do$", math)[1]
    assert isinstance(statement, ast.Assign), f"not a line of an algorithm: {ast.unparse(statement)}"
    (target,) = statement.targets
    return ast.unparse(target.value if isinstance(target, ast.Subscript) else target)


@pytest.mark.parametrize("name", PAPER)
def test_each_numbered_line_is_one_statement_in_order(name: str) -> None:
    node, comments = functions()[name]
    doc, *body = node.body
    assert isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant)
    rows: dict[int, tuple[str, ast.stmt | None]] = {}
    for statement in walk(body):
        last = (
            statement.body[0].lineno - 1
            if isinstance(statement, ast.For | ast.While)
            else statement.end_lineno
        )
        assert last in comments, f"line {statement.lineno} has no tag: {ast.unparse(statement)}"
        assert not getattr(statement, "orelse", []), "no line of the paper is an else"
        rows[last] = comments.pop(last), statement
    rows |= {row: (comment, None) for row, comment in comments.items()}  # what is left must be the ends
    tags = [rows[row] for row in sorted(rows)]
    lines = PAPER[name].split()
    assert len(tags) == len(lines)
    for number, (line, (comment, statement)) in enumerate(zip(lines, tags, strict=True), start=1):
        tag = re.fullmatch(r"# (\d+): (.+)", comment)
        assert tag and int(tag[1]) == number, f"{name}: expected line {number}, found {comment}"
        math = re.sub(r"  ⟦.*⟧$", "", tag[2])
        if line == "end":
            assert statement is None and math == "end"
        else:
            assert sets(statement, math) == line
            assert math.startswith("return ") == (line == "return")
            if not line.startswith(("return", "for:", "while")):
                written = re.match(r"(?:(?:for t∈\S+|For h∈\[H\]|∀t): |sample a token )?([^\s\[]+)", math)[1]
                written = "S" if math.startswith("∀t_z, t_x, if ¬Mask") else written
                assert ASCII.get(written, written) == line, (
                    f"{name} {number}: the tag sets {written}, Python sets {line}"
                )


@pytest.mark.parametrize("name", PAPER)
def test_ends_close_their_loops(name: str) -> None:
    """An `end` stands right after the body of the loop it closes, indented like the loop."""
    node, comments = functions()[name]
    source = (
        (
            FORMAL
            / next(f"{file}.py" for file in FILES if f"def {name}(" in (FORMAL / f"{file}.py").read_text())
        )
        .read_text()
        .splitlines()
    )
    loops = [statement for statement in walk(node.body[1:]) if isinstance(statement, ast.For | ast.While)]
    ends = [row for row, comment in comments.items() if comment.endswith(": end")]
    closed = []
    for loop in reversed(loops):  # inner loops first
        row = next(
            row
            for row in ends
            if row > loop.end_lineno
            and len(source[row - 1]) - len(source[row - 1].lstrip()) == loop.col_offset
        )
        assert all(r in ends for r in range(loop.end_lineno + 1, row + 1)), (
            "only ends may stand between a loop's body and its end"
        )
        closed.append(row)
    assert sorted(closed) == sorted(ends)


def test_there_are_112_lines() -> None:
    counts = [len(lines.split()) for lines in PAPER.values()]
    assert counts == [1, 1, 5, 6, 3, 3, 1, 21, 12, 11, 9, 13, 9, 8, 9]
    assert sum(counts) == 112


def test_public_names_stand_in_the_papers_order() -> None:
    from transalg import formal

    assert formal.__all__[:15] == list(PAPER)


def test_the_tool_reads_the_same_lines() -> None:
    from transalg.trace.source import algorithms

    numbered = [algorithm for algorithm in algorithms() if algorithm.number]
    assert [(a.number, a.name, len(a.lines)) for a in numbered] == [
        (i, name, len(lines.split())) for i, (name, lines) in enumerate(PAPER.items(), start=1)
    ]
    for algorithm in algorithms():  # the variants keep the same form
        assert [line.number for line in algorithm.lines] == list(range(1, len(algorithm.lines) + 1)), (
            algorithm.name
        )


def test_the_latex_source_has_these_algorithms_and_lines(paper: str) -> None:
    """Counted in the paper itself: its algorithms in order, each with as many numbered lines, ends included."""
    counts = [
        numbered_lines(body)
        for body in re.findall(r"\\begin\{algorithm\*?\}(.*?)\\end\{algorithm\*?\}", paper, re.S)
    ]
    assert counts == [len(lines.split()) for lines in PAPER.values()]


def numbered_lines(body: str) -> int:
    """algorithm2e numbers every statement that ends in \\;, every \\Return, and a loop's head and end."""
    for command in (r"\KwIn", r"\KwOut", r"\KwParam", r"\KwHyper", r"\caption", r"\label", r"\tcc"):
        while command + "{" in body:
            start = body.index(command + "{")
            depth, end = 1, start + len(command) + 1
            while depth:
                depth += {"{": 1, "}": -1}.get(body[end], 0)
                end += 1
            body = body[:start] + body[end:]
    loops = len(re.findall(r"\\(?:For|While)\{", body))
    returns = [line for line in body.splitlines() if r"\Return" in line]
    return body.count(r"\;") - sum(line.count(r"\;") for line in returns) + len(returns) + 2 * loops
