"""The key/value cache: keys and values of the tokens so far, in memory that is chosen at the start and never grows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import ref

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transalg.formal.domains import refuse

if TYPE_CHECKING:
    from transalg.hyper import Hyper
    from transalg.model.decoder import Decoder


@dataclass(frozen=True)
class Step:
    """Where the new tokens of one call go, row by row, and what each may see."""

    before: tuple[int, ...]  # how many tokens each row had
    counts: tuple[int, ...]  # how many each gets
    width: int  # the most that one gets
    end: int  # the most tokens a row has afterwards
    positions: Int[Tensor, "*B width"]  # B × width, or width if all rows are alike
    new: tuple[Tensor, Tensor] | None = None  # of every new token its row and its place among the row's new ones; None likewise
    places: tuple[Sequence[Tensor], Sequence[Tensor]] = ((), ())  # of the new keys and values in every layer, if all rows are alike
    ranges: dict[int, tuple[Sequence[Tensor], Sequence[Tensor]]] = field(default_factory=dict)  # keys and values from a position on
    masks: dict[tuple[int | None, int], Tensor | None] = field(default_factory=dict)  # those that layers have used
    memo: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # what all layers compute alike from the positions

    @property
    def alike(self) -> bool:
        return self.positions.ndim == 1

    def all_positions(self, device: torch.device) -> Int[Tensor, "T"]:
        """Of every new token, padding included, in its sequence."""
        return self.positions.expand(len(self.before), -1).flatten()

    def visible(self, w: int | None, start: int) -> Bool[Tensor, "..."] | None:
        """Which of the keys start, …, end − 1 a query sees, a band of w of them if given; None if it sees all of them."""
        if (w, start) not in self.masks:
            self.masks[w, start] = self._visible(w, start)
        return self.masks[w, start]

    def _visible(self, w: int | None, start: int) -> Bool[Tensor, "..."] | None:
        if self.alike and self.width == 1:
            return None
        keys = torch.arange(start, self.end, device=self.positions.device)
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
    """Keys, L × B × H × ℓ × d_attn, and values, L × B × H × ℓ × d_mid, of the layers that decode; how many of the ℓ each row has filled.

    Keys and values of z belong to a group of rows, 1 row unless `repeat` made it more: beams look at the same z.
    """

    keys: Float[Tensor, "L B H ell d_attn"]
    values: Float[Tensor, "L B H ell d_mid"]
    lengths: list[int]
    cross: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # keys and values of z, computed once
    cross_mask: Bool[Tensor, "groups 1 1 ell_z"] | None = None  # which places of z are tokens, where rows differ
    projections: dict[int, Tensor] = field(default_factory=dict)  # what a layer's positions need at every step, computed once
    model: "ref[Decoder[Hyper]] | None" = field(
        default=None, repr=False
    )  # which made it; a weak reference, so that a copy of the cache copies no model

    @property
    def ell(self) -> int:
        """How many tokens a row has room for."""
        return self.keys.shape[3]

    @property
    def bytes(self) -> int:
        cross = [part for pair in self.cross for part in pair]
        return sum(part.nbytes for part in (self.keys, self.values, *self.projections.values(), *cross))

    def step(self, shape: tuple[int, ...], lengths: Sequence[int] | None) -> Step:
        """The step that adds a batch of this shape; a ValueError if it has no room."""
        B, width = shape
        before = tuple(self.lengths)
        if len(before) != B:
            raise refuse("ids", f"the cache's {len(before)} rows", B)
        counts = tuple(lengths) if lengths is not None else (width,) * B
        ends = [old + new for old, new in zip(before, counts, strict=True)]
        end, ell, device = max(ends), self.ell, self.keys.device
        if end > ell:
            row = next(row for row, row_end in enumerate(ends) if row_end > ell)
            raise refuse("cache", f"at most {ell} tokens a row, as it was made for", f"{before[row]} + {counts[row]} in row {row}")
        if before.count(before[0]) == counts.count(width) == B:
            return Step(before, counts, width, end, torch.arange(before[0], end, device=device), places=self._range(before[0], width))
        last = torch.tensor([max(0, old + new - 1) for old, new in zip(before, counts, strict=True)], device=device)
        positions = torch.tensor(before, device=device)[:, None] + torch.arange(width, device=device)
        token_mask = torch.arange(width) < torch.tensor(counts)[:, None]
        rows, places = token_mask.nonzero(as_tuple=True)
        return Step(before, counts, width, end, positions.minimum(last[:, None]), (rows.to(device), places.to(device)))

    def _range(self, first: int, count: int) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Keys and values of so many positions, of every layer."""
        return self.keys.narrow(3, first, count).unbind(), self.values.narrow(3, first, count).unbind()

    def write(self, l: int, step: Step, k: Float[Tensor, "B H width d_attn"], v: Float[Tensor, "B H width d_mid"]) -> None:
        """Put the new keys and values in their places."""
        if step.new is None:
            step.places[0][l].copy_(k)
            step.places[1][l].copy_(v)
            return
        rows, new = step.new
        positions = step.positions[rows, new]
        self.keys[l][rows, :, positions] = k[rows, :, new]
        self.values[l][rows, :, positions] = v[rows, :, new]

    def read(self, l: int, step: Step, first: int) -> tuple[Float[Tensor, "B H n d_attn"], Float[Tensor, "B H n d_mid"]]:
        """Keys and values of the positions from the first to the step's end."""
        if first not in step.ranges:  # for all layers at once: it takes no longer than for one
            step.ranges[first] = self._range(first, step.end - first)
        keys, values = step.ranges[first]
        return keys[l], values[l]

    def advance(self, step: Step) -> None:
        """The step's tokens are in."""
        self.lengths = [before + new for before, new in zip(step.before, step.counts, strict=True)]

    def reorder(self, rows: Sequence[int] | Tensor) -> None:
        """Row i becomes what row rows[i] was, as beams do when they fork; in place."""
        order = self._rows(rows, len(self.lengths))
        if order == list(range(len(order))):
            return
        end = max(self.lengths)
        index = torch.tensor(order, device=self.keys.device)
        groups = self._groups(order)
        for part in (*self.keys, *self.values):
            part[:, :, :end] = part[:, :, :end].index_select(0, index)
        if groups != list(range(len(groups))):  # beams stay with their z, and nothing of it moves
            before = list(self.cross)
            self._select_cross(groups)
            for pair, moved in zip(before, self.cross, strict=True):
                for part, other in zip(pair, moved, strict=True):
                    part.copy_(other)
            self.cross = before
        self.lengths = [self.lengths[row] for row in order]

    def select(self, rows: Sequence[int] | Tensor) -> None:
        """Only these rows remain, some of them perhaps several times."""
        order = self._rows(rows)
        groups = self._groups(order)
        index = torch.tensor(order, device=self.keys.device)
        self.keys, self.values = self.keys.index_select(1, index), self.values.index_select(1, index)
        self._select_cross(groups)
        self.lengths = [self.lengths[row] for row in order]

    def repeat(self, times: int) -> None:
        """Every row so many times, one after the other, as beams start. They share the keys and values of z, which do not grow."""
        self.keys, self.values = self.keys.repeat_interleave(times, 1), self.values.repeat_interleave(times, 1)
        self.lengths = [length for length in self.lengths for _ in range(times)]

    def restarted(self, groups: Sequence[int]) -> "Cache":
        """An empty cache with a row for each of these z, whose keys and values it has without computing them again."""
        keys, values = (part.new_zeros(len(part), len(groups), *part.shape[2:]) for part in (self.keys, self.values))
        fresh = Cache(keys, values, [0] * len(groups), list(self.cross), self.cross_mask, self.projections, self.model)
        fresh._select_cross(list(groups))
        return fresh

    def _rows(self, rows: Sequence[int] | Tensor, count: int | None = None) -> list[int]:
        order = rows.tolist() if isinstance(rows, Tensor) else list(rows) if isinstance(rows, Sequence) else rows
        order = order if isinstance(order, list) else [order]
        known = all(isinstance(row, int) and 0 <= row < len(self.lengths) for row in order)
        if not order or not known or count not in (None, len(order)):
            raise refuse("rows", f"{count or 'some'} of the cache's rows 0, …, {len(self.lengths) - 1}", order)
        return order

    def _groups(self, order: list[int]) -> list[int]:
        """Which z each group of rows looks at, if the rows are these."""
        if not self.cross:
            return []
        size = len(self.lengths) // len(self.cross[0][0])
        groups = [row // size for row in order]
        if len(order) % size or any(groups[i] != groups[i - i % size] for i in range(len(groups))):
            raise refuse("rows", f"groups of {size} rows that look at one z", order)
        return groups[::size]

    def _select_cross(self, groups: list[int]) -> None:
        if not self.cross:
            return
        index = torch.tensor(groups, device=self.keys.device)
        self.cross = [(k.index_select(0, index), v.index_select(0, index)) for k, v in self.cross]
        self.cross_mask = None if self.cross_mask is None else self.cross_mask.index_select(0, index)

    def truncate(self, lengths: Sequence[int] | Tensor) -> None:
        """Forget the tokens of every row after the given length."""
        lengths = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
        if len(lengths) != len(self.lengths) or not all(isinstance(length, int) for length in lengths):
            raise refuse("lengths", f"how many tokens to keep of each of the {len(self.lengths)} rows", lengths)
        for row, (have, keep) in enumerate(zip(self.lengths, lengths, strict=True)):
            if not 0 <= keep <= have:
                raise refuse("lengths", f"0 to {have} tokens to keep in row {row}", keep)
        self.lengths = list(lengths)
