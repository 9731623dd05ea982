"""The command `transalg`: one file for each verb, which parses, calls and prints. Help is printed without heavy imports."""

import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import get_args

import tyro
from rich.console import Console
from rich.text import Text

from transalg import __version__
from transalg.cli.algorithm import AlgorithmVerb
from transalg.cli.caption import CaptionVerb
from transalg.cli.classify import ClassifyVerb
from transalg.cli.clean import CleanVerb
from transalg.cli.demo import DemoVerb
from transalg.cli.embed import EmbedVerb
from transalg.cli.errata import ErrataVerb
from transalg.cli.evaluate import EvaluateVerb
from transalg.cli.export_run import ExportVerb
from transalg.cli.fill import FillVerb
from transalg.cli.gato import GatoVerb
from transalg.cli.generate import GenerateVerb
from transalg.cli.import_run import ImportVerb
from transalg.cli.play import PlayVerb
from transalg.cli.plot import PlotVerb
from transalg.cli.predict import PredictVerb
from transalg.cli.presets import PresetsVerb
from transalg.cli.prompt import PromptVerb
from transalg.cli.score import ScoreVerb
from transalg.cli.tokenizer import TokenizerVerb
from transalg.cli.trace import TraceVerb
from transalg.cli.train import Train, TrainVerb
from transalg.cli.verify import VerifyVerb
from transalg.runs.config import meant
from transalg.runs.synonyms import SYNONYMS

Use = GenerateVerb | PredictVerb | FillVerb | ClassifyVerb | EmbedVerb | ScoreVerb | PromptVerb | PlayVerb | CaptionVerb
Verb = (
    DemoVerb
    | TrainVerb
    | EvaluateVerb
    | PlotVerb
    | ImportVerb
    | ExportVerb
    | Use
    | CleanVerb
    | TokenizerVerb
    | GatoVerb
    | AlgorithmVerb
    | TraceVerb
    | ErrataVerb
    | PresetsVerb
    | VerifyVerb
)

VERBS: dict[str, type] = {kind.__name__.lower(): kind for kind, *_ in map(get_args, get_args(Verb))}


def main() -> None:
    """Formal Algorithms for Transformers (Phuong & Hutter, 2022), executable."""
    if sys.argv[1:] == ["--version"]:
        print(f"transalg {__version__}")
        return
    try:
        _run()
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False).print("\nInterrupted")
        sys.exit(130)
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # the reader, a pager for example, has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        Console(stderr=True, highlight=False, soft_wrap=True).print(Text.assemble(("transalg:", "bold red"), f" {error}"))
        sys.exit(2)


def check_names(arguments: Sequence[str]) -> None:
    """A ValueError for an option that other software has by this name; what else is unknown, the parser reports."""
    verb = VERBS.get(arguments[0]) if arguments else None
    for argument in arguments[1:]:
        option = argument.partition("=")[0]
        if verb is None or not option.startswith("--"):
            continue
        name = option[2:].replace("-", "_")
        known = [each.name for each in fields(verb)]
        names = meant(name) if verb is Train else [other for other in SYNONYMS.get(name, ()) if other in known]
        if names and name not in known:
            others = " or ".join(f"--{other.replace('_', '-')}" for other in names)
            raise ValueError(f"{option}: there is no such option; did you mean {others}?")


def _run() -> None:
    check_names(sys.argv[1:])
    verb: Verb = tyro.cli(
        Verb,
        prog="transalg",
        description="Formal Algorithms for Transformers (Phuong & Hutter, 2022), executable.",
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    verb.run()
    sys.stdout.flush()
