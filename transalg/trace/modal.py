"""Tokens of all modalities in a trace: a text is itself, a value a number, a patch a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from transalg.formal.modality import Token, loss_weight

SIGNS = {"img": "▦", "sep": "|"}
BIN = "≈"  # before the value of a bin, in a vocabulary


@dataclass(frozen=True)
class Tokens:
    """A sequence of them, as a line sets it."""

    s: tuple[Token, ...]


def are_tokens(value: object) -> TypeGuard[Sequence[Token]]:
    """Whether a variable of an algorithm is a sequence of them."""
    return isinstance(value, Sequence) and not isinstance(value, str) and bool(value) and all(isinstance(one, Token) for one in value)


def label(s: Token, vocabulary: Sequence[str]) -> str:
    """How a token is written: ▦ for a patch, | for the separator, an arrow before an action; of a discrete value its number."""
    if s.kappa in SIGNS:
        return SIGNS[s.kappa]
    written = vocabulary[s.x] if s.x < len(vocabulary) else str(s.x)
    if s.kappa == "text":
        return written
    number = written.removeprefix(BIN) if written.startswith(BIN) else str(s.x)
    return f"→{number}" if s.kappa == "act" else number


def labels(s: Sequence[Token], vocabulary: Sequence[str]) -> list[str]:
    """Of a whole sequence."""
    return [label(one, vocabulary) for one in s]


def as_data(tokens: Tokens, vocabulary: Sequence[str]) -> list[dict[str, Any]]:
    """The same for programs and the page: kind, text, whether the loss looks at it; of a patch the pixels in 0 … 255, and where it stands."""
    rows = []
    for one in tokens.s:
        row: dict[str, Any] = {"kind": one.kappa, "label": label(one, vocabulary), "loss": loss_weight(one) > 0}
        if one.patch is None:
            row |= {"x": one.x}
        else:
            pixels = ((one.patch.A + 1) * 127.5).round().int().tolist()
            row |= {"pixels": pixels, "rows": list(one.patch.rows), "columns": list(one.patch.columns)}
        rows.append(row | ({"p": one.p} if one.kappa not in ("sep", "act") else {}))
    return rows
