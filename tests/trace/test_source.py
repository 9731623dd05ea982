"""The lines are read from the source: a tag, and the statements below it."""

import pytest

from transalg.trace.source import FORMAL, algorithms, definitions, find, find_all


def test_every_file_of_formal_is_read() -> None:
    """Paper's numbers first, then the variants by file and position."""
    numbers = [algorithm.number for algorithm in algorithms()]
    assert numbers[:15] == list(range(1, 16)) and set(numbers[15:]) == {None}
    variants = [(algorithm.module, algorithm.lines[0].first) for algorithm in algorithms()[15:]]
    assert variants == sorted(variants)
    for path in FORMAL.glob("*.py"):
        tagged = path.read_text(encoding="utf-8").count("# 1: ")
        assert tagged == sum(algorithm.module == path.stem for algorithm in algorithms()), path.name


def test_a_line_is_its_tag_and_its_statement() -> None:
    line = find("10").lines[4]
    assert (line.number, line.kind, line.indent, line.targets) == (5, "assign", 1, ("X_tilde",))
    assert line.math == "for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)" and line.dims == ("d_e", "ℓ")
    assert line.code == "X_tilde = columns(layer_norm(X[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell))"
    loop, end = find("10").lines[3], find("10").lines[8]
    assert loop.kind == "for" and loop.code == "for l, layer in enumerate(theta.layers):" and loop.last == loop.first
    assert end.kind == "end" and end.code == "" and loop.stop < end.first


@pytest.mark.parametrize(
    ("which", "number", "kind", "code"),
    [
        ("12", 4, "for", "x_tilde = x_n.clone()\nfor t in range(ell):"),
        ("14", 6, "assign", "x = append(x, y)\nif y == stop:\n    break"),
    ],
)
def test_a_tag_may_have_more_than_one_statement(which: str, number: int, kind: str, code: str) -> None:
    """The one that is the paper's line is the last that is no `if`."""
    line = find(which).lines[number - 1]
    assert (line.kind, line.code) == (kind, code)
    assert line.targets == ({"for": "t", "assign": "x"}[kind],)


def test_the_signature_is_as_written() -> None:
    assert find("6").parameters == (
        'e: Float[Tensor, "d_e"]',
        'gamma: Float[Tensor, "d_e"]',
        'beta: Float[Tensor, "d_e"]',
        "eps: float = 1e-5",
    )
    assert find("GPT").parameters[-1] == "**sublayers: Unpack[Sublayers]"


def test_a_part_of_the_docstring_is_one_row() -> None:
    (row,) = (row for row in find("5").doc if row.startswith("Parameters: "))
    assert row.startswith("Parameters: 𝒲 consisting of") and row.endswith("b_o ∈ ℝ^{d_out}.")


@pytest.mark.parametrize(("written", "name"), [("mask.sparse", "sparse"), ("sharing.shared", "shared"), ("norm.batch_norm", "batch_norm")])
def test_a_name_may_have_its_file(written: str, name: str) -> None:
    (found,) = find_all(written)
    assert found.name == name and find_all(name) == [found]


def test_comments_for_tools_are_not_shown() -> None:
    codes = [line.code for one in algorithms() for line in one.lines] + [one.source for one in definitions()]
    assert not [code for code in codes if "type: ignore" in code or "noqa" in code]
