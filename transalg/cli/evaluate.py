"""transalg evaluate: the metrics of a trained model."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from transalg import terminal
from transalg.atomic import atomic_write
from transalg.cli.bounds import MaybeBeams, MaybeTau, Seed
from transalg.cli.pictures import check_picture, confusion_picture, reliability_picture, write_picture
from transalg.cli.using import (
    CheckpointName,
    Device,
    Flag,
    Head,
    MaybeFile,
    MaybeText,
    Quantize,
    Runs,
    check_output,
    json_line,
    load_runs,
)
from transalg.limits import limits
from transalg.tasks import TASKS, find
from transalg.terminal import marked

if TYPE_CHECKING:
    from transalg.evaluation.measure import Evaluation
    from transalg.evaluation.tasks import TaskFigures
    from transalg.inference.run import Run

CONFUSED = 10  # pairs of classes that are shown where the matrix is too wide


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a run or an ensemble on data: loss, perplexity, accuracy, exact match, BLEU; of gato, what it does in every task.

    transalg evaluate RUN --data FILE
    """

    runs: Runs
    """Folders that `transalg train` made. Several of one vocabulary are an ensemble: their P̂ is averaged."""
    data: Annotated[str | None, tyro.conf.arg(metavar="DATA", help_behavior_hint="")] = None
    """A file, a folder, or the name of built-in data; by default the validation set of the run."""
    head: Head = None
    predictions: MaybeFile = None
    """Write every prediction of a classifier or a seq2seq model to this file, as JSON lines."""
    beams: MaybeBeams = None
    """Beams of the search, for a seq2seq model; by default it decodes greedily."""
    references: Literal["merge", "separate"] = "merge"
    """Pairs with the same source: one text with several references, any of which is right; or a text each."""
    confusion: MaybeFile = None
    """Draw the confusion matrix of a classifier: a picture, PNG, SVG or PDF."""
    calibration: MaybeFile = None
    """Draw the reliability diagram of a classifier: a picture, PNG, SVG or PDF."""
    too_long: Annotated[Literal["error", "skip", "cut"] | None, tyro.conf.arg(metavar="{error,skip,cut}", help_behavior_hint="")] = None
    """What to do with pairs and labelled texts longer than the model takes; by default they are cut, with a note, but the run's own
    validation set is treated as in training."""
    task: MaybeText = None
    """One of gato's tasks, or its world; by default all of them."""
    episodes: Annotated[int | None, limits("[2, 1000000]")] = None
    """Episodes of each world that gato plays, 50 unless given."""
    tau: MaybeTau = None
    """Temperature of its actions; unless given 0, the most probable ones, or 0.75 where only a part of the world is seen (MiniGrid)."""
    no_prompt: Flag = False
    """Let it act without a demonstration."""
    no_images: Flag = False
    """Show it blank images: what captions are right then?"""
    seed: Seed = 0
    """Of its episodes."""
    device: Device = "cpu"
    checkpoint: CheckpointName = "best"
    quantize: Quantize = None
    """Evaluate the model with its weights in 8 bits."""
    json: Flag = False
    """Print one JSON object."""

    def run(self) -> None:
        if not self.runs:
            raise ValueError("evaluate: expected the folder of a run; transalg evaluate RUN")
        check_output(self.predictions)
        pictures: dict[str, Path] = {name: path for name in ("confusion", "calibration") if (path := getattr(self, name)) is not None}
        for path in pictures.values():
            check_picture(path)

        from transalg.evaluation.measure import evaluate
        from transalg.training.watch import Watch

        console = terminal.console()
        run = load_runs(*self.runs, device=self.device, quantize=self.quantize, checkpoint=self.checkpoint)
        if find(run.task).records == "episodes":
            self._tasks(run, console)
            return
        for option in ("task", "episodes", "tau", "no_prompt", "no_images"):
            value = getattr(self, option)
            if value is not None and value is not False:
                raise ValueError(f"--{option.replace('_', '-')}: expected a model for gato, which acts; got one for {run.task}")
        if self.predictions and find(run.task).records == "documents":
            raise ValueError(f"--predictions: a model for {run.task} predicts every token; there is no list of them")
        if pictures and not find(run.task).has_labels:
            classifiers = ", ".join(name for name, task in TASKS.items() if task.has_labels)
            raise ValueError(f"--{next(iter(pictures))}: expected a model for {classifiers}, which has classes; got one for {run.task}")
        with Watch(terminal.console(stderr=True) if self.json else console) as watch:
            evaluation = evaluate(
                run,
                self.data,
                head=self.head,
                too_long=self.too_long,
                predictions=self.predictions is not None,
                beams=self.beams,
                references=self.references,
                report=watch,
            )
        if self.predictions:
            with atomic_write(self.predictions) as file:
                file.writelines(map(json_line, evaluation.predictions))
        if self.confusion and evaluation.confusion is not None:
            write_picture(confusion_picture(evaluation.confusion, list(evaluation.classes)), self.confusion)
        if self.calibration:
            write_picture(reliability_picture(evaluation.calibration, evaluation.figures["calibration error"]), self.calibration)
        if self.json:
            print(json_line(evaluation.figures | _of_classes(evaluation)), end="")
            return
        names, data = ", ".join(str(run) for run in self.runs), self.data or "its own validation set"
        console.print(f"[bold]{marked(names)}[/], {'an ensemble, ' if len(self.runs) > 1 else ''}on {marked(data)}", markup=True)
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
        table.add_column(justify="right")
        table.add_column()
        for name, value in evaluation.figures.items():
            table.add_row(_shown(name, value), name + UNITS.get(name, ""))
        console.print(table)
        if evaluation.classes:
            classes = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
            for title in ("class", *next(iter(evaluation.classes.values()))):
                classes.add_column(title, justify="left" if title == "class" else "right")
            for label, figures in evaluation.classes.items():
                classes.add_row(Text(label), *(_shown(name, value) for name, value in figures.items()))
            console.print()
            console.print(classes)
            if (confused := confusion_table(evaluation, console.width)).row_count:
                console.print()
                console.print(confused)

    def _tasks(self, run: "Run", console: Console) -> None:
        from transalg.evaluation.tasks import EPISODES, evaluate_tasks
        from transalg.training.watch import Watch

        for option in ("data", "head", "beams", "confusion", "calibration", "too_long"):
            if getattr(self, option) is not None:
                raise ValueError(f"--{option.replace('_', '-')}: expected none for gato, which is evaluated on its own tasks")
        if self.references != "merge":
            raise ValueError("--references: for pairs of texts; gato has none")
        with Watch(terminal.console(stderr=True) if self.json else console) as watch:
            results = evaluate_tasks(
                run,
                episodes=EPISODES if self.episodes is None else self.episodes,
                tau=self.tau,
                prompts=not self.no_prompt,
                images=not self.no_images,
                seed=self.seed,
                task=self.task,
                report=watch,
            )
        if self.predictions:
            with atomic_write(self.predictions) as file:
                file.writelines(json_line({"task": each.name} | example) for each in results for example in each.examples)
        if self.json:
            print(json_line({each.name: each.figures for each in results}), end="")
            return
        console.print(self.runs[0], style="bold")
        console.print(task_table(results))
        console.print("Actions are restricted to their range 𝒜_i; 0 % is the return of random actions, 100 % the expert's.")


