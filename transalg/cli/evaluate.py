"""transalg evaluate: the metrics of a trained model."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from transalg.atomic import atomic_write
from transalg.cli.using import CheckpointName, Device, Flag, MaybeFile, Quantize, Runs, check_output, json_line, load_runs
from transalg.tasks import find


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a run or an ensemble on data: loss, perplexity, accuracy, exact match, BLEU.

    transalg evaluate RUN --data FILE
    """

    runs: Runs
    """Folders that `transalg train` made. Several of one vocabulary are an ensemble: their P̂ is averaged."""
    data: Annotated[str | None, tyro.conf.arg(metavar="DATA", help_behavior_hint="")] = None
    """A file, a folder, or the name of built-in data; by default the validation set of the run."""
    predictions: MaybeFile = None
    """Write every prediction of a classifier or a seq2seq model to this file, as JSON lines."""
    too_long: Annotated[Literal["error", "skip", "cut"] | None, tyro.conf.arg(metavar="{error,skip,cut}", help_behavior_hint="")] = None
    """What to do with pairs and labelled texts longer than the model takes; by default they are cut, with a note, but the run's own
    validation set is treated as in training."""
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

        from transalg.cli.watch import Watch
        from transalg.evaluation.measure import evaluate

        console = Console(highlight=False)
        run = load_runs(*self.runs, device=self.device, quantize=self.quantize, checkpoint=self.checkpoint)
        if self.predictions and find(run.task).records == "documents":
            raise ValueError(f"--predictions: a model for {run.task} predicts every token; there is no list of them")
        with Watch(Console(stderr=True, highlight=False) if self.json else console) as watch:
            evaluation = evaluate(run, self.data, too_long=self.too_long, predictions=self.predictions is not None, report=watch)
        if self.predictions:
            with atomic_write(self.predictions) as file:
                file.writelines(map(json_line, evaluation.predictions))
        if self.json:
            print(json_line(evaluation.figures | ({"classes": evaluation.classes} if evaluation.classes else {})), end="")
            return
        names = escape(", ".join(str(run) for run in self.runs))
        data = escape(self.data or "its own validation set")
        console.print(f"[bold]{names}[/], {'an ensemble, ' if len(self.runs) > 1 else ''}on {data}")
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
                classes.add_row(label, *(_shown(name, value) for name, value in figures.items()))
            console.print()
            console.print(classes)


UNITS = {"loss": ", nats per prediction", "token error rate": ", edits per token", "accuracy": " of the most probable prediction"}
SHARES = ("accuracy", "exact match", "token error rate", "precision", "recall", "F1", "macro F1")


def _shown(name: str, value: float) -> str:
    if name in SHARES:
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if name in ("perplexity", "BLEU") else f"{value:.4f}"


EvaluateVerb = Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
