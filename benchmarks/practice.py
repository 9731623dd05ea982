"""The practice of §8: one small task for each of its items, with the item and without it, on the same seeds.

    python -m benchmarks.practice                             # all rows; or some, by name
    python -m benchmarks.practice dropout few-shot --seeds 5  # some
    python -m benchmarks.practice --table results.jsonl       # the table of earlier results

A row of the table is a value in ROWS; a new one is a line. The two sides of a row are trained one after the other, in turn for each seed, by the
real command line with one thread. A run that several rows need is trained once. The data is read from ../shared/data; rows whose data is
missing are skipped with a message. Results are lines of JSON in FOLDER/results.jsonl, where --keep names the folder; runs stay there too.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import shlex
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.commandline import DATA, SHAPE, STEPS, final_loss, measured, metrics, sst2_rows, transalg, trec_rows, write

Side = Literal["without", "with"]
SIDES: tuple[Side, Side] = ("without", "with")
Flags = dict[str, tuple[str, ...]]  # values by name
QUICK = "--train.steps 3 --train.eval-every 3"
LABELLED = 2000  # questions of TREC to train on; the others are text for pre-training
QUESTIONS = 100  # to a language model
PARAGRAPHS = "--documents paragraph --train.steps 900 --train.eval-every 900 --train.batch-size 64"  # how that is trained


@dataclass(frozen=True)
class Task:
    """A small task: what is trained, on what, how, and the figure that is reported."""

    command: str  # of transalg train
    data: str  # a file in the folder, or built-in data
    flags: str
    figure: str
    higher: bool  # is better
    needs: str = ""  # a file of ../shared/data


TASKS = {
    "TREC": Task("classify", "trec.jsonl", "--train.epochs 4", "accuracy of the test set", True, "cls/TREC.train"),
    "500 of TREC": Task(
        *("classify", "trec-500.jsonl", "--train.steps 100 --train.eval-every 100", "accuracy of the test set", True),
        needs="cls/sst2.train",
    ),
    "lm": Task(
        "lm",
        "lm/tinyshakespeare.txt",
        shlex.join([*SHAPE, "--train.steps", str(STEPS), "--train.eval-every", str(STEPS)]),
        "validation loss",
        False,
        "lm/tinyshakespeare.txt",
    ),
    "dates": Task("seq2seq", "dates", "--train.steps 300 --train.eval-every 300 --train.batch-size 32", "validation loss", False),
    "sums": Task("lm", "sums.txt", f"--model.L 3 --model.ell-max 80 --model.positions learned {PARAGRAPHS}", "right answers", True),
    "tables": Task("lm", "tables.txt", f"--model.L 3 --model.ell-max 80 {PARAGRAPHS}", "right answers", True),
}


@dataclass(frozen=True)
class Row:
    """An item of §8, and how it is measured."""

    name: str
    item: str  # in the words of §8
    flag: str  # what a user types
    task: str
    without: str = ""  # flags of the side without the item
    flags: str = ""  # and of the side with it
    verb: Literal["train", "clean", "prompt"] = "train"  # that takes these flags
    statement: str = ""  # the formal one, if there is one
    measure: "Callable[[Bench, Row, Side, int], Outcome] | None" = None  # instead of training with these flags
    figure: str = ""  # instead of the task's


@dataclass(frozen=True)
class Outcome:
    """The figure of one side with one seed, and how long it took."""

    figure: float
    seconds: float


def parsed(flags: str) -> Flags:
    """A line of flags by name.

    >>> parsed("--train.steps 3 --train.no-shuffle")
    {'--train.steps': ('3',), '--train.no-shuffle': ()}
    """
    result: Flags = {}
    name = ""
    for word in shlex.split(flags):
        name = word if word.startswith("--") else name
        result[name] = () if word == name else (*result[name], word)
    return result


def combined(*lines: str) -> list[str]:
    """The words of several lines of flags; a later line overrides an earlier one, and steps override epochs.

    >>> combined("--train.epochs 5 --model.L 2", "--model.L 3 --train.steps 7")
    ['--model.L', '3', '--train.steps', '7']
    """
    flags: Flags = {}
    for line in lines:
        more = parsed(line)
        length = {"--train.steps", "--train.epochs"}
        flags = {name: values for name, values in flags.items() if name not in length or not length & more.keys()} | more
    return [word for name, values in flags.items() for word in (name, *values)]


def training(task: Task, flags: str, seed: int = 0, quick: bool = False) -> list[str]:
    """What follows `transalg train`, but for the data and the folder of the run."""
    return [task.command, *combined(task.flags, flags, QUICK if quick else "", f"--train.threads 1 --train.seed {seed}")]


def command(row: Row, side: Side) -> list[str]:
    """The command that a row's flags are for, with names for what it reads and writes."""
    flags = row.flags if side == "with" else row.without
    if row.verb == "train":
        return ["train", *training(TASKS[row.task], flags), "--data", "DATA", "--out", "RUN"]
    return (
        ["clean", "DATA.jsonl", "--out", "OUT.jsonl", *shlex.split(flags)]
        if row.verb == "clean"
        else ["prompt", "RUN", *shlex.split(flags)]
    )


