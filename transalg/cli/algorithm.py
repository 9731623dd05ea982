"""transalg algorithm: list the algorithms, or print the source of one."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg import terminal


@dataclass(frozen=True)
class Algorithm:
    """List the algorithms of the paper, or print one with the paper's line numbers: transalg algorithm 10."""

    which: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NUMBER|NAME]", help_behavior_hint="")] = None
    """A number from 1 to 15, or a name: 10, DTransformer, softmax, Mask."""
    why: bool = False
    """Say of every line why it is there."""
    full: bool = False
    """Show all lines of a system, Llama say, not its difference from Algorithm 10."""

    def run(self) -> None:
        from transalg.trace.listing import show_definition, show_difference, show_list, show_source
        from transalg.trace.source import Algorithm, algorithms, definitions, find_all

        console = terminal.console()
        if self.which is None:
            show_list(algorithms(), definitions(), console)
            return
        for i, one in enumerate(find_all(self.which)):
            if i:
                console.print()
            if isinstance(one, Algorithm) and one.system and not (self.full or self.why):
                show_difference(one, console)
            elif isinstance(one, Algorithm):
                show_source(one, console, why=self.why)
            else:
                show_definition(one, console)


AlgorithmVerb = Annotated[Algorithm, tyro.conf.subcommand("algorithm")]
