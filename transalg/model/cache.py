"""The state of decoding: keys and values of the tokens so far, in memory that is chosen at the start and never grows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
    new: tuple[Tensor, Tensor] | None = None  # of every new token its row and its place among the row's new ones; None likewise
    places: tuple[Sequence[Tensor], Sequence[Tensor]] = ((), ())  # of the new keys and values in every layer, if all rows are alike
    seen: dict[int, tuple[Sequence[Tensor], Sequence[Tensor]]] = field(default_factory=dict)  # keys and values from a position on, likewise
    masks: dict[tuple[int | None, int], Tensor | None] = field(default_factory=dict)  # those that a layer has asked for

    @property
    def alike(self) -> bool:
        return self.positions.ndim == 1

    def mask(self, w: int | None, start: int) -> Tensor | None:
        """Which of the keys start, …, end − 1 a query sees, a band of w of them if given; None if it sees all of them."""
        if (w, start) not in self.masks:
            self.masks[w, start] = self._mask(w, start)
        return self.masks[w, start]

    def _mask(self, w: int | None, start: int) -> Tensor | None:
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

    Keys and values of z are those of a group of rows, 1 row unless `repeat` made it more: beams look at the same z.
    """

    keys: Tensor
    values: Tensor
    lengths: list[int]
    cross: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # keys and values of z, computed once
    cross_mask: Tensor | None = None  # which places of z are tokens, where rows differ
    distances: dict[int, Tensor] = field(default_factory=dict)  # W_r r(δ) of a layer with relative positions, computed once
    of: Any = field(default=None, repr=False)  # the model that made it, by a weak reference: a copy of the cache is none of the model
    room: tuple[Tensor, ...] = field(default=(), repr=False)  # if there is one row, see `_make_room`

    def __post_init__(self) -> None:
        self._make_room()

    def _make_room(self) -> None:
        """For query, key and value of one row's new token: for all of them; for each, H × 1 × d; and H × 1 × 1."""
        if self.keys.shape[1] == 1:
            H, d_attn, d_mid = self.keys.shape[2], self.keys.shape[4], self.values.shape[4]
            row = self.keys.new_empty(1, H * (2 * d_attn + d_mid))
            q, k, v = (part.view(H, 1, -1) for part in torch.split(row[0], [H * d_attn, H * d_attn, H * d_mid]))
            self.room = row, q, k, v, q[:, :, :1]

    @property
    def ell(self) -> int:
        """How many tokens a row has room for."""
        return self.keys.shape[3]

    @property
    def bytes(self) -> int:
        return sum(
            part.nbytes for part in (self.keys, self.values, *self.distances.values(), *(part for pair in self.cross for part in pair))
        )

    def step(self, shape: tuple[int, ...], lengths: Sequence[int] | None) -> Step:
        """The step that adds a batch of this shape; a ValueError if it has no room."""
        B, width = shape
        before = tuple(self.lengths)
        if len(before) != B:
            raise refuse("ids", f"the cache's {len(before)} rows", B)
        count = tuple(lengths) if lengths is not None else (width,) * B
        ends = [old + new for old, new in zip(before, count, strict=True)]
        end, ell, device = max(ends), self.ell, self.keys.device
        if end > ell:
            row = next(row for row, there in enumerate(ends) if there > ell)
            raise refuse("cache", f"at most {ell} tokens a row, as it was made for", f"{before[row]} + {count[row]} in row {row}")
        if before.count(before[0]) == count.count(width) == B:
            return Step(before, count, width, end, torch.arange(before[0], end, device=device), places=self.part(before[0], width))
        last = torch.tensor([max(0, old + new - 1) for old, new in zip(before, count, strict=True)], device=device)
        positions = torch.tensor(before, device=device)[:, None] + torch.arange(width, device=device)
        there = torch.arange(width) < torch.tensor(count)[:, None]
        rows, places = there.nonzero(as_tuple=True)
        return Step(before, count, width, end, positions.minimum(last[:, None]), (rows.to(device), places.to(device)))

    def part(self, first: int, count: int) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Keys and values of so many positions, of every layer."""
        return self.keys.narrow(3, first, count).unbind(), self.values.narrow(3, first, count).unbind()

    def write(self, l: int, step: Step, k: Tensor, v: Tensor) -> None:
        """Put the new keys and values, B × H × width × d, in their places."""
        if step.new is None:
            step.places[0][l].copy_(k)
            step.places[1][l].copy_(v)
            return
        rows, new = step.new
        positions = step.positions[rows, new]
        self.keys[l][rows, :, positions] = k[rows, :, new]
        self.values[l][rows, :, positions] = v[rows, :, new]

    def read(self, l: int, step: Step, first: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the positions from the first to the step's end."""
        if first not in step.seen:  # for all layers at once: there is as much to do for one
            step.seen[first] = self.part(first, step.end - first)
        keys, values = step.seen[first]
        return keys[l], values[l]

    def advance(self, step: Step) -> None:
        """The step's tokens are in."""
        self.lengths = [before + new for before, new in zip(step.before, step.count, strict=True)]

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
        self._make_room()

    def repeat(self, times: int) -> None:
        """Every row so many times, one after the other, as beams begin. They share the keys and values of z, which do not grow."""
        self.keys, self.values = self.keys.repeat_interleave(times, 1), self.values.repeat_interleave(times, 1)
        self.lengths = [length for length in self.lengths for _ in range(times)]

    def restarted(self, groups: Sequence[int]) -> "Cache":
        """An empty cache with a row for each of these z, whose keys and values it has without computing them anew."""
        keys, values = (part.new_zeros(len(part), len(groups), *part.shape[2:]) for part in (self.keys, self.values))
        fresh = Cache(keys, values, [0] * len(groups), list(self.cross), self.cross_mask, self.distances, self.of)
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
        """Forget the tokens of every row behind the given length."""
        lengths = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
        if len(lengths) != len(self.lengths) or not all(isinstance(length, int) for length in lengths):
            raise refuse("lengths", f"how many tokens to keep of each of the {len(self.lengths)} rows", lengths)
        for row, (have, keep) in enumerate(zip(self.lengths, lengths, strict=True)):
            if not 0 <= keep <= have:
                raise refuse("lengths", f"0 to {have} tokens to keep in row {row}", keep)
        self.lengths = list(lengths)
