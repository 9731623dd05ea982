"""The worked examples of docs/architecture.md work, CONTRIBUTING.md shows the tree as it is, and Markdown stays narrow."""

import re
from dataclasses import fields
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

import pytest
import torch

import transalg
from tests.strategies import rng
from tests.test_imports import MODULES, TREE, name_of
from tests.training.runs import files, options
from transalg import hyper, model, tasks
from transalg.cpu import pack
from transalg.cpu.wrapped import WrappedDecoder
from transalg.data import sources, tables
from transalg.hyper import DHyper
from transalg.model.counterpart import formal_counterpart
from transalg.optimisation import optimisers
from transalg.runs.config import Config, Train
from transalg.training.start import train
from transalg.verify.batches import draw
from transalg.verify.cases import Case, Verdict, departures, randomised, small, verify

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
MARKDOWN = sorted(path for path in ROOT.rglob("*.md") if not any(part.startswith(".") for part in path.relative_to(ROOT).parts))


def blocks(heading: str) -> list[str]:
    """The Python under a heading."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", ARCHITECTURE, re.M | re.S)
    assert section
    return re.findall(r"```python\n(.*?)```", section[1], re.S)


def admit(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, value: str) -> None:
    """A choice that a field reads off its table when its class is made."""
    field = next(each for each in fields(kind) if each.name == name)
    choices = (*field.metadata["choices"], value)
    monkeypatch.setattr(field, "metadata", MappingProxyType({**field.metadata, "choices": choices}))


# Add a variant ---------------------------------------------------------------------------------------------------------


def add_alibi(monkeypatch: pytest.MonkeyPatch, old: str = "", new: str = "") -> None:
    """Put the blocks where their first lines say, with one text changed."""
    for table in (hyper.positions.POSITIONS, model.positions.POSITIONS):
        monkeypatch.setitem(table, "alibi", None)  # so that it is taken out again
    admit(monkeypatch, DHyper, "positions", "alibi")
    parts = blocks("Add a variant")
    assert sum(part.count(old) for part in parts) == 1 or not old
    for part in parts:
        path = re.match(r"# (\S+)\.py\n", part)
        assert path
        module = import_module(path[1].replace("/", "."))
        before = dict(vars(module))
        namespace = dict(before)
        exec(part.replace(old, new) if old else part, namespace)
        for name in namespace.keys() - before.keys():
            monkeypatch.setattr(module, name, namespace[name], raising=False)


def alibi() -> Verdict:
    return verify(Case("DTransformer", "alibi", small(DHyper, positions="alibi")))


def test_the_variant_equals_its_formal_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    add_alibi(monkeypatch)
    assert "positions=alibi" in departures(DHyper), "verify takes it from the tables"
    verdict = alibi()
    assert {"padding", "batch", "order", "cache", "prefill", "reorder", "alone"} == verdict.laws.keys()
    assert verdict.holds, verdict
    with pytest.raises(ValueError, match="band: expected None with positions=alibi"):
        small(DHyper, positions="alibi", band=3)


def test_the_variant_departs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Press et al.: −m_h·(t_x − t_z) beside qᵀk/√d_attn; so P is not that of no positions."""
    add_alibi(monkeypatch)
    ours = randomised(model.build(small(DHyper, positions="alibi"), dtype=torch.float64), rng(0)).eval()
    plain = model.DTransformer.from_theta(ours.theta(), ours.hyper.replace(positions="none"))
    batch = draw(ours.hyper, rng(1))
    with torch.no_grad():
        assert not torch.allclose(batch.logits(ours), batch.logits(plain), rtol=0, atol=1e-3)
    assert formal_counterpart(ours.hyper).MHAttention.__name__ == "ALiBiMHAttention"
    alone = pack(ours, 1)
    assert isinstance(alone, WrappedDecoder) and alone.single_token is None, "the short path does not know the unit"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("m = 2 ** (-8 * ", "m = 2 ** (-4 * "),  # the engine's slopes
        ("2 ** (-8 * h / H))", "2 ** (-8 * (h - 1) / H))"),  # the formal ones
        ("t[:, None] - t, dropout", "(t[:, None] - t).abs(), dropout"),  # not causal
        ("distances if step.alike else distances[:, None]", "distances.expand(len(q), -1, -1)[:, None].clamp(min=-1, max=1)"),  # the cache
        ("-(d_attn**0.5)", "-1"),  # the division by √d_attn
        ("    formal_attention = staticmethod(ALiBiMHAttention)\n", ""),  # the counterpart
    ],
)
def test_a_broken_variant_is_noticed(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add_alibi(monkeypatch, old, new)
    assert not alibi().holds


# Add a task, an optimiser, a format ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_task_and_the_optimiser_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tasks.TASKS, "backwards", None)
    monkeypatch.setitem(optimisers.OPTIMISERS, "nadam", None)
    admit(monkeypatch, Train, "optimizer", "nadam")
    for heading in ("Add a task", "Add an optimiser"):
        for block in blocks(heading):
            exec(block, {"__name__": "example"})
    chosen = options("lm", files(tmp_path), optimizer="nadam")
    backwards = train(Config.from_dict(chosen | {"task": "backwards"}), tmp_path / "backwards")
    forwards = train(Config.from_dict(chosen), tmp_path / "forwards")
    assert backwards.figures != forwards.figures
    assert len(transalg.load(tmp_path / "backwards").score("a cat").log_p) == 5


def test_the_format_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tables.DELIMITERS, ".psv", None)
    for block in blocks("Add a data format"):
        exec(block, {})
    (tmp_path / "pairs.psv").write_text("source|target\none|two\n", encoding="utf-8")
    source = sources.Source(str(tmp_path / "pairs.psv"), "pairs", ("source", "target"))
    assert [record.texts for record in source.records()] == [("one", "two")]


# The tree --------------------------------------------------------------------------------------------------------------


def test_every_module_stands_in_the_tree() -> None:
    assert sorted(TREE) == sorted(map(name_of, MODULES))


def test_contributing_shows_the_tree() -> None:
    """Its names without indentation are packages, those below are their modules, in the order of TREE."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = re.search(r"## The tree\n.*?```\n(.*?)```", text, re.S)
    assert block
    shown: list[tuple[str, list[str]]] = []
    for line in block[1].splitlines():
        if line.startswith(" "):
            shown[-1][1].extend(re.findall(r"\w+", line))
        else:
            shown.append((line.split()[0].strip("/"), []))
    packages = {name.partition(".")[0] for name in TREE if "." in name}
    modules = [name for name in TREE if name and name not in packages]
    expected = [(package, list(names)) for package, names in groupby(modules, lambda name: name.partition(".")[0])]
    assert [(package, [f"{package}.{name}" for name in names] or [package]) for package, names in shown] == expected


# Lines -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_lines_have_at_most_120_columns(path: Path) -> None:
    wide = [i for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if len(line) > 120]
    assert not wide, f"{path.name}: lines {wide}"
