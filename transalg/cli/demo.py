"""transalg demo: train three transformers from scratch, on data that comes with Python; or one that acts, captions and writes."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from transalg import terminal
from transalg.terminal import marked

if TYPE_CHECKING:
    from transalg.inference.run import Run

DATES_MODEL = {"L_enc": 2, "L_dec": 2, "dropout": 0.0, "label_smoothing": 0.0}  # dates are never ambiguous enough to need more
RUNS: dict[str, dict[str, Any]] = {
    "pydocs": {
        "task": "lm",
        "data": "pydocs",
        "tokenizer": "bpe",
        "vocab_size": 1024,
        "model": {"ell_max": 64, "dropout": 0.1},
        "train": {"steps": 320},
    },
    "dates": {"task": "seq2seq", "data": "dates", "model": DATES_MODEL, "train": {"steps": 600}},
    "stdlib": {"task": "classify", "data": "stdlib"},
}
TITLES = {
    "pydocs": "A GPT (Algorithm 10) learns Python's own reference",
    "dates": "An encoder–decoder transformer (Algorithm 8) learns to read dates",
    "stdlib": "An encoder (Algorithm 9) learns which standard-library package a snippet is from",
}
PROMPTS = ("The ", "If the object is ", "A class ")
DATES = ("Tuesday, 3 March 2026", "the 31st of December, 1999", "7.11.1917", "JULY 4TH, 1976", "2001年9月9日")


@dataclass(frozen=True)
class Demo:
    """Train three transformers in under four minutes on two cores, use them, and check them against the paper.

    transalg demo gato trains one model that acts, captions and writes, in about twenty minutes.
    """

    which: Annotated[Literal["text", "gato"], tyro.conf.Positional, tyro.conf.arg(metavar="[text|gato]", help_behavior_hint="")] = "text"
    """text: three models of text; gato: one model for all modalities."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")] = Path("demo")
    """The folder for what is trained and for pictures of it."""

    def run(self) -> None:
        if self.which == "gato":
            from transalg.cli.demo_gato import demo

            demo(self.out)
            return
        from transalg.cli.pictures import write_picture
        from transalg.inference.run import Run
        from transalg.reading import read_toml
        from transalg.runs.config import Config
        from transalg.training.curves import curves, read_metrics
        from transalg.training.start import train
        from transalg.training.watch import Watch
        from transalg.verify.trained import verify

        console = terminal.console()
        start = time.monotonic()
        runs: dict[str, Run] = {}
        for name in RUNS:
            path = self.out / name / "config.toml"
            if path.exists() and read_toml(path).get("data") != name:
                raise ValueError(f"{self.out / name}: holds another run; give --out another folder")
        for i, (name, options) in enumerate(RUNS.items(), 1):
            console.print(f"\n[bold]{i}. {TITLES[name]}[/]", markup=True)
            with Watch(console) as watch:
                outcome = train(Config.from_dict(options), self.out / name, overwrite=True, report=watch)
            if outcome.reason == "interrupted":
                sys.exit(130)
            runs[name] = Run.load(self.out / name)
            {"pydocs": _write, "dates": _read, "stdlib": _name}[name](runs[name], console)
        console.print(
            "\n[bold]4. Are these the paper's algorithms?[/] Each trained model against its formal algorithm, in float64:", markup=True
        )
        for name, trained in runs.items():
            verdict = verify(trained)
            mark = Text("equal", "green") if verdict.holds else Text("NOT equal", "bold red")
            console.print(
                Text.assemble(
                    f"   {name:<7} {verdict.case.architecture:<14} P to {verdict.of_P:.0e}, gradients to {verdict.of_gradients:.0e}  ", mark
                )
            )
        write_picture(curves({name: read_metrics(self.out / name) for name in RUNS}, "seconds"), self.out / "curves.png")
        minutes, seconds = divmod(round(time.monotonic() - start), 60)
        console.print(f"\n{minutes} min {seconds} s. The curves are in {self.out / 'curves.png'}. Now yours:")
        for command, explanation in NEXT:
            console.print(f"   [bold]{marked(command.format(out=self.out))}[/]\n      {explanation}", markup=True)


NEXT = (
    ("transalg train lm --data FILE-OR-FOLDER --out runs/mine", "a language model of your own text"),
    ("transalg train classify --data table.csv --out runs/labels", "a classifier from the columns text and label"),
    ('transalg generate {out}/pydocs --prompt "A class "', "continues a prompt; --tau, --top-k, --samples"),
    ('transalg predict {out}/dates --input "May 5, 1955" --beams 3', "or a file of them, line by line"),
    ("transalg evaluate {out}/stdlib", "figures for every class"),
    (
        'transalg trace 10 --run {out}/pydocs --prompt "A class" --html trace.html',
        "every line of Algorithm 10 with its matrices, every head",
    ),
)


def _write(trained: "Run", console: Console) -> None:
    console.print("   It continues a prompt (τ = 0.7):")
    for prompt, text in zip(PROMPTS, trained.generate(PROMPTS, ell_gen=48, tau=0.7, seed=1), strict=True):
        console.print(Text.assemble("   › ", (prompt, "cyan"), " ".join(text.split())))


def _read(trained: "Run", console: Console) -> None:
    from transalg.evaluation.measure import evaluate

    for text, guess in zip(DATES, trained.predict(DATES), strict=True):
        console.print(Text.assemble("   › ", (text, "cyan"), f" → {guess}"))
    figures = evaluate(trained).figures
    console.print(
        f"   [bold]{figures['exact match']:.1%}[/] of {figures.get('sources', figures['pairs']):,} dates of the validation set are exactly right",
        markup=True,
    )


def _name(trained: "Run", console: Console) -> None:
    from transalg.data.store import store
    from transalg.evaluation.baselines import most_frequent, naive_bayes
    from transalg.evaluation.measure import evaluate, held_out
    from transalg.training.prepare import CACHE, rows

    evaluation = evaluate(trained, predictions=True)
    config = trained.config
    source = config.source(config.data)
    data = store(source, trained.tokenizer, trained.folder.absolute().parent / CACHE, labels=trained.labels)
    train = rows(config, data, source, trained.model.hyper, config.share())[0].rows()
    valid = held_out(trained)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for share, what in (
        (evaluation.figures["accuracy"], f"of {evaluation.figures['texts']:,} snippets classified correctly by the transformer"),
        (naive_bayes(train, valid, trained.tokenizer.N_V), "by naive Bayes"),
        (most_frequent(train, valid), "by always predicting the most frequent package"),
    ):
        table.add_row(f"   {share:6.1%}", what)
    for one in evaluation.predictions[:2]:
        text = " ".join(str(one["text"]).split())
        console.print(Text.assemble("   › ", (text[:56] + "…", "cyan"), f" {one['prediction']} ({one['probability']:.0%})"))
    console.print(table)


DemoVerb = Annotated[Demo, tyro.conf.subcommand("demo")]
