"""The data of a run are found from another working directory, and after a move."""

import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.runs import config, files
from transalg.evaluation.measure import evaluate
from transalg.inference.run import Run
from transalg.runs.config import Config
from transalg.runs.paths import read_options, with_paths
from transalg.training.start import train

FORMAT_1 = Path(__file__).parent / "format-1"


def project(folder: Path) -> Config:
    """Data, and options that name them as a user in this folder types them."""
    files(folder / "data")
    (folder / "runs").mkdir()
    return replace(config("classify", folder), data="data/labels.txt", valid="data/labels.txt")


def test_a_run_says_where_its_data_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = project(tmp_path)
    monkeypatch.chdir(tmp_path)
    saved = tomllib.loads(with_paths(replace(options, valid=None), Path("runs/one")))
    assert saved["data"] == "data/labels.txt"
    assert saved["paths"] == {"data": {"absolute": str(tmp_path / "data" / "labels.txt"), "relative": "../../data/labels.txt"}}
    assert "paths" not in tomllib.loads(with_paths(replace(options, data="stdlib", valid=None), Path("runs/one")))


@pytest.mark.slow
def test_data_are_found_from_anywhere_and_after_a_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    options = project(here)
    monkeypatch.chdir(here)
    train(options, Path("runs/one"))
    loss = evaluate(Run.load("runs/one")).figures["loss"]
    assert Run.load("runs/one").config.data == "data/labels.txt", "where it is what was typed, the name stays"

    other.mkdir()
    monkeypatch.chdir(other)
    assert evaluate(Run.load(here / "runs" / "one")).figures["loss"] == loss
    assert evaluate(Run.load(here / "runs" / "one", "../here/runs/one")).figures["loss"] == pytest.approx(loss), "an ensemble of one data"
    assert train(None, here / "runs" / "one", resume=True, changes={"train": {"steps": 7}}).state.step == 7

    here.rename(tmp_path / "there")
    run = Run.load(tmp_path / "there" / "runs" / "one")
    assert run.config.data == run.config.valid == str(tmp_path / "there" / "data" / "labels.txt")
    assert train(None, run.folder, resume=True, changes={"train": {"steps": 8}}).state.step == 8
    saved = tomllib.loads((run.folder / "config.toml").read_text())
    assert saved["paths"]["valid"]["absolute"] == str(tmp_path / "there" / "data" / "labels.txt")

    shutil.copytree(run.folder, tmp_path / "alone")
    assert Run.load(tmp_path / "alone").config.data == str(tmp_path / "there" / "data" / "labels.txt"), (
        "the run was copied without its data"
    )
    (tmp_path / "there" / "data" / "labels.txt").unlink()
    with pytest.raises(ValueError, match=r"alone: its own data cannot be used: .*labels\.txt: no such file or folder.*; give --data"):
        evaluate(Run.load(tmp_path / "alone"))


def test_the_data_beside_the_run_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project that was copied has data of its own, and so has the working directory."""
    options = project(tmp_path / "one")
    monkeypatch.chdir(tmp_path / "one")
    Path("runs/run").mkdir()
    Path("runs/run/config.toml").write_text(with_paths(options, Path("runs/run")))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert read_options(tmp_path / "two" / "runs" / "run" / "config.toml")["data"] == str(tmp_path / "two" / "data" / "labels.txt")
    assert read_options(Path("runs/run/config.toml"))["data"] == "data/labels.txt"
    assert Config.from_dict(read_options(Path("runs/run/config.toml"))) == options


@pytest.mark.parametrize("task", sorted(path.name for path in FORMAT_1.iterdir() if path.is_dir()))
def test_runs_without_these_paths_are_read_as_ever(task: str) -> None:
    options = read_options(FORMAT_1 / task / "config.toml")
    assert options["data"] and "/" not in options["data"] and Run.load(FORMAT_1 / task).config.data == options["data"]


@pytest.mark.parametrize("paths", ['paths = "x"', "[paths]\ndata = 3", "[paths.data]\nabsolute = 3"])
def test_paths_that_are_none_are_left_alone(tmp_path: Path, paths: str) -> None:
    first, second = (paths, "") if paths.startswith("paths") else ("", paths)
    (tmp_path / "config.toml").write_text(f'{first}\ntask = "lm"\ndata = "pydocs"\n{second}\n')
    assert read_options(tmp_path / "config.toml") == {"task": "lm", "data": "pydocs"}
