"""train, evaluate, plot, tokenizer: from files to figures by the command line."""

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer as HuggingFaceTokenizer

from tests.training.runs import TASKS, files, options
from transalg import load, terminal
from transalg.cli.train import example, summary
from transalg.hyper import preset
from transalg.runs import checkpoints
from transalg.runs.config import Config
from transalg.tokenization import train as words

pytestmark = pytest.mark.slow

SMALL = ["--train.batch-size", "3", "--train.threads", "1", "--model.H", "2", "--model.d-e", "10", "--train.log-every", "1"]


def flags(task: str, folder: Path, **train: Any) -> list[str]:
    settings = options(task, folder, **train)
    top_level = [
        word
        for name, value in settings.items()
        if name not in ("task", "model", "train")
        for word in ([f"--{name}", *value] if isinstance(value, list) else [f"--{name.replace('_', '-')}={value}"])
    ]
    return top_level + [
        f"--{table}.{name.replace('_', '-')}={value}" for table in ("model", "train") for name, value in settings[table].items()
    ]


def test_the_last_lines_say_how_many_rows_were_decoded(tmp_path: Path) -> None:
    """Where exact match or BLEU is of fewer rows than the loss."""

    def last_lines(written: int) -> str:
        figures = {"val_loss": 1.0, "val_bleu": 20.0, "val_rows": 50, "val_written_rows": written}
        state = SimpleNamespace(step=5, tokens=10, seconds=3.0, best=figures, best_step=4)
        config = SimpleNamespace(train=SimpleNamespace(select="bleu"))
        outcome = SimpleNamespace(state=state, out=tmp_path, config=config, figures=figures, parameters=11, reason="interrupted")
        console = terminal.console(file=(file := StringIO()), soft_wrap=True)
        summary(outcome, console)
        return file.getvalue()

    assert "Best by bleu, step 4: validation 1.0000  BLEU 20.0, bleu of 7 rows\n" in last_lines(7)
    assert "BLEU 20.0\n" in last_lines(50)


def test_a_preset_is_trained_from_scratch(transalg: Any, tmp_path: Path) -> None:
    """SmolLM2 with fewer and smaller layers: everything else is as published."""
    files(tmp_path)
    sizes = ["--model.L=2", "--model.H=3", "--model.H-kv=1", "--model.d-e=12", "--model.d-mlp=7", "--model.ell-max=5"]
    status, out, err = transalg(
        "train", "lm", "--preset", "smollm2-135m", "--out", str(tmp_path / "run"), "--data", str(tmp_path / "lines.txt"), "--tokenizer=char",
        "--train.steps=2", "--train.batch-size=3", "--train.threads=1", *sizes,
    )  # fmt: skip
    assert (status, err) == (0, "") and "Done: step 2," in out
    hyper = load(tmp_path / "run").model.hyper
    assert hyper == preset("smollm2-135m", N_V=hyper.N_V, L=2, H=3, H_kv=1, d_e=12, d_mlp=7, ell_max=5)


