"""transalg errata: where the paper slips or is silent, and what transalg does."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg import terminal


@dataclass(frozen=True)
class Errata:
    """List where the paper slips or is silent, or print one entry in full: transalg errata 7."""

    number: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NUMBER]", help_behavior_hint="")] = None
    """An entry; all of them, shortened, unless given."""

    def run(self) -> None:
        from transalg.trace.errata import ERRATA, find_erratum
        from transalg.trace.listing import show_errata, show_erratum

        console = terminal.console()
        if self.number is None:
            show_errata(ERRATA, console)
        else:
            show_erratum(find_erratum(self.number), console)


ErrataVerb = Annotated[Errata, tyro.conf.subcommand("errata")]
