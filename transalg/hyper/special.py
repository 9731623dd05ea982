"""The special tokens (§4): mask, bos and eos have explicit IDs. By default they are the paper's, the last three of the vocabulary."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Index = TypeVar("Index", bound=Any)  # a whole number, or an array or a tensor of them


@dataclass(frozen=True)
class SpecialTokens:
    """The IDs of mask, bos and eos; None for one that a vocabulary lacks. What checkpoints of others have beside them, `never` and `context_bos`.

    >>> SpecialTokens.last(11)
    SpecialTokens(mask=8, bos=9, eos=10)
    >>> SpecialTokens(mask=None, bos=1, eos=2).ordinary(0), SpecialTokens(mask=None, bos=1, eos=2).ordinary(1)
    (0, 3)
    """

    mask: int | None
    bos: int | None
    eos: int | None
    context_bos: bool = field(default=True, repr=False)  # whether z of a pair begins with bos, as x does
    never: tuple[int, ...] = field(default=(), repr=False)  # tokens that decoding never writes, such as padding

    @classmethod
    def last(cls, N_V: int) -> "SpecialTokens":
        """The paper's: N_V − 3, N_V − 2, N_V − 1, counted from 0."""
        return cls(N_V - 3, N_V - 2, N_V - 1)

    @property
    def present(self) -> tuple[int, ...]:
        """Those that the vocabulary has."""
        return tuple(token for token in (self.mask, self.bos, self.eos) if token is not None)

    @property
    def ids(self) -> tuple[int, ...]:
        """Those in ascending order, each once."""
        return tuple(sorted(set(self.present)))

    def __contains__(self, token: int) -> bool:
        return token in (self.mask, self.bos, self.eos)

    def without(self, tokens: Iterable[int]) -> list[int]:
        """The ordinary ones of some tokens."""
        return [token for token in tokens if token not in self]

    def ordinary(self, index: Index) -> Index:
        """The ordinary token with this index, counted from 0: every ID but the special ones, in ascending order. Also for arrays and tensors."""
        for token in self.ids:
            index = index + (index >= token)
        return index  # type: ignore[no-any-return]

    def require(self, name: str) -> int:
        """The ID of mask, bos or eos; a ValueError if the vocabulary lacks it."""
        token: int | None = getattr(self, name)
        if token is None:
            raise ValueError(f"{name}_token: this vocabulary has none")
        return token


class HasSpecialTokens:
    """Whatever knows its special tokens: hyperparameters, a tokenizer."""

    @property
    def special_tokens(self) -> SpecialTokens:
        raise NotImplementedError

    @property
    def mask_token(self) -> int:
        return self.special_tokens.require("mask")

    @property
    def bos_token(self) -> int:
        return self.special_tokens.require("bos")

    @property
    def eos_token(self) -> int:
        return self.special_tokens.require("eos")