@pytest.mark.parametrize("task", TASKS)
def test_from_files_to_figures(task: str, transalg: Any, tmp_path: Path) -> None:
    files(tmp_path)
    run = str(tmp_path / "run")
    status, out, err = transalg("train", task, "--out", run, *flags(task, tmp_path))
    assert (status, err) == (0, "")
    assert re.search(r"step +3  loss \d\.\d+  validation \d\.\d+ .*tok/s  best", out) and "Done: step 6," in out
    flat = " ".join(out.split())
    assert "Best by" in flat and f"transalg evaluate {run}" in flat and f"transalg plot {run}" in flat
    assert all(len(line) <= 80 for line in out.splitlines() if run not in line)
    (command,) = re.findall(r"^Next: transalg (.*)$", out, re.MULTILINE)
    verb, folder, _, text, *_ = shlex.split(command)
    expected = {"lm": ("generate", "a cat sat"), "mlm": ("fill", "a <mask> sat"), "seq2seq": ("predict", "a cat sat")}
    assert (verb, text) == expected.get(task, ("classify", "a cat sat")) and folder == run
    status, answer, err = transalg(*shlex.split(command))
    assert status == 0 and answer and not err
    saved = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert saved["task"] == task and saved["train"]["steps"] == 6 and saved["model"]["d_e"] == 10

    status, out, _ = transalg("evaluate", run)
    assert status == 0 and "loss" in out and "its own validation set" in " ".join(out.split())
    heads = [["--data", each, "--head", Path(each).stem] for each in saved["data"]] if isinstance(saved["data"], list) else []
    status, out, err = transalg("evaluate", run, "--json", *(heads[0] if heads else ["--data", saved["data"]]))
    figures = json.loads(out)
    assert figures["loss"] > 0 and err == ""
    expected = {"lm": "bits per byte", "mlm": "accuracy", "seq2seq": "BLEU"}.get(task, "classes")
    assert expected in figures

    status, out, _ = transalg("verify", run, "--json")
    verdict = json.loads(out)
    assert status == 0 and verdict["holds"] and verdict["variant"] == run and 0 < verdict["errors"]["gradients"] < 1e-10

    status, out, _ = transalg("plot", run)
    assert status == 0 and (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_config_file_gives_the_same_run(transalg: Any, tmp_path: Path) -> None:
    files(tmp_path)
    one, two, three = (str(tmp_path / name) for name in ("one", "two", "three"))
    transalg("train", "lm", "--out", one, *flags("lm", tmp_path))
    assert transalg("train", "--config", f"{one}/config.toml", "--out", two)[0] == 0
    assert transalg("train", "--config", f"{one}/config.toml", "--out", three, "--train.seed", "5")[0] == 0
    weights = [checkpoints.load(Path(run) / "last.safetensors")[0] for run in (one, two, three)]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])
    assert not weights[0]["model.W_e"].equal(weights[2]["model.W_e"])


def test_a_config_file_and_other_sizes(transalg: Any, tmp_path: Path) -> None:
    """What was derived from what is changed is derived again."""
    files(tmp_path)
    transalg("train", "lm", "--out", str(tmp_path / "one"), *[flag for flag in flags("lm", tmp_path) if "d-mlp" not in flag])
    more = "--model.d-e", "16", "--train.optimizer", "adamw", "--train.steps", "20"
    assert transalg("train", "--config", str(tmp_path / "one" / "config.toml"), "--out", str(tmp_path / "two"), *more)[0] == 0
    saved = tomllib.loads((tmp_path / "two" / "config.toml").read_text())
    assert (saved["model"]["d_mlp"], saved["model"]["d_attn"]) == (64, 8)
    assert (saved["train"]["eta"], saved["train"]["warmup"], saved["train"]["steps"]) == (0.001, 1, 20)


def test_strange_paths_are_quoted(transalg: Any, tmp_path: Path) -> None:
    files(tmp_path)
    out = tmp_path / "my [v2] run"
    _, said, _ = transalg("train", "lm", "--out", str(out), *flags("lm", tmp_path))
    assert f"transalg evaluate '{out}'" in " ".join(said.split()) or f"evaluate '{out}'" in said.replace("\n", " ")
    assert transalg("evaluate", str(out))[0] == 0


def test_the_next_command_has_a_text_of_the_data_that_the_vocabulary_knows(tmp_path: Path) -> None:
    """Of a vocabulary of words, one whose words are not all <unk>; of many words, some."""
    (tmp_path / "a.csv").write_text("label,text\nx,once\ny,***\nx,--a cat\nx," + "it's a cat and " * 9 + "\n")
    tokenizer = words("word", ["it's a cat and"])
    config = Config(task="classify", data=str(tmp_path / "a.csv"))
    assert (
        example(config, tmp_path, tokenizer)
        == f"transalg classify {tmp_path} --text 'it'\"'\"'s a cat and it'\"'\"'s a cat and it'\"'\"'s a'"
    )
    (tmp_path / "a.csv").write_text("label,text\nx,once\ny,twice\n")
    assert example(config, tmp_path, tokenizer).startswith(f"transalg classify {tmp_path} --text '")