def problem(row: Row) -> str:
    """Why the command line of this version does not take a row's flags; empty if it does. Nothing is trained."""
    import tyro

    from transalg.cli.clean import Clean
    from transalg.cli.prompt import Prompt
    from transalg.cli.train import Train
    from transalg.runs.config import Config

    verbs: dict[str, Any] = {"train": Train, "clean": Clean, "prompt": Prompt}
    for side in SIDES:
        printed = io.StringIO()
        try:
            with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
                name, *words = command(row, side)
                verb: Any = tyro.cli(verbs[name], args=words, config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff))
            if isinstance(verb, Train):
                Config.from_dict(verb._chosen())
        except SystemExit:
            return f"this version does not take {row.flag}"
        except ValueError as error:
            return str(error)
    return ""


# Measuring -------------------------------------------------------------------------------------------------------------


class Bench:
    """The folder of the runs and the data. What has been trained is not trained again."""

    def __init__(self, folder: Path, quick: bool = False) -> None:
        self.folder, self.quick = folder, quick

    def data(self, name: str) -> str:
        """Where data is: in the folder, in ../shared/data, or built in."""
        return next((str(path) for path in (self.folder / name, DATA / name) if path.exists()), name)

    def run(self, task: Task, flags: str, seed: int, *data: str) -> Path:
        """The run of a task with these flags, on its data or on others."""
        words = [*training(task, flags, seed, self.quick), "--data", *map(self.data, data or (task.data,))]
        out = self.folder / "runs" / hashlib.blake2b(json.dumps(words).encode(), digest_size=8).hexdigest()
        if not (out / "done").exists():
            transalg("train", *words, "--out", out, "--overwrite")
            (out / "done").touch()
        return out

    def figure(self, task: Task, *runs: Path) -> float:
        """The figure of a run, or of an ensemble of runs."""
        if task.command == "classify":
            return float(json.loads(transalg("evaluate", *runs, "--json", "--data", self.folder / "trec-test.jsonl"))["accuracy"])
        return final_loss(runs[0])


def seconds(*runs: Path) -> float:
    """Of training."""
    return float(sum(metrics(run)[-1]["seconds"] for run in runs))


def trained(bench: Bench, row: Row, side: Side, seed: int) -> Outcome:
    """Train with the flags of a side."""
    task = TASKS[row.task]
    run = bench.run(task, row.flags if side == "with" else row.without, seed)
    return Outcome(bench.figure(task, run), seconds(run))


def cleaned(bench: Bench, row: Row, side: Side, seed: int) -> Outcome:
    """Train on questions as they were spoilt, or on what transalg clean makes of them."""
    task, spent = TASKS[row.task], 0.0
    if side == "with" and not (bench.folder / "trec-clean.jsonl").exists():
        start = time.perf_counter()
        transalg("clean", bench.folder / "trec-dirty.jsonl", "--out", bench.folder / "trec-clean.jsonl", *shlex.split(row.flags))
        spent = time.perf_counter() - start
    run = bench.run(task, "", seed, "trec-clean.jsonl" if side == "with" else "trec-dirty.jsonl")
    return Outcome(bench.figure(task, run), seconds(run) + spent)


