"""transalg evaluate: how good a trained model is."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from transalg.tasks import find


@dataclass(frozen=True)
class Evaluate:
    """Measure a run, or the mean of several runs' P̂, on data: loss, perplexity, accuracy, exact match, BLEU. transalg evaluate RUN --data FILE."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")]
    """Folders that `transalg train` made. Several of one vocabulary are an ensemble."""
    data: Annotated[str | None, tyro.conf.arg(metavar="DATA", help_behavior_hint="")] = None
    """A file, a folder, or the name of built-in data; what the run held back for validation unless given."""
    predictions: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Write every prediction of a classifier or a seq2seq model to this file, as JSON lines."""
    too_long: Annotated[Literal["error", "skip", "cut"] | None, tyro.conf.arg(metavar="{error,skip,cut}", help_behavior_hint="")] = None
    """What to do with pairs and labelled texts longer than the model takes. (default: cut; the run's own validation data: as in training)"""
    device: str = "cpu"
    """Where to compute: cpu, cuda."""
    quantize: Annotated[Literal["int8"] | None, tyro.conf.arg(metavar="{int8}", help_behavior_hint="")] = None
    """Measure the model with its weights in 8 bits."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        if not self.runs:
            raise ValueError("evaluate: expected the folder of a run; transalg evaluate RUN")

        import transalg
        from transalg.cli.watch import Watch
        from transalg.evaluation.measure import evaluate

        console = Console(highlight=False)
        run = transalg.load(*self.runs, device=self.device, quantize=self.quantize)
        if self.predictions and find(run.task).records == "documents":
            raise ValueError(f"--predictions: a model for {run.task} predicts every token; there is no list of them")
        with Watch(Console(stderr=True, highlight=False) if self.json else console) as watch:
            measured = evaluate(run, self.data, too_long=self.too_long, predictions=self.predictions is not None, report=watch)
        if self.predictions:
            lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in measured.predictions)
            self.predictions.write_text("".join(lines), encoding="utf-8")
        if self.json:
            print(json.dumps(measured.figures | ({"classes": measured.classes} if measured.classes else {}), ensure_ascii=False))
            return
        names = escape(", ".join(str(run) for run in self.runs))
        of = escape(self.data or "its own validation data")
        console.print(f"[bold]{names}[/], {'the mean of their P̂, ' if len(self.runs) > 1 else ''}on {of}")
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
        table.add_column(justify="right")
        table.add_column()
        for name, value in measured.figures.items():
            table.add_row(_shown(name, value), name + UNITS.get(name, ""))
        console.print(table)
        if measured.classes:
            classes = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
            for title in ("class", *next(iter(measured.classes.values()))):
                classes.add_column(title, justify="left" if title == "class" else "right")
            for label, figures in measured.classes.items():
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
