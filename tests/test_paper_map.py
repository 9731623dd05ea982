"""The source of `transalg.formal` is the paper: one statement for each numbered line, in order, complete."""

import ast
import io
import re
import tokenize
import unicodedata
from pathlib import Path

import pytest
from rich.cells import cell_len

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
# The lines that are more than one statement: what stands beside the one that does the paper's line, and why it may.
BESIDE = {
    ("ETraining", 4): "x_tilde = x_n.clone()",  # what the loop fills
    ("ETraining", 5): "p = 0.0 if int(x_n[t]) in theta.special_tokens.values() else p_mask",  # erratum 12
    ("DInference", 6): "if y == stop:\n    break",  # erratum 8
}


def functions() -> dict[str, tuple[ast.FunctionDef, dict[int, str], list[str]]]:
    """Every function of the formal files that the paper has, with its comments by row and the rows of its file."""
    by_name = {}
    for path in FORMAL.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        comments = {t.start[0]: t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and node.name in PAPER:
                assert node.end_lineno and node.name not in by_name
                # the last `end` of a function is a comment before its return, so it lies within
                inside = {row: comment for row, comment in comments.items() if node.lineno <= row <= node.end_lineno}
                by_name[node.name] = node, inside, text.splitlines()
    return by_name


def walk(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements in source order; the body of a lambda, a comprehension or an `if` is part of its statement."""
    inner = [walk(statement.body) if isinstance(statement, ast.For | ast.While) else [] for statement in body]
    return [one for statement, below in zip(body, inner, strict=True) for one in (statement, *below)]


def bare(tag: str) -> str:
    """The mathematics of a tag, without its ⟦shape⟧ and (erratum)."""
    return re.sub(r"(  ⟦\S+ ∈ ℝ[^⟧]*⟧)?(  \(erratum \d+\))?$", "", tag)


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
    node, comments, source = functions()[name]
    doc, *body = node.body
    assert isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant)
    assert all(source[row - 1].strip() == comment for row, comment in comments.items()), "a comment stands on a line of its own"
    below: dict[int, list[ast.stmt]] = {row: [] for row in comments}  # by the row of the tag
    for statement in walk(body):
        above = max(row for row in comments if row < statement.lineno)
        assert below[above] or above == statement.lineno - 1, f"line {statement.lineno} has no tag: {ast.unparse(statement)}"
        assert statement.col_offset == len(source[above - 1]) - len(source[above - 1].lstrip())
        assert not getattr(statement, "orelse", []), "no line of the paper is an else"
        below[above].append(statement)
    lines = PAPER[name].split()
    assert len(below) == len(lines)
    for number, (line, row) in enumerate(zip(lines, sorted(below), strict=True), start=1):
        tag = re.fullmatch(r"# (\d+): (.+)", comments[row])
        assert tag and int(tag[1]) == number, f"{name}: expected line {number}, got {comments[row]}"
        statements, math = below[row], bare(tag[2])
        if line == "end":
            assert not statements and math == "end"
            continue
        if (name, number) in BESIDE:
            (beside,) = (one for one in statements if ast.unparse(one) == BESIDE[name, number])
            statements.remove(beside)
        (statement,) = statements
        assert sets(statement, math) == line
        assert math.startswith("return ") == (line == "return")
        if not line.startswith(("return", "for:", "while")):
            written = re.match(r"(?:(?:for t∈\S+|For h∈\[H\]|∀t): |sample a token )?([^\s\[]+)", math)[1]
            written = "S" if math.startswith("∀t_z, t_x, if ¬Mask") else written
            assert ASCII.get(written, written) == line, f"{name} {number}: the tag sets {written}, Python sets {line}"


@pytest.mark.parametrize("name", PAPER)
def test_ends_close_their_loops(name: str) -> None:
    """An `end` stands right after the body of the loop it closes, indented like the loop."""
    node, comments, source = functions()[name]
    loops = [statement for statement in walk(node.body[1:]) if isinstance(statement, ast.For | ast.While)]
    ends = [row for row, comment in comments.items() if comment.endswith(": end")]
    closed = []
    for loop in reversed(loops):  # inner loops first
        row = next(row for row in ends if row > loop.end_lineno and len(source[row - 1]) - len(source[row - 1].lstrip()) == loop.col_offset)
        assert all(r in ends for r in range(loop.end_lineno + 1, row + 1)), "only ends may stand between a loop's body and its end"
        closed.append(row)
    assert sorted(closed) == sorted(ends)


def test_code_and_tags_fit_in_110_columns() -> None:
    for path in FORMAL.glob("*.py"):
        for number, row in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            assert cell_len(row) <= 110, f"{path.name}:{number} has {cell_len(row)} columns"


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
        assert [line.number for line in algorithm.lines] == list(range(1, len(algorithm.lines) + 1)), algorithm.name


# Tags that say something else than the paper's line, and the erratum they carry.
DEPARTURES = {
    ("layer_norm", 3): "return ê = (e − m)/√(v + ε) ⊙ γ + β",
    ("EDTransformer", 13): "for l = 1, 2, …, L_dec do",
}
# Lines whose tag is the paper's while the statement does more: each carries its erratum too.
MORE = {
    ("ETraining", 5),
    ("DInference", 3),
    ("DInference", 4),
    ("DInference", 6),
    ("EDInference", 2),
    ("EDInference", 3),
}


def test_departures_carry_their_erratum() -> None:
    marked = {
        (name, int(tag[1]))
        for name, (_, comments, _) in functions().items()
        for comment in comments.values()
        if (tag := re.match(r"# (\d+): .*\(erratum \d+\)$", comment))
    }
    assert marked == DEPARTURES.keys() | MORE


def test_every_tag_is_the_papers_line(paper: str) -> None:
    """The 112 tags, compared with the LaTeX source sign by sign."""
    bodies = re.findall(r"\\begin\{algorithm\*?\}(.*?)\\end\{algorithm\*?\}", paper, re.S)
    assert len(bodies) == len(PAPER)
    for name, body in zip(PAPER, bodies, strict=True):
        _, comments, _ = functions()[name]
        tags = [re.fullmatch(r"# \d+: (.+)", comments[row])[1] for row in sorted(comments)]
        written = latex_lines(body)
        assert len(tags) == len(written) == len(PAPER[name].split()), name
        for number, (tag, line) in enumerate(zip(tags, written, strict=True), start=1):
            if (name, number) in DEPARTURES:
                assert bare(tag) == DEPARTURES[name, number] and plain(tag) != plain(line)
            else:
                assert plain(bare(tag)) == plain(line), f"{name}, line {number}"


def latex_lines(body: str) -> list[str]:
    """The numbered lines of an algorithm2e environment: statements, which end in \\;, heads of loops, and ends."""
    for command in (r"\KwIn", r"\KwOut", r"\KwParam", r"\KwHyper", r"\caption", r"\label", r"\tcc"):
        while command + "{" in body:
            start = body.index(command + "{")
            body = body[:start] + body[closing(body, start + len(command)) + 1 :]
    body = re.sub(r"^\s*\[[ht]\]|\\DontPrintSemicolon|\\hfill|~", " ", body)
    lines: list[str] = []
    while body := body.strip():
        if loop := re.match(r"\\(For|While)\{", body):
            end = closing(body, loop.end() - 1)
            begin = body.index("{", end)
            stop = closing(body, begin)
            lines += [
                f"{loop[1].lower()} {body[loop.end() : end]} do",
                *latex_lines(body[begin + 1 : stop]),
                "end",
            ]
            body = body[stop + 1 :]
        else:
            line, _, body = body.partition("\\;")
            lines.append(line)
    return lines


def closing(text: str, start: int) -> int:
    """The index of the brace that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if not depth:
            return i
    raise AssertionError(f"unbalanced: {text[start:]}")


LATEX = [
    (r"\[\\!\[\$\\m\{[QKVS]\}.*", ""),  # Algorithm 4's notes on shapes, which the tags have in their ⟦…⟧
    (r"\\bmcWqkv", "𝒲_qkv"), (r"\\bmcW", "𝒲"), (r"\\vga", "γ"), (r"\\vbe", "β"), (r"\\vth", "θ"),
    (r"\\(?:left|right)|\\[!, ]|\\\\|\$", ""), (r"\\_", "_"),
    (r"\\(?:v|m|t|text|texttt)\{([^{}]*)\}", r"\1"), (r"\\(?:v|m|t|text|texttt)\{([^{}]*)\}", r"\1"),
    (r"\\(?:wide)?hat *\{?(\w)\}?", "\\1\u0302"), (r"\\tilde *(\w)", "\\1\u0303"),
    (r"\\sqrt\{([^{}]*)\}", r"√\1"), (r"\\frac\{(.*)\} *\{(.*)\}", r"\1/\2"), (r"\^\\intercal", "ᵀ"),
    (r"\\gets", "←"), (r"\\forall", "∀"), (r"\\neg", "¬"), (r"\\ell", "ℓ"), (r"\\sum", "Σ"), (r"\\alpha", "α"), (r"\\cdot", "·"), (r"\\nabla", "∇"),
    (r"\\propto", "∝"), (r"\\neq", "≠"), (r"\\leq", "≤"), (r"\\dots", "…"), (r"\\(exp|log)", r"\1"), (r"\\Return", "return"),
]  # fmt: skip


def plain(line: str) -> str:
    """A line of the paper or a tag, stripped to the signs that matter, in one spelling."""
    for latex, sign in LATEX:
        line = re.sub(latex, sign, line)
    for sign, other in (("-", "−"), ("'", "′"), ("⟦", "[["), ("⟧", "]]"), ("²", "^2")):
        line = line.replace(sign, other)
    return unicodedata.normalize("NFC", re.sub(r"[\s{}\\]|,?(…),?", r"\1", line))
