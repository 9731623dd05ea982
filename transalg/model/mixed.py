"""A batch of sequences whose tokens are of all modalities: what Gato takes in the place of token IDs, and what may be in it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transalg.formal.domains import refuse
from transalg.formal.modality import Patch, Token
from transalg.hyper import GatoHyper
from transalg.hyper.modalities import ACT, IMG, KINDS, PATCH, TEXT
from transalg.model.checks import Lengths, row_lengths, token_ids, within

LAST_LOCAL = IMG  # text, obs and img come first: the kinds whose index within the timestep has an embedding

MIX = 0x1E3779B97F4A7C15  # odd, with bits all over

Array = npt.NDArray[Any]


@runtime_checkable
class TokenSequence(Protocol):
    """One sequence as tokenization makes it: arrays with an element for every token, and the patches of its images in order."""

    @property
    def kind(self) -> Array: ...
    @property
    def ids(self) -> Array: ...
    @property
    def index(self) -> Array: ...
    @property
    def patches(self) -> Array:
        """n × C × 16 × 16, in [−1, 1]."""

    @property
    def intervals(self) -> Array:
        """n × 4: r, r′, c, c′."""

    @property
    def loss(self) -> Array: ...


@dataclass(frozen=True, eq=False)
class MixedBatch:
    """B rows of up to ℓ tokens. What stands after a row's length does not count; nor IDs of patches, nor indices of separators and actions.

    Patches and intervals are those of all rows, one row after the other. `cells` are the places of the patches in an image's grid, drawn by
    `drawn` in training; the middle ones unless given. `loss` has the weight of every token in the loss; unless given, 1 for text and actions, and 0 for others.
    """

    kind: Int[Tensor, "B ell"]  # as `hyper/modalities.py` numbers them
    ids: Int[Tensor, "B ell"]
    index: Int[Tensor, "B ell"]  # within the timestep
    lengths: tuple[int, ...]
    patches: Float[Tensor, "n C 16 16"]
    intervals: Float[Tensor, "n 4"]
    loss: Float[Tensor, "B ell"] | None = None
    cells: Int[Tensor, "n 2"] | None = None

    @classmethod
    def of(cls, sequences: Sequence[TokenSequence]) -> "MixedBatch":
        """The batch of some tokenized sequences, padded."""
        if not sequences:
            raise refuse("sequences", "at least one", "none")
        lengths = tuple(len(one.ids) for one in sequences)
        shape = len(lengths), max(lengths)
        kind, ids, index = (np.zeros(shape, np.int64) for _ in range(3))
        loss = np.zeros(shape, np.float32)
        for row, one in enumerate(sequences):
            for array, part in ((kind, one.kind), (ids, one.ids), (index, one.index), (loss, one.loss)):
                array[row, : len(part)] = part
        pictured = [one for one in sequences if len(one.patches)]
        patches = np.concatenate([one.patches for one in pictured]) if pictured else np.zeros((0, 1, PATCH, PATCH), np.float32)
        intervals = np.concatenate([one.intervals for one in pictured]) if pictured else np.zeros((0, 4), np.float32)
        tensors = {"kind": kind, "ids": ids, "index": index, "patches": patches, "intervals": intervals, "loss": loss}
        return cls(**{name: torch.from_numpy(array) for name, array in tensors.items()}, lengths=lengths)

    @classmethod
    def of_tokens(cls, kind: int, ids: Int[Tensor, "B ell"], index: Int[Tensor, "B ell"] | None = None) -> "MixedBatch":
        """Tokens of one kind, but not patches: the next token of every row, say; the index of text has to be given."""
        if kind == TEXT and index is None:
            raise refuse("index", "the index of every token of text within its timestep", "none")
        none = torch.zeros(0, 4, device=ids.device)
        kinds, indices = torch.full_like(ids, kind), torch.zeros_like(ids) if index is None else index
        return cls(kinds, ids, indices, (ids.shape[1],) * len(ids), none.new_zeros(0, 1, PATCH, PATCH), none)

    @property
    def shape(self) -> tuple[int, ...]:
        """B × ℓ."""
        return tuple(self.ids.shape)

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device | str) -> "MixedBatch":
        """The same on another device."""
        tensors: dict[str, Any] = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **tensors)

    def token_mask(self) -> Bool[Tensor, "B ell"]:
        """Which places are tokens, not padding."""
        lengths = torch.tensor(self.lengths, device=self.ids.device)
        return torch.arange(self.ids.shape[1], device=self.ids.device) < lengths[:, None]

    def patch_number(self) -> Int[Tensor, "B ell"]:
        """For every token that is a patch, which of the patches."""
        pictured = (self.kind == IMG) & self.token_mask()
        return (pictured.flatten().cumsum(0) - 1).view(self.shape)

    def weights(self) -> Float[Tensor, "B ell"]:
        """m: how much the loss looks at each token."""
        m = ((self.kind == TEXT) | (self.kind == ACT)).float() if self.loss is None else self.loss
        if m.shape != self.ids.shape:
            raise refuse("loss", f"an element for every token, {self.shape}", tuple(m.shape))
        return m * self.token_mask()

    def next_weights(self) -> Float[Tensor, "B ell"]:
        """m[t+1]: the same of the token after each; nothing stands after the last."""
        return F.pad(self.weights()[:, 1:], (0, 1))

    def drawn(self, N_grid: int, generator: torch.Generator | None = None) -> "MixedBatch":
        """With every patch at a random place of its intervals, as in training."""
        return replace(self, cells=random_cells(self.intervals, N_grid, generator))

    def narrow(self, starts: Sequence[int], counts: Sequence[int]) -> "MixedBatch":
        """So many tokens of every row, from a start of its own; perhaps none."""
        B, device, kinds, numbers = len(self), self.ids.device, self.kind.tolist(), self.patch_number().tolist()
        places = torch.arange(max(max(counts), 1), device=device) + torch.tensor(starts, device=device)[:, None]
        rows, places = torch.arange(B, device=device)[:, None], places.clamp(max=self.ids.shape[1] - 1)
        picked = [
            numbers[row][t] for row in range(B) for t in range(starts[row], starts[row] + counts[row]) if kinds[row][t] == IMG
        ]  # of the patches
        parts = {"kind": self.kind, "ids": self.ids, "index": self.index, "loss": self.loss}
        tokens: dict[str, Any] = {name: None if part is None else part[rows, places] for name, part in parts.items()}
        return replace(self, **tokens, lengths=tuple(counts), **self._patches(picked))

    def select(self, rows: Sequence[int]) -> "MixedBatch":
        """The batch of these rows, in this order."""
        kinds, numbers = self.kind.tolist(), self.patch_number().tolist()
        picked = [numbers[row][t] for row in rows for t in range(self.lengths[row]) if kinds[row][t] == IMG]
        index = torch.tensor(rows, device=self.ids.device)
        parts = {"kind": self.kind, "ids": self.ids, "index": self.index, "loss": self.loss}
        tokens: dict[str, Any] = {name: None if part is None else part[index] for name, part in parts.items()}
        return replace(self, **tokens, lengths=tuple(self.lengths[row] for row in rows), **self._patches(picked))

    def _patches(self, numbers: list[int]) -> dict[str, Any]:
        index = torch.tensor(numbers, dtype=torch.long, device=self.ids.device)
        cells = None if self.cells is None else self.cells[index]
        return {"patches": self.patches[index], "intervals": self.intervals[index], "cells": cells}

    def formal(self, N_grid: int) -> list[list[Token]]:
        """Every row as the tokens of `transalg.formal`; a patch at a drawn cell has intervals inside of that."""
        numbers, m, intervals = self.patch_number().tolist(), None if self.loss is None else self.loss.tolist(), self.intervals
        if self.cells is not None:
            intervals = (self.cells[..., None] + torch.tensor([1 / 4, 3 / 4])).flatten(1) / N_grid

        def token(row: int, t: int) -> Token:
            kind, weight = int(self.kind[row, t]), None if m is None else m[row][t]
            if kind != IMG:
                return Token(KINDS[kind], int(self.ids[row, t]), int(self.index[row, t]), m=weight)
            r, r_end, c, c_end = intervals[numbers[row][t]].tolist()
            patch = Patch(self.patches[numbers[row][t]], (r, r_end), (c, c_end))
            return Token(KINDS[kind], p=int(self.index[row, t]), patch=patch, m=weight)

        return [[token(row, t) for t in range(length)] for row, length in enumerate(self.lengths)]


# Places in an image ----------------------------------------------------------------------------------------------------


def _parts(intervals: Float[Tensor, "n 4"], N_grid: int) -> tuple[Int[Tensor, "n 2"], Int[Tensor, "n 2"]]:
    """The first and the last of the N equal parts of [0, 1] that the rows of each patch meet, and its columns."""
    ends = intervals.double().view(-1, 2, 2) * N_grid
    first = ends[..., 0].floor().long()
    return first, first.maximum(ends[..., 1].ceil().long() - 1)


def middle_cells(intervals: Float[Tensor, "n 4"], N_grid: int) -> Int[Tensor, "n 2"]:
    """Row and column of each patch, as formal `Index` has them."""
    first, last = _parts(intervals, N_grid)
    return (first + last + 1) // 2


def random_cells(intervals: Float[Tensor, "n 4"], N_grid: int, generator: torch.Generator | None = None) -> Int[Tensor, "n 2"]:
    """The same of training, as `RandomIndex` has them."""
    first, last = _parts(intervals, N_grid)
    device = generator.device if generator else first.device
    u = torch.rand(first.shape, dtype=torch.float64, generator=generator, device=device).to(first.device)
    return (first + (u * (last - first + 1)).long()).minimum(last)


# Patches that are alike --------------------------------------------------------------------------------------------------


def distinct(patches: Float[Tensor, "n C 16 16"]) -> tuple[Float[Tensor, "m C 16 16"], Int[Tensor, "n"] | None]:
    """Every different patch once, and which of them each patch is; None where no two are alike.

    Frames of a game have the same background again and again, which is then embedded once. A patch is known by a weighted sum of its bits;
    should two that differ have the same sum, all patches stay.
    """
    if patches.requires_grad:  # each wants its own gradient
        return patches, None
    pixels = patches.flatten(1).contiguous()
    values, which = torch.unique(_sums(pixels.view(torch.int64)), return_inverse=True)
    if len(values) == len(patches):
        return patches, None
    # one of those that are alike, whichever
    one = which.new_empty(len(values)).scatter_(0, which, torch.arange(len(which), device=which.device))
    if not torch.equal(pixels[one][which], pixels):
        return patches, None
    return patches[one], which


def _sums(bits: Int[Tensor, "n d"]) -> Int[Tensor, "n"]:
    """Of each row, modulo 2⁶⁴: in whole numbers, so that rows that are alike have the same whatever the order of adding."""
    weights = torch.arange(1, 1 + bits.shape[1], device=bits.device) * MIX
    return (bits * (weights ^ weights >> 29)).sum(dim=1)


# What may enter --------------------------------------------------------------------------------------------------------


def checked_batch(batch: object, hyper: GatoHyper, *, least: int = 1, lengths: Lengths = None) -> MixedBatch:
    """The batch with whole numbers as int64, and 0 where a number does not count; a ValueError that says what is wrong with it."""
    if not isinstance(batch, MixedBatch):
        raise refuse("batch", "a MixedBatch", type(batch).__name__)
    if lengths is not None:
        raise refuse("lengths", "those of the batch itself", "others")
    kind, ids, index = (token_ids(name, getattr(batch, name), hyper.ell_max) for name in ("kind", "ids", "index"))
    for name, part in (("kind", kind), ("index", index), ("loss", batch.loss)):
        if part is not None and part.shape != ids.shape:
            raise refuse(name, f"an element for every token, {tuple(ids.shape)}", tuple(part.shape))
    row_lengths("lengths", batch.lengths, tuple(ids.shape), least=least)
    tokens = batch.token_mask()
    kind = within("kind", kind.where(tokens, TEXT), len(KINDS), "number of kinds")
    pictured = kind == IMG
    ids = within("ids", ids.where(tokens & ~pictured, 0), hyper.N_V)
    index = within("index", index.where(tokens & (kind <= LAST_LOCAL), 0), hyper.N_loc, "N_loc")
    if batch.loss is not None:
        _check_weights(batch.loss[tokens], batch.loss[pictured & tokens])
    _check_patches(batch, hyper, int(pictured.sum()))
    return replace(batch, kind=kind, ids=ids, index=index)


def _check_weights(m: Float[Tensor, "T"], of_patches: Float[Tensor, "n"]) -> None:
    if not bool(((m >= 0) & (m < torch.inf)).all()):
        raise refuse("loss", "weights in [0, ∞)", "NaN" if m.isnan().any() else float(m.min() if m.min() < 0 else m.max()))
    if of_patches.any():
        raise refuse("loss", "0 at image patches, which have no token ID to predict", float(of_patches.max()))


def _check_patches(batch: MixedBatch, hyper: GatoHyper, count: int) -> None:
    patches, intervals, cells = batch.patches, batch.intervals, batch.cells
    if patches.ndim != 4 or len(patches) != count:
        raise refuse("patches", f"one for each of the {count} patches among the tokens", f"the shape {tuple(patches.shape)}")
    if intervals.shape != (count, 4):
        raise refuse("intervals", f"r, r′, c, c′ of each of the {count} patches", f"the shape {tuple(intervals.shape)}")
    if not count:
        return
    if patches.shape[1:] != (hyper.C, PATCH, PATCH) or not patches.is_floating_point():
        expected = f"real numbers, C = {hyper.C} channels of {PATCH}×{PATCH} pixels"
        raise refuse("patches", expected, f"{patches.dtype} of shape {tuple(patches.shape)}")
    low, high = (float(end) for end in patches.detach().aminmax())
    if not (low >= -1 and high <= 1):  # NaN is in no interval
        raise refuse("patches", "pixels in [−1, 1]", low if not low >= -1 else high)
    a, b = intervals.view(-1, 2, 2).unbind(dim=-1)
    if not bool(((a >= 0) & (a < b) & (b <= 1)).all()):
        raise refuse("intervals", "0 ≤ r < r′ ≤ 1 and 0 ≤ c < c′ ≤ 1", intervals[0].tolist() if count == 1 else "others")
    if cells is not None:
        if cells.shape != (count, 2):
            raise refuse("cells", f"row and column of each of the {count} patches", f"the shape {tuple(cells.shape)}")
        within("cells", cells, hyper.N_grid, "N_grid")
