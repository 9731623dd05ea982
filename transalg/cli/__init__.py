"""The command `transalg`: one file a verb. Each parses, calls and prints; nothing heavy is imported to print help."""

import sys

import tyro
from rich.console import Console

from transalg import __version__
from transalg.cli.algorithm import AlgorithmVerb
from transalg.cli.trace import TraceVerb

Verb = AlgorithmVerb | TraceVerb


def main() -> None:
    """Formal Algorithms for Transformers (Phuong & Hutter, 2022), executable."""
    if sys.argv[1:] == ["--version"]:
        print(f"transalg {__version__}")
        return
    verb: Verb = tyro.cli(
        Verb,
        prog="transalg",
        description="Formal Algorithms for Transformers (Phuong & Hutter, 2022), executable.",
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    try:
        verb.run()
    except ValueError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"[bold red]transalg:[/] {str(error).replace('[', chr(92) + '[')}"
        )
        sys.exit(2)
    except BrokenPipeError:  # the reader, a pager say, has had enough
        sys.stderr.close()
