"""The state of decoding: keys and values of the tokens so far, in memory that is chosen at the start and never grows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from transalg.formal.domains import refuse


@dataclass(frozen=True)
class Step:
    """Where the new tokens of one call go, row by row, and what each may see."""

    before: tuple[int, ...]  # how many tokens each row had
    count: tuple[int, ...]  # how many each gets
    width: int  # the most it gets
    end: int  # the most tokens a row has afterwards
    positions: Tensor  # B × width, or width if all rows are alike

    @property
    def alike(self) -> bool:
        return self.positions.ndim == 1

    def mask(self, w: int | None, start: int) -> Tensor | None:
        """Which of the keys start, …, end − 1 a query sees, a band of w of them if given; None if it sees all of them."""
        keys = torch.arange(start, self.end, device=self.positions.device)
        if self.alike and self.width == 1:
            return None
        queries = self.positions[..., None]
        seen = keys <= queries
        if w is not None:
            seen = seen & (keys > queries - w)
        return seen if self.alike else seen[:, None]

    def first(self, w: int | None) -> int:
        """The first key any of the queries sees."""
        return 0 if w is None else max(0, min(self.before) - w + 1)


@dataclass
class Cache:
    """For every layer that decodes, keys B × H × ℓ × d_attn and values B × H × ℓ × d_mid; and how many of the ℓ each row has filled."""

    keys: list[Tensor]
    values: list[Tensor]
    lengths: list[int]
    cross: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # keys and values of z, computed once
    cross_mask: Tensor | None = None  # which places of z are tokens, where rows differ
    distances: dict[int, Tensor] = field(default_factory=dict)  # W_r r(δ) of a layer with relative positions, computed once

    @property
    def ell(self) -> int:
        """How many tokens a row has room for."""
        return self.keys[0].shape[2]

    @property
    def bytes(self) -> int:
        return sum(
            part.nbytes for part in (*self.keys, *self.values, *self.distances.values(), *(part for pair in self.cross for part in pair))
        )

    def step(self, shape: tuple[int, ...], lengths: Sequence[int] | None) -> Step:
        """The step that adds a batch of this shape; a ValueError if it has no room."""
        B, width = shape
        if len(self.lengths) != B:
            raise refuse("ids", f"the cache's {len(self.lengths)} rows", B)
        count = tuple(lengths) if lengths is not None else (width,) * B
        for row, (before, new) in enumerate(zip(self.lengths, count, strict=True)):
            if before + new > self.ell:
                raise refuse("cache", f"at most {self.ell} tokens a row, as it was made for", f"{before} + {new} in row {row}")
        device = self.keys[0].device
        before = tuple(self.lengths)
        end = max(old + new for old, new in zip(before, count, strict=True))
        if len(set(before)) == 1 and set(count) == {width}:
            return Step(before, count, width, end, torch.arange(before[0], end, device=device))
        last = torch.tensor([max(0, old + new - 1) for old, new in zip(before, count, strict=True)], device=device)
        positions = torch.tensor(before, device=device)[:, None] + torch.arange(width, device=device)
        return Step(before, count, width, end, positions.minimum(last[:, None]))

    def write(self, l: int, step: Step, k: Tensor, v: Tensor) -> None:
        """Put the new keys and values, B × H × width × d, in their places."""
        if step.alike:
            self.keys[l][:, :, step.before[0] : step.end] = k
            self.values[l][:, :, step.before[0] : step.end] = v
            return
        for row, (before, new) in enumerate(zip(step.before, step.count, strict=True)):
            self.keys[l][row, :, before : before + new] = k[row, :, :new]
            self.values[l][row, :, before : before + new] = v[row, :, :new]

    def advance(self, step: Step) -> None:
        """The step's tokens are in."""
        self.lengths = [before + new for before, new in zip(step.before, step.count, strict=True)]

    def reorder(self, rows: Sequence[int] | Tensor) -> None:
        """Row i becomes what row rows[i] was, as beams do when they fork; in place."""
        order = rows.tolist() if isinstance(rows, Tensor) else list(rows) if isinstance(rows, Sequence) else rows
        order = order if isinstance(order, list) else [order]
        if len(order) != len(self.lengths) or not all(isinstance(row, int) and 0 <= row < len(order) for row in order):
            raise refuse("rows", f"{len(self.lengths)} of the cache's rows 0, …, {len(self.lengths) - 1}", order)
        end = max(self.lengths)
        index = torch.tensor(order, device=self.keys[0].device)
        for part in (*self.keys, *self.values):
            part[:, :, :end] = part[:, :, :end].index_select(0, index)
        for part in (part for pair in self.cross for part in pair):
            part.copy_(part.index_select(0, index))
        self.cross_mask = None if self.cross_mask is None else self.cross_mask.index_select(0, index)
        self.lengths = [self.lengths[row] for row in order]

    def truncate(self, lengths: Sequence[int] | Tensor) -> None:
        """Forget the tokens of every row behind the given length."""
        lengths = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
        if len(lengths) != len(self.lengths) or not all(isinstance(length, int) for length in lengths):
            raise refuse("lengths", f"how many tokens to keep of each of the {len(self.lengths)} rows", lengths)
        for row, (have, keep) in enumerate(zip(self.lengths, lengths, strict=True)):
            if not 0 <= keep <= have:
                raise refuse("lengths", f"0 to {have} tokens to keep in row {row}", keep)
        self.lengths = list(lengths)
