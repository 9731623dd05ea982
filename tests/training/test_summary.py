"""The five lines before training, and the estimate of the first steps."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.runs import TASKS, WORDS, config, files
from transalg.hyper.cost import flops_per_token, parameters
from transalg.runs import checkpoints
from transalg.runs.config import FLOPS
from transalg.training import loop
from transalg.training import summary as lines
from transalg.training.prepare import prepare
from transalg.training.report import Report
from transalg.training.start import train
from transalg.training.summary import LONG, STEPS, WIDTH, estimate, is_measured, measurement, shorter, summary, time_to_go
from transalg.training.validation import ValidationSample, fixed_sample

ALL = ValidationSample(None, None)


class Notes(Report):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_what_a_run_is_about_to_do(tmp_path: Path) -> None:
    prepared = prepare(config("classify", files(tmp_path), steps=5), tmp_path / "run", Report())
    tokens = sum(len(text) + 2 for text in WORDS)
    characters = len(set("".join(WORDS))) + 3
    assert summary(prepared, 1234, ALL) == [
        f"data       6 rows, 2 to validate, {tokens} tokens",
        f"tokenizer  char, {characters} tokens, 0.0% of the text left out",
        "model      Algorithm 9, 1 layer × 10, norm_first, pooling=mean, 1,234 parameters",
        "training   5 steps (2.5 epochs) of 3 rows, muon, best by accuracy",
        "estimate   about 0 s on two cores, at least 0 MB of memory",
    ]
    sampled = summary(prepared, 1234, replace(ALL, read=fixed_sample(2, 1)))
    assert sampled[0] == f"data       6 rows, 2 to validate (1 until the end), {tokens} tokens"


@pytest.mark.parametrize("task", TASKS)
def test_every_line_fits_a_terminal(task: str, tmp_path: Path) -> None:
    model = {"norm": "RMSnorm", "norm_first": False, "activation": "ReLU", "positions": "none", "scaled": True, "eps": 1e-7}
    prepared = prepare(config(task, files(tmp_path), model), tmp_path / "run", Report())
    shown = summary(prepared, 123_456_789, ALL)
    assert len(shown) == 5 and all(len(line) <= WIDTH for line in shown) and ", 123,456,789 parameters" in shown[2]
    assert " more, " in shown[2] or " departures, " in shown[2]


def test_the_share_of_unknown_words(tmp_path: Path) -> None:
    """Of three words seen once, among eleven."""
    (tmp_path / "lines.txt").write_text("a cat sat\na cat ran\na cat\na cat or\n")
    prepared = prepare(replace(config("lm", tmp_path), tokenizer="word", split=0.0), tmp_path / "run", Report())
    assert summary(prepared, 1, None)[3].endswith(" of 3 rows, muon"), "nothing is the best where nothing validates"
    assert summary(prepared, 1, None)[:2] == [
        "data       4 rows, none to validate, 19 tokens",
        f"tokenizer  word, {2 + 1 + 3} tokens, 3 of 11 words ({300 / 11:.1f} %) become <unk>",
    ]


def test_time_and_memory_before_the_first_step_are_counted(tmp_path: Path) -> None:
    """Operations of three forward passes at the nominal speed; twice the parameters, the optimiser's, and what the backward pass reads."""
    prepared = prepare(config("lm", files(tmp_path), {"d_e": 512, "ell_max": 7}, batch_size=3, steps=1), tmp_path / "run", Report())
    steps, hyper = 300_000, prepared.hyper
    seconds = 3 * flops_per_token(hyper, round(prepared.row_tokens)) * prepared.step_tokens * steps / FLOPS
    assert 90 < seconds < 5400
    line = estimate(replace(prepared, steps=steps), steps, nominal=True)
    assert line.startswith(f"estimate   about {seconds / 60:.0f} min on two cores, at least ")
    megabytes = float(line.split()[-4])
    assert 12 * parameters(hyper) / 1e6 - 0.5 < megabytes < 40 * parameters(hyper) / 1e6
    assert estimate(prepared, 1, nominal=False) == f"estimate   at least {megabytes:.0f} MB of memory"
    more = float(estimate(prepared, 1, nominal=False, used=500_000_000 + 4 * parameters(hyper)).split()[-4])
    assert more == pytest.approx(megabytes + 500, abs=1), "what the process has already counts, the model in it once"


def test_rows_that_are_cut_are_counted(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("a\tone two three four five\nb\tone two\na\tone\n")
    options = replace(config("classify", tmp_path, {"ell_max": 5}), tokenizer="word", split=0.0)
    assert summary(prepare(options, tmp_path / "run", Report()), 1, None)[0].endswith(", 1 cut")


def test_the_estimate_leaves_the_first_step_out() -> None:
    assert time_to_go([90.0, 3.0, 2.0, 4.0], steps=100, overhead=0.25) == pytest.approx(375)
    assert measurement(375, 412_000_000) == "measured   6 min to go, 412 MB of memory" and measurement(9, None) == "measured   9 s to go"


def test_when_it_comes() -> None:
    """After some steps, or as soon as two or more have taken long enough."""
    for seconds, at in ((0.1, STEPS), (30.0, 2), (4.0, 3)):
        assert min(n for n in range(1, 20) if is_measured([seconds] * n)) == at


def test_a_long_run_says_how_to_shorten_it(tmp_path: Path) -> None:
    by_steps, by_epochs = config("lm", tmp_path, steps=1000), config("lm", tmp_path, steps=None, epochs=8.0)
    assert shorter(by_steps, 1000, 0, LONG) is None
    assert "--train.steps 250 takes 10 min" in (shorter(by_steps, 1000, 0, 4 * LONG) or "")
    assert "--train.epochs 2 takes 10 min" in (shorter(by_epochs, 1000, 0, 4 * LONG) or "")
    many = config("lm", tmp_path, steps=None, epochs=8000.0)
    assert "--train.epochs 2000 takes 10 min" in (shorter(many, 1000, 0, 4 * LONG) or ""), "as the option reads it"
    assert "--train.steps 700 takes 10 min" in (shorter(by_steps, 1000, 600, 4 * LONG) or ""), "of a resumed run"
    assert len(shorter(by_steps, 10**9, 0, 10**4 * LONG) or "") <= WIDTH + 2
    assert "--model.ell-max" in (shorter(by_steps, 1000, 0, 4 * LONG) or "")
    assert "--model.ell-max" not in (shorter(config("seq2seq", tmp_path, steps=1000), 1000, 0, 4 * LONG) or ""), "which cuts no pairs"


def test_the_lines_are_printed_and_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = config("lm", files(tmp_path), {"dropout": 0.1}, steps=STEPS + 1)
    notes = Notes()
    monkeypatch.setattr(lines, "LONG", -1.0)
    train(chosen, tmp_path / "one", report=notes)
    assert [line.split()[0] for line in notes.notes] == ["data", "tokenizer", "model", "training", "estimate", "measured", "shorter"]
    monkeypatch.setattr(loop, "is_measured", lambda _: False)
    train(chosen, tmp_path / "two")
    one, two = (checkpoints.load(tmp_path / name / "last.safetensors")[0] for name in ("one", "two"))
    assert all(one[name].equal(two[name]) for name in one)
