"""Runs that an earlier version wrote: they load, answer as they did then, and resume; a run of a newer format is refused in words."""

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import save_file

import transalg
from tests.training.runs import config, files
from transalg.hyper import DHyper, SpecialTokens
from transalg.runs import checkpoints
from transalg.runs.metadata import FORMAT, Metadata
from transalg.training.start import train
from transalg.verify.cases import small

RUNS = Path(__file__).parent / "format-1"
TEXT = "The cat sat on the mat.\nThe dog sat on the log.\nA bird sang in the tree.\nThe fish swam in the sea.\n" * 6
NEWER = rf"safetensors: written by a newer transalg \(format 99; this one reads up to {FORMAT}\): upgrade"


def close(value: object) -> object:
    return pytest.approx(value, rel=1e-4)


def with_format(path: Path, number: int) -> None:
    """Rewrite a checkpoint so that it says that it has this format."""
    with safe_open(path, "pt") as file:
        metadata = json.loads(file.metadata()["transalg"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors, path, {"format": "pt", "transalg": json.dumps(metadata | {"format": number})})


def test_answers_are_those_of_the_version_that_wrote_the_run() -> None:
    score = transalg.load(RUNS / "lm").score("The cat")
    assert score.tokens == ["T", "h", "e", " ", "c", "a", "t"]
    assert score.log_p == close([-3.1265659, -3.2393973, -3.0116573, -2.9180061, -3.2312837, -3.1014327, -3.0220871])
    (mask,) = transalg.load(RUNS / "mlm").fill("The <mask> sat", 3)
    assert [token for token, _ in mask] == ["cat", "in", "."] and [p for _, p in mask] == close([0.14737694, 0.13093413, 0.11265605])
    pairs = transalg.load(RUNS / "seq2seq")
    assert pairs.score("  xrxs", context="one two", eos=True).total == close(-11.0395122)
    answer = transalg.load(RUNS / "classify").classify("one two")
    assert answer.label == "high" and close({"high": 0.59823537, "low": 0.40176463}) == answer.P


def test_an_earlier_run_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(RUNS / "lm", tmp_path / "lm")
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    assert checkpoints.load_metadata(tmp_path / "lm" / "last.safetensors").state["step"] == 6
    outcome = train(None, tmp_path / "lm", resume=True, changes={"train": {"steps": 9}})
    assert outcome.state.step == 9 and outcome.figures["val_loss"] < 3.0944537


def test_an_earlier_run_can_be_fine_tuned(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("fish\tThe fish swam.\ncat\tThe cat sat.\n" * 5)
    chosen = replace(config("classify", tmp_path, steps=1), init=str(RUNS / "mlm"), tokenizer="", model={})
    assert train(chosen, tmp_path / "run").state.step == 1


def with_special(path: Path, special: SpecialTokens) -> None:
    """Rewrite a checkpoint so that its model has these special tokens."""
    tensors, metadata = checkpoints.load(path)
    checkpoints.save(path, tensors, replace(metadata, hyper=metadata.hyper.replace(special=special)))


def test_training_continues_with_the_special_tokens_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tokenizer.json names others."""
    shutil.copytree(RUNS / "lm", tmp_path / "lm")
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    special = SpecialTokens(0, 1, 2)
    for name in ("best", "last"):
        with_special(tmp_path / "lm" / f"{name}.safetensors", special)
    chosen = replace(config("lm", files(tmp_path), steps=1), init=str(tmp_path / "lm"), tokenizer="", model={})
    train(chosen, tmp_path / "tuned")
    train(None, tmp_path / "lm", resume=True, changes={"train": {"steps": 9}})
    for name in ("tuned", "lm"):
        run = transalg.load(tmp_path / name)
        assert run.model.hyper.special == run.tokenizer.special_tokens == special
        assert checkpoints.load_metadata(tmp_path / name / "last.safetensors").hyper.special == special


def test_a_newer_format_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(RUNS / "lm", tmp_path / "lm")
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    for name in ("best", "last"):
        with_format(tmp_path / "lm" / f"{name}.safetensors", 99)
    with pytest.raises(ValueError, match="best." + NEWER):
        transalg.load(tmp_path / "lm")
    with pytest.raises(ValueError, match="last." + NEWER):
        train(None, tmp_path / "lm", resume=True, changes={"train": {"steps": 9}})
    chosen = replace(config("lm", files(tmp_path)), init=str(tmp_path / "lm"), tokenizer="", model={})
    with pytest.raises(ValueError, match="best." + NEWER):
        train(chosen, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with_format(tmp_path / "lm" / "best.safetensors", FORMAT)
    assert transalg.load(tmp_path / "lm").task == "lm"


def test_a_newer_sharded_checkpoint_is_refused_too(tmp_path: Path) -> None:
    metadata = json.loads(Metadata(task="lm", hyper=small(DHyper), files={}).to_json())
    (tmp_path / "facts.json").write_text(json.dumps(metadata))
    assert checkpoints.load_sharded_metadata(tmp_path).task == "lm"
    (tmp_path / "facts.json").write_text(json.dumps(metadata | {"format": FORMAT + 1}))
    with pytest.raises(ValueError, match=rf"written by a newer transalg \(format {FORMAT + 1}; this one reads up to {FORMAT}\)"):
        checkpoints.load_sharded_metadata(tmp_path)


def test_metadata_is_written_as_it_is_read() -> None:
    spaces = {"observation": {"kind": "discrete", "n": 3}, "action": {"kind": "discrete", "n": 2}}
    metadata = Metadata(
        task="lm",
        hyper=small(DHyper),
        labels=("a", "b"),
        data="digest",
        step=3,
        val_loss=0.5,
        state={"step": 3, "tokens": 7, "seconds": 0.5, "place": {"epoch": 0, "batch": 3}},
        files={},
        embedding={"pooling": "mean"},
        episodes=[{"name": "taxi", "world": "Taxi", "expert": 7.5, "random": None} | spaces],
    )
    assert Metadata.from_json(metadata.to_json()) == metadata
    assert json.loads(metadata.to_json()).keys() == {"format", *(each.name for each in fields(Metadata))}
    for damaged, said in (
        ("[]", r"metadata: expected an object, got \[\]"),
        ("{}", "format: expected a whole number from 1 to 1, got None"),
        ('{"format": 1}', "task: is missing in the metadata"),
        ('{"format": "1", "task": "lm"}', "format: expected a whole number from 1 to 1, got '1'"),
    ):
        with pytest.raises(ValueError, match=said):
            Metadata.from_json(damaged)
    for never in (0, -3, True, 1.0, None):
        with pytest.raises(ValueError, match="format: expected a whole number"):
            Metadata.from_json(json.dumps(json.loads(metadata.to_json()) | {"format": never}))
