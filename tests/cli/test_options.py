"""Options: every number has its bounds, which help states; what cannot be is refused in a line, before any work."""

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from transalg.checks import in_words, within
from transalg.cli import VERBS, Verb
from transalg.cli.bounds import _parts
from transalg.cli.parsing import _read, flags, parse, refusal, subcommands
from transalg.hyper import hyper as hypers
from transalg.runs.config import Config, Train
from transalg.tasks import TASKS

RUNS = Path(__file__).parent.parent / "runs" / "format-1"
METRICS = "".join(f'{{"step": {i}, "tokens": {i}, "seconds": {i}.5, "loss": 2.5, "eta": 0.1}}\n' for i in (1, 2))
Command = Callable[..., tuple[int, str, str]]
CHECKED = {
    "context",
    "layer",
    "depth",
    "min_chars",
    "max_chars",
    "min_words",
    "max_words",
    "max_ratio",
    "near",
    "shingle_size",
    "max_perplexity",
    "keep",
}
# checked against what is known later only: a model's ℓ_max, other options


# Bounds --------------------------------------------------------------------------------------------------------------------


def numbers(kind: type, prefix: str = "") -> list[tuple[str, str | None, Any]]:
    """Every option of a verb that is a number: its name, its bounds, its default."""
    found, hints = [], get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        types, marks = _parts(hints[each.name])
        if is_dataclass(types[0]) and prefix == "" and types[0].__name__ in ("Sizes", "Settings"):
            found += numbers(types[0])
        elif int in types or float in types:
            found.append((each.name, next((mark.interval for mark in marks if hasattr(mark, "interval")), None), each.default))
    return found


@pytest.mark.parametrize("verb", [name for name in VERBS if name != "train"])
def test_every_number_of_a_verb_has_bounds(verb: str) -> None:
    kinds = [VERBS[verb], *(_parts(member)[0][0] for member in subcommands(VERBS[verb]).values())]
    for name, interval, default in (number for kind in kinds for number in numbers(kind)):
        assert (interval is None) == (name in CHECKED), f"{verb} --{name}"
        if interval is not None and isinstance(default, int | float):
            within(name, default, interval, whole=isinstance(default, int))