def in_order(bench: Bench, row: Row, side: Side, seed: int) -> Outcome:
    """Train on a file that has class after class, with rows shuffled or not."""
    task = TASKS[row.task]
    run = bench.run(task, row.flags if side == "with" else row.without, seed, "trec-sorted.jsonl")
    return Outcome(bench.figure(task, run), seconds(run))


def pretrained(bench: Bench, row: Row, side: Side, seed: int) -> Outcome:
    """Train a classifier from an mlm of all questions' text, or from random weights."""
    task = TASKS[row.task]
    if side == "without":
        return trained(bench, row, side, seed)
    pretraining = Task("mlm", "trec.txt", "--documents line --train.steps 600 --train.batch-size 64", "", False)
    base = bench.run(pretraining, "", seed)
    run = bench.run(task, f"--init {shlex.quote(str(base))}", seed)
    return Outcome(bench.figure(task, run), seconds(base, run))


def multi_task(bench: Bench, row: Row, side: Side, seed: int) -> Outcome:
    """Train on few questions alone, or together with sentences of SST-2; both sides read about as many questions."""
    task = TASKS[row.task]
    if side == "without":
        return trained(bench, row, side, seed)
    both = Task("multi", "", "--train.steps 200 --train.eval-every 200 --weights 1 1", "", True)
    run = bench.run(both, "", seed, task.data, "sst2.jsonl")
    test = measured(run, "--data", bench.folder / "trec-test.jsonl", "--head", Path(task.data).stem)
    return Outcome(test["accuracy"], seconds(run))


def ensembled(bench: Bench, row: Row, side: Side, seed: int) -> Outcome:
    """Evaluate one run, or three of other seeds together."""
    task = TASKS[row.task]
    runs = [bench.run(task, "", one) for one in ((seed, seed + 100, seed + 200) if side == "with" else (seed,))]
    return Outcome(bench.figure(task, *runs), seconds(*runs))


def cross_validated(bench: Bench, row: Row, side: Side, seed: int) -> Outcome:
    """How far the validation accuracy of few questions is from the accuracy of the same models on many others: of one part of the questions,
    or of every part in turn."""
    few, others = f"trec-few-{seed}.jsonl", f"trec-others-{seed}.jsonl"
    rows = trec_rows("train")
    random.Random(seed).shuffle(rows)
    write(bench.folder / few, rows[:300])
    write(bench.folder / others, rows[300:])
    run = bench.run(TASKS[row.task], row.flags if side == "with" else row.without, seed, few)
    runs = sorted(run.glob("fold-*")) if side == "with" else [run]
    validation = statistics.mean([line["val_accuracy"] for line in metrics(one) if "val_accuracy" in line][-1] for one in runs)
    truth = statistics.mean(measured(one, "--data", bench.folder / others)["accuracy"] for one in runs)
    return Outcome(abs(validation - truth), seconds(*runs))


def answered(bench: Bench, row: Row, side: Side, seed: int) -> Outcome:
    """Ask a language model of sums, in the way of a side."""
    return _ask(bench, TASKS[row.task], seed, "sums", row.flags if side == "with" else row.without)


def with_examples(bench: Bench, row: Row, side: Side, seed: int) -> Outcome:
    """Ask for a @ b, where only examples can tell what @ is."""
    outcomes = [
        _ask(
            bench,
            TASKS[row.task],
            seed,
            name,
            f"--examples {shlex.quote(str(bench.folder / f'{name}-examples.jsonl'))}" if side == "with" else "",
        )
        for name in OPERATIONS
    ]
    return Outcome(statistics.mean(each.figure for each in outcomes), sum(each.seconds for each in outcomes))


