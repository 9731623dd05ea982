"""A batch to verify a model with: random tokens, random lengths, and noise in the padding."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from transalg.hyper import ClassifierHyper, EDHyper, EHyper, GatoHyper, Hyper
from transalg.hyper.modalities import IMG, KINDS, PATCH
from transalg.model import Cache, Classifier, DTransformer, EDTransformer, Gato, MixedBatch, Model

Decoding = DTransformer | Gato | EDTransformer


@dataclass(frozen=True)
class Batch:
    """Rows x, of an encoder–decoder pairs (z, x), with their lengths; segments where a model has them."""

    x: Tensor
    x_lengths: tuple[int, ...]
    z: Tensor | None = None
    z_lengths: tuple[int, ...] | None = None
    segments: Tensor | None = None
    mixed: MixedBatch | None = None  # of Gato, whose tokens are more than x

    def rows(self) -> list[dict[str, Tensor]]:
        """Every row on its own, cut to its length."""
        return [self.row(row) for row in range(len(self.x))]

    def formal_rows(self, hyper: Hyper) -> list[dict[str, Any]]:
        """The same as the formal algorithms take it: rows of Gato are tokens of all modalities."""
        if self.mixed is None:
            return [{**row} for row in self.rows()]
        assert isinstance(hyper, GatoHyper)
        return [{"x": tokens} for tokens in self.mixed.formal(hyper.N_grid)]

    def row(self, row: int) -> dict[str, Tensor]:
        sequences = {"x": self.x[row, : self.x_lengths[row]]}
        if self.z is not None and self.z_lengths is not None:
            sequences = {"z": self.z[row, : self.z_lengths[row]]} | sequences
        if self.segments is not None:
            sequences["s"] = self.segments[row, : self.x_lengths[row]]
        return sequences

    def select(self, rows: Sequence[int]) -> "Batch":
        """The batch of these rows, in this order."""
        index = torch.tensor(rows)
        picked = {name: None if value is None else value[index] for name, value in (("z", self.z), ("segments", self.segments))}
        return Batch(
            x=self.x[index],
            x_lengths=tuple(self.x_lengths[row] for row in rows),
            z=picked["z"],
            z_lengths=None if self.z_lengths is None else tuple(self.z_lengths[row] for row in rows),
            segments=picked["segments"],
            mixed=None if self.mixed is None else self.mixed.select(rows),
        )

    def decode(self, model: "Decoding", cache: Cache, counts: Sequence[int], *, last: bool = False) -> Tensor:
        """Append the next tokens of every row, so many of each, to the cache."""
        starts = list(cache.lengths)
        if isinstance(model, Gato):
            assert self.mixed is not None
            return model.decode(self.mixed.narrow(starts, counts), cache, last=last)
        if last and len(counts) == 1:
            return model.decode(self.x[:, starts[0] : starts[0] + counts[0]], cache, last=True)
        piece = torch.zeros(len(counts), max(counts), dtype=torch.long)
        for row, (have, count) in enumerate(zip(starts, counts, strict=True)):
            piece[row, :count] = self.x[row, have : have + count]
        return model.decode(piece, cache, counts, last=last)

    def disturbed(self, fill: int) -> "Batch":
        """The same with other numbers in the padding."""

        def padded(ids: Tensor | None, lengths: tuple[int, ...] | None) -> Tensor | None:
            if ids is None or lengths is None:
                return ids
            token_mask = torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]
            return ids.where(token_mask, fill)

        x = padded(self.x, self.x_lengths)
        assert x is not None
        mixed = self.mixed
        if mixed is not None:
            parts: dict[str, Any] = {name: padded(getattr(mixed, name), mixed.lengths) for name in ("kind", "ids", "index")}
            mixed = replace(mixed, **parts)
        return replace(self, x=x, z=padded(self.z, self.z_lengths), segments=padded(self.segments, self.x_lengths), mixed=mixed)

    def logits(self, model: Model) -> Tensor:
        """What the model says of the batch."""
        if isinstance(model, EDTransformer):
            assert self.z is not None
            return model.forward(self.z, self.x, self.z_lengths, self.x_lengths)
        if isinstance(model, Gato):
            assert self.mixed is not None
            return model.forward(self.mixed)
        if isinstance(model, DTransformer):
            return model.forward(self.x, self.x_lengths)
        return model.forward(self.x, self.x_lengths, self.segments)

    def log_probabilities(self, model: Model) -> list[Tensor]:
        """For every row log P, N_V × ℓ as in the paper; log p of the classes for a classifier."""
        log_p = self.logits(model).log_softmax(dim=-1)
        if isinstance(model, Classifier):
            return list(log_p)
        return [row[:length].mT for row, length in zip(log_p, self.x_lengths, strict=True)]


def draw(hyper: Hyper, generator: torch.Generator, rows: int = 5, longest: int | None = None) -> Batch:
    """Random rows of random lengths, one of them of one token and one as long as allowed."""
    longest = min(longest or hyper.ell_max, hyper.ell_max)

    def ids(count: int) -> Tensor:
        return torch.randint(count, (rows, longest), generator=generator)

    def lengths() -> tuple[int, ...]:
        drawn: list[int] = torch.randint(1, longest + 1, (rows,), generator=generator).tolist()
        for row, length in zip(torch.randperm(rows, generator=generator).tolist(), (1, longest), strict=False):
            drawn[row] = length
        return tuple(drawn)

    x = ids(hyper.N_V)
    if isinstance(hyper, ClassifierHyper):
        x[:, 0] = hyper.bos_token
    if isinstance(hyper, GatoHyper):
        mixed = draw_mixed(hyper, x, lengths(), generator)
        return Batch(mixed.ids, mixed.lengths, mixed=mixed)
    segments = ids(hyper.segments) if isinstance(hyper, EHyper) and hyper.segments else None
    if isinstance(hyper, EDHyper):
        return Batch(x, lengths(), ids(hyper.N_V), lengths())
    return Batch(x, lengths(), segments=segments)


def draw_mixed(hyper: GatoHyper, x: Tensor, lengths: tuple[int, ...], generator: torch.Generator) -> MixedBatch:
    """Tokens of random kinds, among them random patches at random places of an image."""
    kind, index = (torch.randint(count, x.shape, generator=generator) for count in (len(KINDS), hyper.N_loc))
    count = sum(int((row[:length] == IMG).sum()) for row, length in zip(kind, lengths, strict=True))
    patches = 2 * torch.rand(count, hyper.C, PATCH, PATCH, generator=generator, dtype=torch.float64) - 1
    ends = torch.rand(count, 2, 2, generator=generator, dtype=torch.float64).sort(dim=-1).values
    return MixedBatch(kind, x, index, lengths, patches, ends.flatten(1))