@pytest.mark.parametrize("options", [Config, Train, *dict.fromkeys(task.hyper_class for task in TASKS.values())])
def test_every_number_of_a_run_has_bounds(options: type) -> None:
    for each in fields(options):
        if re.search(r"\b(int|float)\b", str(each.type)) and "tuple" not in str(each.type) and each.name != "rotary_base":
            assert each.metadata.get("bounds"), f"{options.__name__}.{each.name}"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("threads", 100_000), ("steps", 10**12), ("epochs", 1e300), ("eta", 1e300), ("eta", 0.0), ("final", 2.0), ("batch_size", 10**9),
        ("batch_tokens", 10**12), ("seed", -1), ("seed", 2**63), ("warmup", -1), ("beta1", 1.0), ("clip", -0.5), ("decay", 0.0), ("log_every", 0),
        ("weight_decay", float("inf")), ("patience", 0), ("accumulate", 0),
    ],
)  # fmt: skip
def test_numbers_of_training(option: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^train\.{option}: expected a (whole )?number "):
        Train(**{option: value})


@pytest.mark.parametrize(
    ("size", "value"), [("L", 10**6), ("d_e", 10**9), ("d_mlp", 10**12), ("ell_max", 10**12), ("H", 0), ("N_V", 10**12)]
)
def test_sizes_beyond_any_machine(size: str, value: int) -> None:
    good = {"N_V": 7, "ell_max": 5, "L": 2, "H": 2, "d_e": 6, "d_mlp": 11}
    with pytest.raises(ValueError, match=f"^{size}: expected a whole number from 1 to .*, got {value}"):
        hypers.DHyper(**good | {size: value})


def test_vocabularies_beyond_any_machine() -> None:
    with pytest.raises(ValueError, match=r"^vocab_size: expected a whole number from 5 to 10,000,000, got 1000000000000"):
        Config(task="lm", data="pydocs", vocab_size=10**12)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("predict RUN --input a --beams 0", "--beams: expected a whole number from 1 to 1,000, got 0"),
        ("predict RUN --input a --alpha 1e308", "--alpha: expected a number in [0, 100], got 1e+308"),
        ("generate RUN --seed -1", "--seed: expected a whole number from 0 to 2^63 − 1, got -1"),
        ("generate RUN --samples 1000000000", "--samples: expected a whole number from 1 to 100,000, got 1000000000"),
        ("evaluate RUN --seed -1", "--seed: expected a whole number from 0 to 2^63 − 1, got -1"),
        ("evaluate RUN --beams 0", "--beams: expected a whole number from 1 to 1,000, got 0"),
        ("prompt RUN --input a --votes 0", "--votes: expected a whole number from 1 to 100,000, got 0"),
        ("tokenizer train --data a --out b --vocab-size 1000000000000", "--vocab-size: expected a whole number from 5 to 10,000,000"),
        ("trace 10 --L 100000000", "--L: expected a whole number from 1 to 32, got 100000000"),
        ("trace 13 --eta 1e300", "--eta: expected a number in (0, 1000], got 1e+300"),
        ("verify --seed -1", "--seed: expected a whole number from 0 to 2^32 − 1, got -1"),
        ("presets gpt2 --batch " + "9" * 99, "--batch: expected a whole number from 1 to 1,000,000,000, got 99999999999999999999…"),
    ],
)
def test_numbers_of_the_command_line(transalg: Command, command: str, said: str) -> None:
    """Before a model is loaded: there is no RUN."""
    status, _, err = transalg(*command.split())
    assert status == 2 and err.startswith(f"transalg: {said}") and err.count("\n") == 1


def test_help_states_the_bounds(transalg: Command) -> None:
    for verb, said in (
        ("predict", "(default: 1; 1 to 1000)"),
        ("generate", "(0 to 2^63 − 1)"),
        ("train", f"{in_words('[1, 1024]', whole=True)}"),
        ("trace", "(default: 2; 1 to 32)"),
    ):
        status, out, _ = transalg(verb, "--help")
        assert status == 0 and said.replace(" ", "") in re.sub(r"[\s│]", "", out), verb


def test_help_fits_eighty_columns(transalg: Command) -> None:
    """All of it: usage and descriptions too, of every command and of the commands under it."""
    below = {name: [name, *(f"{name} {action}" for action in subcommands(kind))] for name, kind in subcommands(Verb).items()}
    assert below["gato"] == ["gato", "gato record", "gato show"] and len(below) == len(VERBS)
    for command in ["", *(one for each in below.values() for one in each)]:
        status, out, _ = transalg(*command.split(), "--help")
        assert status == 0 and out.startswith("usage: transalg") and max(map(len, out.splitlines())) <= 80, command


