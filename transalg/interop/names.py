"""Names: which tensors of theirs one of ours is made of, and how those lie in it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transalg.hyper import Hyper
from transalg.hyper.shapes import shapes

Shape = tuple[int, ...]
Parts = Sequence[Tensor]


@dataclass(frozen=True)
class Arrangement:
    """How a tensor of ours is made of theirs and back, given how many rows each of them has in ours."""

    join: Callable[[Parts, Hyper], Tensor]
    split: Callable[[Tensor, list[int], Hyper], Parts]
    shape: Callable[[Shape], Shape] = lambda shape: shape  # theirs from that of these rows of ours


def _rows_join(parts: Parts, hyper: Hyper) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _rows_split(whole: Tensor, rows: list[int], hyper: Hyper) -> Parts:
    return [whole] if len(rows) == 1 else torch.split(whole, rows)


def _by_head_join(parts: Parts, hyper: Hyper) -> Tensor:
    return torch.unflatten(parts[0], 0, (hyper.H, 3, -1)).transpose(0, 1).flatten(0, 2)


def _by_head_split(whole: Tensor, rows: list[int], hyper: Hyper) -> Parts:
    return [torch.unflatten(whole, 0, (3, hyper.H, -1)).transpose(0, 1).flatten(0, 2)]


def halves(W: Tensor, heads: int) -> Tensor:
    """Rows 2i−1 and 2i of every head, a rotary pair there, to rows i and i + d/2, a pair here."""
    return torch.unflatten(W, 0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def neighbours(W: Tensor, heads: int) -> Tensor:
    """The reverse."""
    return torch.unflatten(W, 0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def _pairs_join(parts: Parts, hyper: Hyper) -> Tensor:
    q, k, *v = parts
    return torch.cat([halves(q, hyper.heads.H), halves(k, hyper.heads.H_kv), *v])


def _pairs_split(whole: Tensor, rows: list[int], hyper: Hyper) -> Parts:
    q, k, *v = torch.split(whole, rows)
    return [neighbours(q, hyper.heads.H), neighbours(k, hyper.heads.H_kv), *v]


ROWS = Arrangement(_rows_join, _rows_split)  # above one another
COLUMNS = Arrangement(lambda parts, hyper: parts[0].mT, lambda whole, rows, hyper: [whole.mT], lambda shape: shape[::-1])  # GPT-2's Conv1D
ONE_ROW = Arrangement(lambda parts, hyper: parts[0][0], lambda whole, rows, hyper: [whole[None]], lambda shape: (1, *shape))  # Marian's b_u
BY_HEAD = Arrangement(_by_head_join, _by_head_split)  # q, k and v of one head above those of the next (GPT-NeoX)
PAIRS = Arrangement(_pairs_join, _pairs_split)  # rotary pairs are neighbours in q and k (llama2.c, gguf)


@dataclass(frozen=True)
class Source:
    """The names of theirs, from the first row to the last; * is the number of a layer."""

    names: tuple[str, ...]
    arrangement: Arrangement = ROWS


Sources = Mapping[str, Source]  # by our names, with * likewise


def rows(*names: str) -> Source:
    return Source(names)


def columns(name: str) -> Source:
    return Source((name,), COLUMNS)


def norm(ours: str, theirs: str) -> dict[str, Source]:
    """γ and β of a norm; a model whose norm has no β has no use for the second."""
    return {ours: rows(f"{theirs}.weight"), ours.replace("gamma", "beta"): rows(f"{theirs}.bias")}


def linear(ours: str, *theirs: str) -> dict[str, Source]:
    """A matrix and its bias: W_o has b_o."""
    return {ours: rows(*(f"{name}.weight" for name in theirs)), "b_".join(ours.rsplit("W_", 1)): rows(*(f"{name}.bias" for name in theirs))}


def sources_of(hyper: Hyper, table: Sources) -> Iterator[tuple[str, Source]]:
    """Every parameter of a model, with those of theirs that it is made of."""
    for ours in shapes(hyper):
        layer = next((piece for piece in ours.split(".") if piece.isdigit()), "")
        source = table[ours.replace(f".{layer}.", ".*.") if layer else ours]
        yield ours, Source(tuple(name.replace("*", layer) for name in source.names), source.arrangement)


def part_rows(hyper: Hyper, ours: str, shape: Shape, count: int) -> list[int]:
    """How many rows of ours each of so many of theirs has."""
    return [shape[0]] if count == 1 else list(hyper.matrices[ours.rpartition(".")[2].partition("_")[2]].values())


def their_shapes(hyper: Hyper, table: Sources) -> dict[str, Shape]:
    """The shapes that their tensors have to have, by their names."""
    result: dict[str, Shape] = {}
    ours_shapes = shapes(hyper)
    for ours, source in sources_of(hyper, table):
        for name, height in zip(source.names, part_rows(hyper, ours, ours_shapes[ours], len(source.names)), strict=True):
            shape = (height, *ours_shapes[ours][1:])
            result[name] = source.arrangement.shape(shape)
    return result


def joined(hyper: Hyper, table: Sources, tensor: Callable[[str], Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Our tensors, one at a time, from theirs."""
    for ours, source in sources_of(hyper, table):
        yield ours, source.arrangement.join([tensor(name) for name in source.names], hyper)


def taken_apart(hyper: Hyper, table: Sources, ours: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Their tensors, one at a time, from ours."""
    for name, source in sources_of(hyper, table):
        whole = ours[name]
        parts = source.arrangement.split(whole, part_rows(hyper, name, tuple(whole.shape), len(source.names)), hyper)
        yield from zip(source.names, parts, strict=True)


def numbers(shape: Shape) -> str:
    return "×".join(map(str, shape)) if shape else "a number"
