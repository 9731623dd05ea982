"""Commands that read an original, and which of its files each reads. They run in its folder."""

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.faults.places import ELSEWHERE

TRAIN = "--train.steps 1 --train.batch-size 2 --train.threads 1 --train.dtype float32"
RESUME = "train --resume --out run --train.steps 5"
MODEL, TOKENIZER, LAST, CONFIG, METRICS = "best.safetensors", "tokenizer.json", "last.safetensors", "config.toml", "metrics.jsonl"

# A letter for each file that a command reads: m the best model, t the tokenizer, l the last checkpoint, c the options, p the metrics.
LETTERS = {"m": MODEL, "t": TOKENIZER, "l": LAST, "c": CONFIG, "p": METRICS}
ANY_RUN = (
    ("mtc", "evaluate run --json"),
    ("ltc", "evaluate run --checkpoint last"),
    ("mtc", "verify run --json"),
    ("p", "plot run"),
    ("p", "plot run --out out.svg"),
    ("ltcp", RESUME),
    ("ltcp", "train --resume --out run --train.steps 6 --train.log-every 1"),
    ("t", "tokenizer encode run --text 'a cat' --ends"),
    ("t", "tokenizer decode run --ids '1 2 0'"),
    ("mt", "export run --format huggingface --out out"),
)
BY_TASK: dict[str, tuple[tuple[str, str], ...]] = {
    "lm": (
        *ANY_RUN,
        ("mt", "generate run --prompt 'a cat' --ell-gen 3 --seed 0 --json"),
        ("lt", "generate run --prompt 'a cat' --ell-gen 3 --seed 0 --checkpoint last --quantize int8"),
        ("mt", "score run --text 'a cat' --json"),
        ("mt", "embed run --text 'a cat' --json"),
        ("mt", "prompt run --input a --ell-gen 3 --seed 0 --json"),
        ("mt", "evaluate run --data lines.txt --json"),
        ("mt", "trace 10 --run run --prompt 'a cat' --json"),
        ("mt", "trace 14 --run run --prompt a --html out.html"),
        ("mt", "export run --format gguf --out out"),
        ("mt", "export run --format ctranslate2 --out out"),
        ("mt", "clean lines.txt --documents line --model run --keep 0.5 --out out.txt --json"),
        ("mt", f"train lm --init run --data lines.txt --documents line --out out {TRAIN}"),
        ("c", f"train --config run/config.toml --out out {TRAIN}"),
        ("t", f"train lm --data lines.txt --tokenizer run/tokenizer.json --out out {TRAIN}"),
        ("mtcpl", f"train lm --data lines.txt --documents line --out run --overwrite {TRAIN}"),
    ),
    "mlm": (
        *ANY_RUN,
        ("mt", "fill run --text 'a <mask>' --json"),
        ("lt", "fill run --text 'a <mask>' --checkpoint last"),
        ("mt", "score run --text 'a cat'"),
        ("mt", "embed run --text 'a cat' --out out.npy"),
        ("mt", "trace 9 --run run --text 'a <mask>' --json"),
        ("mt", f"train classify --init run --data labels.txt --out out {TRAIN}"),
    ),
    "seq2seq": (
        *ANY_RUN,
        ("mt", "predict run --input 'a cat' --json"),
        ("mt", "predict run --input 'a cat' --beams 2 --n-best 2 --json"),
        ("lt", "predict run --input 'a cat' --checkpoint last --quantize int8"),
        ("mt", "score run --text 'a cat' --context 'tac a' --json"),
        ("mt", "evaluate run --data pairs.txt --predictions out.jsonl"),
        ("mt", "trace 8 --run run --text a --context b --json"),
        ("mt", f"train seq2seq --init run --data pairs.txt --out out {TRAIN}"),
        ("mt", "export run --format ctranslate2 --out out"),
    ),
    "classify": (
        *ANY_RUN,
        ("mt", "classify run --text 'a cat' --json"),
        ("mt", "classify run --text 'a cat' --all"),
        ("lt", "classify run --text 'a cat' --checkpoint last --json"),
        ("mt", "embed run --text 'a cat' --json --quantize int8"),
        ("mt", "evaluate run --data labels.txt --predictions out.jsonl --json"),
        ("mt", "evaluate run --data labels.txt --confusion out.png"),
        ("mt", "trace 9 --run run --text 'a cat' --json"),
        ("mt", f"train classify --init run --data labels.txt --out out {TRAIN}"),
    ),
    "multi": (
        *ANY_RUN,
        ("mt", "classify run --text 'a cat' --head labels --json"),
        ("lt", "classify run --text 'a cat' --head animals --checkpoint last"),
        ("mt", "evaluate run --data labels.txt --head labels --json"),
    ),
    "gato": (
        ("mtc", "evaluate run --episodes 2 --json"),
        ("p", "plot run"),
        ("ltcp", "train --resume --out run --train.steps 3"),
        ("t", "tokenizer encode run --text 'a sea'"),
        ("mtc", "play run --env taxi --json"),
        ("ltc", "play run --env taxi --out out.png --checkpoint last --no-prompt"),
        ("mt", "caption run --image image.png --json"),
        ("mt", "generate run --prompt 'a sea' --ell-gen 3 --seed 0 --json"),
        ("mtc", "train gato --init run --data taxi colours prose --out out --train.steps 1 --train.threads 1 --train.dtype float32"),
        ("mtc", "verify run --json"),
    ),
}  # fmt: skip
EPISODES = (
    "gato show {}",
    "train gato --data taxi colours prose --tokenizer char --out out --train.steps 1 --train.threads 1 --train.batch-tokens 97 "
    "--train.dtype float32 --model.L 1 --model.H 2 --model.d-e 10 --model.d-mlp 13 --model.ell-max 41 --model.C-r 6 --model.G 3 --model.N-grid 7",
    "train --resume --out run --train.steps 3",
    "evaluate run --episodes 2 --json",
    "play run --env taxi --json",
)
CACHED = {
    "lm": ("evaluate run --json", RESUME, "evaluate run --data lines.txt --json", "verify run --json"),
    "seq2seq": ("evaluate run --json", RESUME),
    "classify": ("evaluate run --json", RESUME, "evaluate run --data labels.txt --json"),
}
DATA = {
    "lines.txt": (
        f"train lm --data lines.txt --documents line --out out {TRAIN}",
        "evaluate run --data lines.txt",
        "generate run --file lines.txt --ell-gen 2 --json",
        "score run --file lines.txt --json",
        "clean lines.txt --documents line --out out.txt --near 0.8 --json",
        "tokenizer train --data lines.txt --out out.json",
        RESUME,
    ),
    "lines.txt.gz": (
        f"train lm --data lines.txt.gz --documents line --out out {TRAIN}",
        "clean lines.txt.gz --documents line --out out.txt --json",
        "evaluate run --data lines.txt.gz --json",
    ),
    "labels.txt": (
        f"train classify --data labels.txt --out out {TRAIN}",
        "clean labels.txt --records labelled --out out.txt --json",
        f"train multi --data labels.txt animals.txt --out out {TRAIN}",
    ),
    "pairs.txt": (f"train seq2seq --data pairs.txt --out out {TRAIN}", "clean pairs.txt --records pairs --out out.txt --json"),
    **{
        name: (
            f"train classify --data {name} --out out {TRAIN}",
            f"clean {name} --out out.{name.partition('.')[2]} --json",
            f"clean {name} --out out.{name.partition('.')[2]} --removed out --min-words 3",
            f"score run --file {name} --json",
            f"tokenizer train --data {name} --kind word --out out.json",
            f"prompt run --examples {name} --template '{{text}} {{label}}' --input a --ell-gen 2 --json",
        )
        for name in ("table.csv", "table.tsv", "table.jsonl")
    },
}
IMPORTS = {
    "huggingface": tuple(f"import {name} --out out" for name in ("llama", "gpt2", "bert", "marian")),
    "gguf": ("import model.gguf --out out", "import model.gguf --out out --tokenizer ids"),
    "llama2c": ("import model.bin --tokenizer tokenizer.bin --out out", "import model.bin --tokenizer ids --out out"),
}
WRITES = ("--out", "--predictions", "--html", "--removed", "--save-theta", "--confusion", "--calibration")


def reading(task: str, file: str) -> list[list[str]]:
    """The commands that read a file of a task's run, as arguments."""
    return [shlex.split(command) for letters, command in BY_TASK[task] if any(LETTERS[letter] == file for letter in letters)]


def written_by(arguments: Sequence[str]) -> list[str]:
    """The names that the options of a command give for what it writes."""
    split = [part for argument in arguments for part in (argument.split("=", 1) if argument.startswith("--") else [argument])]
    return [value for option, value in pairwise(split) if option in WRITES]


def owned(arguments: Sequence[str]) -> list[str]:
    """Patterns of the names of the files that a command may write."""
    written = written_by(arguments)
    patterns = [f"work/{value}{end}" for value in written for end in ("", "/*")]
    patterns += [f"work/{folder}" for value in written for folder in Path(value).parents if folder.name]
    if arguments[0] == "plot" and "--out" not in arguments:
        patterns += [f"work/{run}/curves.png" for run in arguments[1:]]
    return [*patterns, f"work/{ELSEWHERE}"] if patterns else []
