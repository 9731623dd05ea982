"""The annotation of an option that is a number: its bounds, which help states and `cli.bounds` checks."""

from typing import Any

import tyro

from transalg.checks import in_words


def limits(interval: str, kind: type = int) -> Any:
    """An option in an interval. Help has the default and the bounds after its text."""
    words = in_words(interval, whole=kind is int)

    def hint(default: str) -> str:
        return f"({words})" if default == "None" else f"(default: {default}; {words})"

    argument = tyro.conf.arg(metavar="INT" if kind is int else "FLOAT", help_behavior_hint=hint)
    object.__setattr__(argument, "interval", interval)
    return argument