# Refusals ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("train lm --dta x", "--dta: there is no such option; did you mean --data? transalg train --help shows what there is"),
        ("train lm --train.step 5", "--train.step: there is no such option; did you mean --train.steps? transalg train --help"),
        ("train lm --model.d_mpl 5", "--model.d_mpl: there is no such option; did you mean --model.d-mlp? transalg train --help"),
        ("trace 10 --tex a", "--tex: there is no such option; did you mean --text? transalg trace --help"),
        ("tokenizer encode --txt a", "--txt: there is no such option; did you mean --text? transalg tokenizer encode --help"),
        ("gato recor", "recor: there is no such command; did you mean record? transalg gato --help"),
        ("clasify runs/a --text b", "clasify: there is no such command; did you mean classify? transalg --help"),
        ("trian", "trian: there is no such command; did you mean train? transalg --help"),
        ("predict x --beams", "--beams: expected a value, got nothing"),
        ("predict x --beams two", "--beams: expected a whole number, got 'two'"),
        ("train lm --train.eta=fast", "--train.eta: expected a number, got 'fast'"),
        ("train lm --model.mask-split 1 2", "--model.mask-split: expected three numbers, got '1 2'"),
        ("embed x --pooling sum", "--pooling: expected first, max, mean, got 'sum'"),
        ("tokenizer train", "expected --data DATA, --out FILE, got nothing; transalg tokenizer train --help shows what there is"),
        ("clean", "expected DATA, --out FILE, got nothing; transalg clean --help shows what there is"),
        ("tokenizer", "expected one of train, encode, decode; transalg tokenizer --help shows what there is"),
        ("train lm --" + "x" * 5000, "--xxxxx"),
    ],
)
def test_what_is_not_understood(transalg: Command, command: str, said: str) -> None:
    status, out, err = transalg(*command.split())
    assert (status, out) == (2, "") and err.startswith(f"transalg: {said}") and err.count("\n") <= 2 and len(err) < 400


@pytest.mark.parametrize("columns", ["0", "3", "20", "200"])
def test_refusals_do_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(ValueError, match=r"^--train\.batchsize: there is no such option; did you mean --train\.batch-size\?"):
        parse(Verb, ["train", "lm", "--train.batchsize", "3"], "")
    assert _read("\x1b[31m╭─ A ─╮\x1b[0m\n\x1b[31m│\x1b[0m b   \x1b[31m│\x1b[0m") == ("A", [["b"]])


def test_a_box_that_nobody_knows() -> None:
    """Another version of the parser may say something else, in other boxes: then its first words stand."""
    assert (
        refusal("+- News -+\n| Your moon is full. |\n+---+\n", ["train"], Verb)
        == "Your moon is full.; transalg train --help shows what there is"
    )
    assert refusal("", [], Verb) == "not understood; transalg --help shows what there is"
    assert _read("╭─ A ─╮\n│ b   │\n│ ─── │\n│ c   │\n╰─────╯") == ("A", [["b"], ["c"]])


def test_options_as_they_are_typed() -> None:
    assert {"--data", "--model.d-e", "--train.batch-size", "--resume", "--out"} <= set(flags(VERBS["train"]))
    assert {"--text", "--run", "--L", "--d-e", "--tau"} <= set(flags(subcommands(Verb)["trace"]))
    assert list(subcommands(subcommands(Verb)["tokenizer"])) == ["train", "encode", "decode"]


# Files ---------------------------------------------------------------------------------------------------------------------


def test_a_folder_is_no_picture(transalg: Command, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "plots"
    run.mkdir()
    out.mkdir()
    (run / "metrics.jsonl").write_text(METRICS)
    status, _, err = transalg("plot", str(run), "--out", str(out))
    assert status == 2 and f"{out}: expected a file in a folder that exists, got a folder" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plots", "run"]


@pytest.mark.parametrize("verb", ["plot", "predictions"])
def test_a_full_disk_leaves_the_old_file(transalg: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    import errno

    (tmp_path / "metrics.jsonl").write_text(METRICS)
    (tmp_path / "data.txt").write_text("high\tone two\nlow\tthree\n")
    shutil.copytree(RUNS / "classify", tmp_path / "classify")  # evaluation keeps token files beside a run
    out = tmp_path / "old.png"
    out.write_text("old")
    before = sorted(path.name for path in tmp_path.iterdir())

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    commands = {
        "plot": ("plot", str(tmp_path), "--out", str(out)),
        "predictions": ("evaluate", str(tmp_path / "classify"), "--data", str(tmp_path / "data.txt"), "--predictions", str(out)),
    }
    status, _, err = transalg(*commands[verb])
    assert status == 2 and err == f"transalg: {out}: cannot be written: No space left on device\n"
    assert out.read_text() == "old" and sorted({path.name for path in tmp_path.iterdir()} - {".transalg-cache"}) == before
