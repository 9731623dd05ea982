"""The command `transalg`: one file for each verb, which parses, calls and prints. Help is printed without heavy imports."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import get_args

from rich.text import Text

from transalg import __version__, terminal
from transalg.cli.algorithm import AlgorithmVerb
from transalg.cli.bounds import check_values
from transalg.cli.caption import CaptionVerb
from transalg.cli.classify import ClassifyVerb
from transalg.cli.clean import CleanVerb
from transalg.cli.demo import DemoVerb
from transalg.cli.embed import EmbedVerb
from transalg.cli.errata import ErrataVerb
from transalg.cli.evaluate import EvaluateVerb
from transalg.cli.export_run import ExportVerb
from transalg.cli.failures import message
from transalg.cli.fill import FillVerb
from transalg.cli.gato import GatoVerb
from transalg.cli.generate import GenerateVerb
from transalg.cli.import_run import ImportVerb
from transalg.cli.parsing import parse, subcommands, unknown
from transalg.cli.play import PlayVerb
from transalg.cli.plot import PlotVerb
from transalg.cli.predict import PredictVerb
from transalg.cli.presets import PresetsVerb
from transalg.cli.prompt import PromptVerb
from transalg.cli.score import ScoreVerb
from transalg.cli.streams import Signals, abandon_output, open_streams, signals
from transalg.cli.tokenizer import TokenizerVerb
from transalg.cli.trace import TraceVerb
from transalg.cli.train import Train, TrainVerb
from transalg.cli.verify import VerifyVerb
from transalg.memory import is_out_of_memory
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

VERBS: dict[str, type] = {name: get_args(kind)[0] for name, kind in subcommands(Verb).items()}


def main() -> None:
    """Formal Algorithms for Transformers (Phuong & Hutter, 2022), executable."""
    try:
        with signals() as received:
            _guarded(received)
    except BrokenPipeError:  # the reader, a pager for example, has closed the pipe
        abandon_output()
        sys.exit(0)
    except KeyboardInterrupt:  # it came while the command was ending, perhaps with a message
        _say(Text("\nInterrupted"))
        sys.exit(130)


def _guarded(received: Signals) -> None:
    """Run, and turn what goes wrong into a line or two and an exit status."""
    try:
        open_streams()
        if sys.argv[1:] == ["--version"]:
            print(f"transalg {__version__}")
        else:
            _run()
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        raise
    except BaseException as error:
        if received.interrupted or isinstance(error, KeyboardInterrupt):
            _say(Text("\nInterrupted"))
            sys.exit(130)
        if not isinstance(error, ValueError | OSError) and not is_out_of_memory(error):
            raise
        if isinstance(error, OSError):
            abandon_output()
        _say(Text.assemble(("transalg:", "bold red"), f" {message(error)}"))
        sys.exit(2)


def _say(text: Text) -> None:
    with suppress(OSError):  # standard error may be full too
        terminal.console(stderr=True, soft_wrap=True).print(text)


def check_names(arguments: Sequence[str]) -> None:
    """A ValueError for a command that there is none of, or an option that other software has by this name; the parser reports the rest."""
    verb = VERBS.get(arguments[0]) if arguments else None
    if arguments and verb is None and not arguments[0].startswith("-"):
        raise ValueError(unknown(arguments[0], "command", list(VERBS), "transalg"))
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
    check_folder()
    check_names(sys.argv[1:])
    verb: Verb = parse(Verb, sys.argv[1:], "Formal Algorithms for Transformers (Phuong & Hutter, 2022), executable.")
    check_values(verb)
    verb.run()


def check_folder() -> None:
    """A ValueError if the working directory was deleted: no name of a file means anything then."""
    try:
        os.getcwd()
    except OSError:
        raise ValueError("working directory: does not exist any more; cd to one that does") from None