def test_folds(transalg: Any, tmp_path: Path) -> None:
    files(tmp_path)
    status, out, _ = transalg("train", "classify", "--out", str(tmp_path / "run"), *flags("classify", tmp_path, steps=2), "--folds", "3")
    assert f"Next: transalg evaluate {tmp_path / 'run' / 'fold-1'} " in out
    assert status == 0 and "Fold 3 of 3" in out and re.search(r"mean +\d\.\d+", out) and "±" in out
    assert sorted(path.name for path in (tmp_path / "run").iterdir() if path.name[0] != ".") == ["fold-1", "fold-2", "fold-3"]


def test_an_ensemble_and_its_predictions(transalg: Any, tmp_path: Path) -> None:
    files(tmp_path)
    for seed in ("1", "2"):
        transalg("train", "seq2seq", "--out", str(tmp_path / seed), *flags("seq2seq", tmp_path), "--train.seed", seed)
    both = str(tmp_path / "1"), str(tmp_path / "2")
    status, out, _ = transalg("evaluate", *both, "--data", str(tmp_path / "pairs.txt"), "--predictions", str(tmp_path / "p.jsonl"))
    assert status == 0 and "an ensemble, on" in " ".join(out.split())
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert len(lines) == 8 and lines[0].keys() == {"row", "where", "source", "target", "prediction"}
    assert transalg("plot", *both, "--out", str(tmp_path / "two.svg"), "--x", "tokens")[0] == 0
    assert "<svg" in (tmp_path / "two.svg").read_text()