def _ask(bench: Bench, task: Task, seed: int, name: str, flags: str) -> Outcome:
    run = bench.run(task, "", seed)
    questions = bench.folder / f"{name}.jsonl"
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    start = time.perf_counter()
    lines = transalg("prompt", run, "--file", questions, "--json", "--ell-gen", 60, "--seed", seed, *shlex.split(flags)).splitlines()
    took = time.perf_counter() - start
    right = sum(json.loads(line)["answer"] == row["output"] for line, row in zip(lines, rows, strict=True))
    return Outcome(right / len(rows), took)


# Data ------------------------------------------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[[int, int], int]] = {"larger": max, "smaller": min, "last-digit": lambda a, b: (a + b) % 10}


def prepare(folder: Path, quick: bool = False) -> None:
    """Write the data of the tasks; that of TREC where it is."""
    draw = random.Random(0)
    arithmetic(folder, draw, QUESTIONS if not quick else 3)
    if not (DATA / "cls" / "TREC.train").exists():
        return
    rows = trec_rows("train")
    write(folder / "trec.jsonl", rows[:LABELLED])
    write(folder / "trec-500.jsonl", rows[:500])
    if (DATA / "cls" / "sst2.train").exists():
        write(folder / "sst2.jsonl", sst2_rows()[:LABELLED])
    write(folder / "trec-test.jsonl", trec_rows("test"))
    write(folder / "trec-sorted.jsonl", sorted(rows[:LABELLED], key=lambda row: row["label"]))
    (folder / "trec.txt").write_text("".join(f"{row['text']}\n" for row in rows), encoding="utf-8")
    write(folder / "trec-dirty.jsonl", dirty(rows[:LABELLED], draw))


