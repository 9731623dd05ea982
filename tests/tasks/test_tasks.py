"""Tasks are values: the table is the only place that knows their names, and a new task is one class and one line in it."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

import transalg
from tests.training.runs import files, options
from transalg import tasks
from transalg.data.rows import Batch
from transalg.evaluation.measure import evaluate
from transalg.hyper import Hyper
from transalg.inference.run import Run
from transalg.runs.config import Config
from transalg.tasks.examples import Example
from transalg.tasks.lm import LanguageModel
from transalg.training.start import train

ROOT = Path(transalg.__file__).parent


class Reverse(LanguageModel):
    """A toy: text from its end to its beginning."""

    name = "reverse"
    learns = "to continue text backwards"
    algorithms = (10, 13)
    abilities = ("score",)
    steps = 4

    def example(self, batch: Batch, hyper: Hyper, seed: int, rows: Any = None) -> Example:
        forwards = super().example(batch, hyper, seed, rows)
        (x,), (lengths,) = forwards.tensors, forwards.lengths
        backwards = torch.zeros_like(x)
        for i, length in enumerate(lengths.tolist()):
            backwards[i, :length] = x[i, :length].flip(0)
        return Example((backwards,), (lengths,), forwards.count)


def test_a_new_task_is_a_class_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path)
    with pytest.raises(ValueError, match="task: expected lm, mlm, seq2seq, classify, multi or gato, got 'reverse'"):
        Config.from_dict(options("lm", tmp_path) | {"task": "reverse"})
    monkeypatch.setitem(tasks.TASKS, "reverse", Reverse())
    chosen = options("lm", tmp_path, steps=None) | {"task": "reverse"}
    outcome = train(Config.from_dict(chosen), tmp_path / "run")
    assert outcome.state.step == 4 and outcome.config.task == "reverse"
    run = transalg.load(tmp_path / "run")
    assert evaluate(run).figures["loss"] == pytest.approx(outcome.figures["val_loss"], rel=1e-5)
    assert len(run.score("a cat").log_p) == 5
    with pytest.raises(ValueError, match="a model for reverse cannot generate; it can score"):
        run.generate("a")
    forwards = train(Config.from_dict(chosen | {"task": "lm", "train": chosen["train"] | {"steps": 4}}), tmp_path / "lm")
    assert forwards.figures != outcome.figures, "the toy learns something else"


def test_no_module_compares_the_names_of_tasks() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("tasks/") or name in (
            "cli/demo.py",
            "cli/demo_gato.py",
            "cli/gato.py",
            "hyper/variants.py",
            "trace/source.py",
            "worlds/adapter.py",
        ):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in tasks.TASKS:
                assert node.value in get_args(tasks.Ability), f"{name}:{node.lineno} names the task {node.value}"


def test_the_table(tmp_path: Path) -> None:
    for name, task in tasks.TASKS.items():
        assert task.name == name and tasks.find(name) is task
        assert task.learns.startswith("to ") and all(8 <= number <= 15 for number in task.algorithms)
        assert task.hyper_class.algorithm in task.algorithms or not task.algorithms
        assert (task.steps is None) != (task.epochs is None), "training has a default length, and one only"
        assert all(callable(getattr(Run, ability)) for ability in task.abilities)
        assert set(task.limits(7)) == ({"z", "x"} if task.has_context else {"x"})
    for bad, close in (("seq2sec", "; did you mean seq2seq?"), ("xyz", ""), (None, "")):
        said = re.escape(f"task: expected lm, mlm, seq2seq, classify, multi or gato, got {bad!r}{close}")
        with pytest.raises(ValueError, match=f"^{said}$"):
            tasks.find(bad)


def test_importing_tasks_imports_nothing_heavy() -> None:
    code = "import sys, transalg.tasks, transalg.runs.config\nprint([name for name in ('torch', 'numpy', 'safetensors') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