def test_words_that_become_unk_are_counted_with_all_words(transalg: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,text\n" + "one,a cat sat\ntwo,a cat ran off\n" * 5 + "one,who knows the cat\n")
    status, out, _ = transalg(
        "train", "classify", "--data", str(tmp_path / "a.csv"), "--out", str(tmp_path / "run"), "--train.steps", "1", *SMALL
    )
    assert status == 0 and "tokenizer word, 9 tokens, 3 of 39 words (7.7 %) become <unk>" in " ".join(out.split())


def test_tokenizers(transalg: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("A cat sat, a cat ran. Üben!\n" * 9)
    made = str(tmp_path / "tokenizer.json")
    status, out, _ = transalg("tokenizer", "train", "--data", str(tmp_path / "a.txt"), "--out", made, "--vocab-size", "280")
    N_V = int(re.findall(r"(\d+) tokens", out)[0])
    assert status == 0 and 260 < N_V <= 280
    text = "a cat 猫 <mask>"
    status, out, _ = transalg("tokenizer", "encode", made, "--text", text)
    assert [int(one) for one in out.split()] == HuggingFaceTokenizer.from_file(made).encode("a cat 猫 ").ids[1:-1] + [
        int(one) for one in transalg("tokenizer", "encode", made, "--text", "<mask>")[1].split()
    ]
    assert transalg("tokenizer", "decode", made, "--ids", out.strip())[1] == text + "\n"
    assert json.loads(transalg("tokenizer", "encode", made, "--text", "a cat", "--tokens", "--ends")[1])[0] == "<bos>"
    words = str(tmp_path / "words.json")
    transalg("tokenizer", "train", "--data", str(tmp_path / "a.txt"), "--out", words, "--kind", "word")
    status, out, err = transalg("tokenizer", "encode", words, "--text", "a dog")
    assert status == 0 and "not in the vocabulary: dog" in err
    for bad, said in (("1 x", "expected token IDs with spaces between"), ("999999", f"expected token IDs from 0 to {N_V - 1}")):
        status, _, err = transalg("tokenizer", "decode", made, "--ids", bad)
        assert status == 2 and said in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "lm", "--data", "a.txt"], "--out: expected a folder"),
        (["train", "--out", "run"], "expected a task, lm, mlm, seq2seq, classify, multi or gato"),
        (["train", "lm", "--out", "run"], "--data: expected a file"),
        (["train", "lm", "--out", "run", "--data", "none.txt"], "none.txt: no such file or folder, nor built-in data (pydocs)"),
        (["train", "lm", "--out", "run", "--data", "bad.txt"], "bad.txt:2: expected UTF-8, got the byte 0xff"),
        (["train", "lm", "--out", "run", "--data", "empty.txt"], "empty.txt: expected documents, got nothing but white space"),
        (["train", "seq2seq", "--out", "run", "--data", "a.txt"], "a.txt:1: expected source, a tab, target, got no tab"),
        (["train", "classify", "--out", "run", "--data", "one.txt"], "at least 2 classes, got 2 that are all 'x'"),
        (["train", "classify", "--out", "run", "--data", "t.csv"], "t.csv:1: expected a column 'label', got text, lab"),
        (["train", "seq2seq", "--out", "run", "--data", "p.txt", "--model.ell-max", "5"], "p.txt:2: 12 tokens, and the model takes 5"),
        (["train", "lm", "--out", "run", "--data", "a.txt", "--model.H", "3"], "H: expected a divisor of d_e = 128"),
        (["train", "lm", "--out", "run", "--data", "a.txt", "--preset", "gpt9"], "there is no preset 'gpt9'"),
        (
            ["train", "lm", "--out", "run", "--data", "a.txt", "--tokenizer", "tok"],
            "--tokenizer: expected char, word, bpe, or a tokenizer.json",
        ),
        (["train", "lm", "--out", "run", "--data", "a.txt", "--train.eta", "-1"], "train.eta: expected a number in (0, 1000], got -1.0"),
        (["train", "--out", "run", "--resume"], "run: there is no run to resume"),
        (["train", "lm", "--out", "run", "--resume"], "run: there is no run to resume"),
        (["train", "lm", "--out", "full", "--data", "a.txt"], "full: exists already; --resume continues it, --overwrite starts over"),
        (["train", "lm", "--out", "run", "--config", "none.toml"], "none.toml: cannot be read: No such file"),
        (["evaluate", "none"], "none: expected the folder of a run, there is none"),
        (["evaluate", "full"], "full: there is no trained model in this folder"),
        (["plot", "full"], "metrics.jsonl: cannot be read: No such file"),
        (["tokenizer", "encode", "none.json", "--text", "a"], "none.json: cannot be read: No such file"),
    ],
)
def test_a_mistake_gets_a_line_and_leaves_nothing(arguments: list[str], said: str, transalg: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("a cat sat\n" * 9)
    Path("bad.txt").write_bytes(b"one\ntw\xffo\n")
    Path("empty.txt").write_text(" \n")
    Path("one.txt").write_text("x\ta\nx\tb\n")
    Path("t.csv").write_text("text,lab\na,b\n")
    Path("p.txt").write_text("a\tb\na long one\tx\n")
    Path("full").mkdir()
    Path("full/file").write_text("mine")
    status, _, err = transalg(*arguments)
    assert status == 2 and said in " ".join(err.split()) and "Traceback" not in err and len(err.strip().splitlines()) <= 2
    assert not Path("run").exists() and Path("full/file").read_text() == "mine"
    assert not list(Path().rglob("*.part"))


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    """On a real terminal, with a bar."""
    files(tmp_path)
    command = [sys.executable, "-m", "transalg", "train", "lm", "--out", "run", *flags("lm", tmp_path, steps=100_000, eval_every=50_000)]
    lead, follow = pty.openpty()
    environment = os.environ | {"COLUMNS": "80", "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=follow, stdout=follow, stderr=follow, cwd=tmp_path, env=environment, close_fds=True)
    os.close(follow)
    seen = b""
    interrupted = False
    while select.select([lead], [], [], 120)[0]:
        try:
            more = os.read(lead, 65536)
        except OSError:  # the other side is closed
            break
        if not more:
            break
        seen += more
        if not interrupted and re.search(rb"[1-9]\d*/100000", re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", seen)):
            interrupted = True
            process.send_signal(signal.SIGINT)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
    assert process.wait(60) == 130, text[-2000:]
    assert re.search(r"loss \d\.\d{3}  [\d,]+ tokens/s", text), "the bar tells loss and speed"
    assert "Interrupted and saved" in text and "transalg train --out run --resume" in text
    assert "Traceback" not in text
    step = checkpoints.load_metadata(tmp_path / "run" / "last.safetensors").state["step"]
    done = subprocess.run(
        [sys.executable, "-m", "transalg", "train", "lm", "--out", "run", "--resume", "--train.steps", str(step + 2)],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0 and f"Resuming at step {step:,}" in done.stdout and f"step {step + 2:,}" in done.stdout
