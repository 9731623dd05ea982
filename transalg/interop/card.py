"""A model card: what the model is for, what it was trained on, how good it is, and where it departs from the paper."""

from pathlib import Path

from transalg.hyper.cost import parameters
from transalg.hyper.hyper import TRAINING
from transalg.hyper.variants import FAMILIES, diff
from transalg.interop.export import Exported
from transalg.interop.fitting import LINES
from transalg.runs.config import several
from transalg.tasks import find
from transalg.trace.source import algorithms

LIBRARIES = {"fill": "fill-mask", "generate": "text-generation", "classify": "text-classification", "predict": "translation"}


def card(run: Exported, system: str = "") -> str:
    """README.md of an exported model; `system` is the published system that it is, if it is one."""
    task, hyper = find(run.metadata.task), run.hyper
    abilities = task.abilities_of(hyper)
    front = ["---", "library_name: transformers", f"pipeline_tag: {LIBRARIES.get(abilities[0], 'feature-extraction')}", "---"]
    lines = [
        *front,
        f"# {run.folder.resolve().name}",
        "",
        f"A transformer that learned {task.learns}: Algorithm {hyper.algorithm} of *Formal Algorithms for Transformers* (Phuong & Hutter 2022), "
        f"{parameters(hyper):,} parameters, made with [transalg](https://arxiv.org/abs/2207.09238). It can {', '.join(abilities)}.",
        "",
        "## Data and figures",
        "",
        _data(run),
        "",
        "## Difference from the paper's algorithm",
        "",
        *_departures(run),
    ]
    named = next((one for one in algorithms() if one.name == system and one.name in FAMILIES), None)
    if named is not None:
        lines += ["", diff(named)]
    return "\n".join(lines) + "\n"


def _data(run: Exported) -> str:
    if run.config.imported:
        return f"Imported from {Path(run.config.imported).name}; trained by others."
    names = ", ".join(Path(name).name for name in several(run.config.data))
    step, loss = run.metadata.step, run.metadata.val_loss
    reached = "" if step is None else f" This is the model of step {step:,}"
    return f"Trained on {names}.{reached}" + (f", with a validation loss of {loss:.4f}." if loss is not None else "." if reached else "")


def _departures(run: Exported) -> list[str]:
    departures = {name: value for name, value in run.hyper.departures().items() if name not in (*TRAINING, "special")}
    if not departures:
        return ["None: the model is the paper's."]
    lines = LINES[run.hyper.algorithm]
    rows = [f"| {lines.get(name, '')} | `{name}` | {value} | {type(run.hyper).doc(name)} |" for name, value in departures.items()]
    head = f"| line of Algorithm {run.hyper.algorithm} | hyperparameter | value | what it says |"
    return [head, "| --- | --- | --- | --- |", *rows]