def task_table(results: "list[TaskFigures]") -> Table:
    """A row for every task."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("task")
    table.add_column("figures")
    for each in results:
        table.add_row(each.name, ", ".join(_of_task(each.figures)) or "–")
    return table


def _of_task(figures: dict[str, float]) -> list[str]:
    if "return" in figures:
        percent = [f"{figures['% of expert']:.1f} ± {figures['± % (95 %)']:.1f} % of the expert"] if "% of expert" in figures else []
        success = [f"{_interval(figures, 'success')} succeed"] if "success" in figures else []
        return [*percent, f"return {figures['return']:.4g}", *success, f"{figures['episodes']} episodes"]
    if "perplexity" in figures:
        bits = f"{figures['bits per byte']:.3f} bits per byte"
        return [f"perplexity {figures['perplexity']:.2f}", bits, f"{figures['predicted tokens']:,} tokens"]
    splits = [name.removeprefix(ANSWERS) for name in figures if name.startswith(ANSWERS)]
    return [f"{split}: {_interval(figures, EXACT + split)} of {figures[ANSWERS + split]:,} exactly right" for split in splits]


def _interval(figures: dict[str, float], name: str) -> str:
    """A share, and the 95 % interval of it."""
    return f"{figures[name]:.1%} ({100 * figures[f'{name}, from']:.0f}–{100 * figures[f'{name}, to']:.0f})"


EXACT, ANSWERS = "exact match on ", "answers to "


def _of_classes(evaluation: "Evaluation") -> dict[str, object]:
    """What JSON has of a classifier besides its figures."""
    if evaluation.confusion is None:
        return {}
    bins = [asdict(each) for each in evaluation.calibration]
    return {"classes": evaluation.classes, "confusion": evaluation.confusion.tolist(), "calibration": bins}


def confusion_table(evaluation: "Evaluation", width: int) -> Table:
    """The confusion matrix; if the terminal is too narrow for it, the pairs of classes that are confused most."""
    from transalg.evaluation.classes import most_confused

    assert evaluation.confusion is not None
    labels, matrix = list(evaluation.classes), [[f"{count:,}" for count in row] for row in evaluation.confusion.tolist()]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    columns = [max(len(label), *(len(row[i]) for row in matrix)) + 2 for i, label in enumerate(labels)]
    if max(len(TRUE), *map(len, labels)) + 2 + sum(columns) - 2 <= width:
        for title in (TRUE, *labels):
            table.add_column(Text(title), justify="left" if title == TRUE else "right")
        for label, row in zip(labels, matrix, strict=True):
            table.add_row(Text(label), *row)
        return table
    for title in ("most confused: true", "predicted", "texts", "of the class"):
        table.add_column(title, justify="right" if title in ("texts", "of the class") else "left")
    for true, predicted, count in most_confused(evaluation.confusion, CONFUSED):
        share = count / int(evaluation.confusion[true].sum())
        table.add_row(Text(labels[true]), Text(labels[predicted]), f"{count:,}", f"{share:.1%}")
    return table


TRUE = "true ╲ predicted"


UNITS = {
    "loss": ", nats per prediction",
    "token error rate": ", edits per token",
    "calibration error": ", expected (ECE)",
    "accuracy": " of the most probable prediction",
}
SHARES = ("accuracy", "exact match", "token error rate", "precision", "recall", "F1", "macro F1")


def _shown(name: str, value: float) -> str:
    if name in SHARES or name.startswith("accuracy of "):
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if name in ("perplexity", "BLEU") else f"{value:.4f}"


EvaluateVerb = Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