def dirty(rows: Sequence[dict[str, str]], draw: random.Random) -> list[dict[str, str]]:
    """Rows as careless collection leaves them: in random order, among copies with other white space, of which some have a wrong label."""
    labels = sorted({row["label"] for row in rows})
    copies = [
        {
            "label": draw.choice(labels) if draw.random() < 0.7 else row["label"],
            "text": row["text"].replace(" ", draw.choice((" ", "  ", "\u00a0"))),
        }
        for row in draw.sample(rows, len(rows) // 2)
        for _ in range(2)
    ]
    mixed = [*rows, *copies]
    draw.shuffle(mixed)
    return mixed


def arithmetic(folder: Path, draw: random.Random, questions: int) -> None:
    """Sums, by themselves, with a scratchpad, and with a chain of thought; and tables of a @ b whose @ differs from table to table."""
    held_out = {(draw.randrange(100, 1000), draw.randrange(100, 1000)) for _ in range(questions)}
    documents = list[str]()
    while len(documents) < 12000:
        a, b = draw.randrange(100, 1000), draw.randrange(100, 1000)
        if (a, b) in held_out:
            continue
        steps = digits(a, b)
        answers = (f"A: {a + b}", f"S: {' '.join(steps)}\nA: {a + b}", f"Think: {', '.join(steps)}, so the answer is {a + b}.")
        documents.append(f"Q: {a}+{b}\n{answers[len(documents) % 3]}")
    (folder / "sums.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    write(folder / "sums.jsonl", [{"input": f"{a}+{b}", "output": str(a + b)} for a, b in sorted(held_out)])
    tables = list[str]()
    for _ in range(4000):
        operation = draw.choice(list(OPERATIONS.values()))
        pairs = [(draw.randrange(10), draw.randrange(10)) for _ in range(8)]
        tables.append("\n".join(f"{a}@{b}: {operation(a, b)}" for a, b in pairs))
    (folder / "tables.txt").write_text("\n\n".join(tables) + "\n", encoding="utf-8")
    for name, operation in OPERATIONS.items():
        for file, count in ((f"{name}.jsonl", questions), (f"{name}-examples.jsonl", 6)):
            pairs = [(draw.randrange(10), draw.randrange(10)) for _ in range(count)]
            write(folder / file, [{"input": f"{a}@{b}", "output": str(operation(a, b))} for a, b in pairs])


def digits(a: int, b: int) -> list[str]:
    """The steps of a sum, digit by digit from the right, the carry first.

    >>> digits(417, 325)
    ['0+7+5=12', '1+1+2=4', '0+4+3=7']
    """
    steps, carry = list[str](), 0
    while a or b:
        total = carry + a % 10 + b % 10
        steps.append(f"{carry}+{a % 10}+{b % 10}={total}")
        a, b, carry = a // 10, b // 10, total // 10
    return steps


# The table -------------------------------------------------------------------------------------------------------------

PLAIN = r"--template 'Q: {input}\nA: {output}' --separator '\n\n'"
SCRATCHPAD = r"--template 'Q: {input}\nS: {scratchpad}\nA: {output}' --separator '\n\n'"
THOUGHT = r"--template 'Q: {input}\n{output}' --cue 'Think:'"
DISTANCE = "TREC, error of validation"  # its distance from the accuracy of 5,152 other questions
BATCH_1 = f"--train.batch-size 1 --train.steps {12 * STEPS} --train.eval-every {12 * STEPS}"
LONG = "--train.epochs 8 --train.eval-every 57"
FEW = "--train.steps 150 --train.eval-every 150 --split 0.2"  # both sides learn from 240 questions; no validation chooses among models

ROWS = [
    # Data preprocessing
    Row("cleaning", "cleaning", "transalg clean", "TREC", flags="--near 0.9 --drop-contradictions", verb="clean", measure=cleaned),
    Row("augmentation", "augmentation", "--train.token-drop", "TREC", "--train.token-drop 0", "--train.token-drop 0.2"),
    Row("noise", "adding noise", "--train.noise", "TREC", flags="--train.noise 0.1"),
    Row("shuffling", "shuffling", "--train.no-shuffle (without)", "TREC", "--train.no-shuffle", measure=in_order),
    # Architecture
    Row("sparse", "sparse layers", "--model.band", "lm", flags="--model.band 16", statement="mask.sparse"),
    Row("tied", "weight sharing", "--model.tied", "lm", "--model.tied False", statement="unembedding.tied"),
    Row("shared", "weight sharing", "--model.shared", "lm", flags="--model.shared 4", statement="sharing.shared"),
    # Training
    Row("adamw", "improved optimizers", "--train.optimizer adamw", "lm", "--train.optimizer sgd", "--train.optimizer adamw"),
    Row("muon", "improved optimizers", "--train.optimizer muon", "lm", "--train.optimizer adamw"),
    Row("minibatches", "minibatches", "--train.batch-size", "lm", BATCH_1),
    Row("batch-norm", "batch normalization", "--model.norm batch_norm", "lm", flags="--model.norm batch_norm", statement="norm.batch_norm"),
    Row("schedule", "learning rate scheduling", "--train.schedule", "lm", "--train.schedule constant --train.warmup 0"),
    Row("initialisation", "weight initialization", "--model.init-std", "lm", "--model.init-std 1"),
    Row("pre-training", "pre-training", "--init", "TREC", "--model.L 2 --model.positions rotary", measure=pretrained),
    Row("ensembling", "ensembling", "transalg evaluate RUN RUN RUN", "TREC", measure=ensembled),
    Row("multi-task", "multi-task", "transalg train multi", "500 of TREC", measure=multi_task, statement="classification.MultiTaskClassifier"),
    Row("adversarial", "adversarial", "--train.adversarial", "TREC", flags="--train.adversarial 0.1", statement="adversarial.adversarial_loss"),
    # Regularization
    Row("weight-decay", "weight decay", "--train.weight-decay", "lm", "--train.weight-decay 0"),
    Row("early-stopping", "early stopping", "--train.patience", "TREC", LONG, f"{LONG} --train.patience 2"),
    Row("cross-validation", "cross-validation", "--folds", "TREC", FEW, f"{FEW} --folds 5", measure=cross_validated, figure=DISTANCE),
    Row("dropout", "dropout", "--model.dropout", "TREC", "--model.dropout 0"),
    Row("noise-dates", "adding noise", "--train.noise", "dates", flags="--train.noise 0.02"),
    # Inference
    Row("scratchpad", "scratchpad prompting", "transalg prompt --template", "sums", PLAIN, SCRATCHPAD, "prompt", measure=answered),
    Row("few-shot", "few-shot prompting", "transalg prompt --examples", "tables", verb="prompt", measure=with_examples),
    Row("chain", "chain of thought", "transalg prompt --cue", "sums", PLAIN, THOUGHT, "prompt", measure=answered),
    Row(
        *("voting", "majority voting", "transalg prompt --votes", "sums"),
        *(f"{SCRATCHPAD} --tau 1", f"{SCRATCHPAD} --tau 1 --votes 9"),
        verb="prompt",
        measure=answered,
    ),
]  # fmt: skip

WITHOUT_A_ROW = {
    "Others": "the paper names none",
}
HEAD = ["§8", "flag", "formal", "task", "without → with, median (range)", "seconds"]


@dataclass(frozen=True)
class Result:
    """The outcomes of a row, one for each seed."""

    row: str
    figures: dict[Side, list[float]]
    seconds: dict[Side, list[float]]


def line(result: Result) -> str:
    """A line of the Markdown table."""
    row = next(row for row in ROWS if row.name == result.row)
    task = TASKS[row.task]
    share = task.higher
    shown = " → ".join(_spread(result.figures[side], share) for side in SIDES)
    took = " → ".join(f"{statistics.median(result.seconds[side]):.0f}" for side in SIDES)
    statement = f"`{row.statement}`" if row.statement else ""
    flag = row.flags if row.flags.startswith(row.flag) else row.flag  # with its value
    return f"| {row.item} | `{flag}` | {statement} | {row.figure or row.task} | {shown} | {took} |"


def _spread(values: Sequence[float], share: bool) -> str:
    scale, unit, digits = (100, " %", 1) if share else (1, "", 3)
    least, middle, most = (f"{scale * value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle}{unit} ({least}–{most})"


def head() -> str:
    return f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}"


def table(path: Path) -> str:
    """The Markdown table of a file of results, in the order of ROWS; of several results of a row, the last."""
    results = dict[str, Result]()
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            result = Result(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise SystemExit(f"{path}:{number}: not a result of this benchmark: {error}") from error
        results[result.row] = result
    return "\n".join([head(), *(line(results[row.name]) for row in ROWS if row.name in results)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="ROW",
        choices=[*(row.name for row in ROWS), []],
        help="all unless given: " + ", ".join(row.name for row in ROWS),
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="the folder for runs, data and results.jsonl")
    parser.add_argument("--quick", action="store_true", help="three steps a run, to see that it works")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the table of these results, and measure nothing")
    parser.add_argument(
        "--commands", action="store_true", help="print what is run for each row without the item and with it, and measure nothing"
    )
    options = parser.parse_args()
    if options.commands:
        for row in ROWS:
            if not options.rows or row.name in options.rows:
                print(row.name, *(f"  {side:<8} transalg {shlex.join(command(row, side))}" for side in SIDES), sep="\n")
        return
    if options.table:
        print(table(options.table))
        return
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        prepare(folder, options.quick)
        print(head(), flush=True)
        for row in ROWS:
            if not options.rows or row.name in options.rows:
                _measure(row, Bench(folder, options.quick), options.seeds)


def _measure(row: Row, bench: Bench, seeds: int) -> None:
    needs = TASKS[row.task].needs
    reason = problem(row) or (f"{needs} is not here" if needs and not (DATA / needs).exists() else "")
    if reason:
        print(f"{row.name}: skipped; {reason}", flush=True)
        return
    outcomes: dict[Side, list[Outcome]] = {side: [] for side in SIDES}
    for seed in range(seeds):
        for side in SIDES if seed % 2 == 0 else SIDES[::-1]:
            outcomes[side].append((row.measure or trained)(bench, row, side, seed))
    result = Result(
        row.name,
        {side: [each.figure for each in outcomes[side]] for side in SIDES},
        {side: [each.seconds for each in outcomes[side]] for side in SIDES},
    )
    with open(bench.folder / "results.jsonl", "a", encoding="utf-8") as file:
        fields: dict[str, Any] = vars(result)
        file.write(json.dumps(fields) + "\n")
    print(line(result), flush=True)


if __name__ == "__main__":
    main()
