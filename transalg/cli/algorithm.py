"""transalg algorithm: list the algorithms, or print the source of one."""

from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console


@dataclass(frozen=True)
class Algorithm:
    """List the algorithms of the paper, or print one with the paper's line numbers: transalg algorithm 10."""

    which: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NUMBER|NAME]", help_behavior_hint="")] = None
    """A number from 1 to 15, or a name."""

    def run(self) -> None:
        from transalg.trace.listing import show_list, show_source
        from transalg.trace.source import algorithms, find

        console = Console(highlight=False)
        if self.which is None:
            show_list(algorithms(), console)
        else:
            show_source(find(self.which), console)


AlgorithmVerb = Annotated[Algorithm, tyro.conf.subcommand("algorithm")]
