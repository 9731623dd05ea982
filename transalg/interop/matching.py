"""A file's names against those that a model needs: what is missing, what nobody knows, what is a copy, a constant, or not needed."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from transalg.hyper import Hyper
from transalg.interop.family import Family
from transalg.interop.names import numbers, their_shapes
from transalg.interop.weights import Weights

LISTED, SHAPES = 8, 3  # names and shapes in a message, at most


@dataclass(frozen=True)
class Match:
    """The tensor of each of the family's names, and the names in the file that are not needed."""

    tensor: Callable[[str], Tensor]
    left_out: tuple[str, ...]


def match(family: Family, hyper: Hyper, weights: Weights) -> Match:
    """A ValueError that lists every name that is missing, unknown, or has another shape than config.json says."""
    in_file = {_canonical(name, family): name for name in weights}
    needed, places = their_shapes(hyper, family.sources), dict[str, str]()
    for name in needed:
        found = next((one for one in (name, *family.aliases.get(name, ())) if one in in_file), None)
        if found is not None:
            places[name] = in_file.pop(found)
    _require(weights, "lacks", [name for name in needed if name not in places], "that the model needs")
    _check_shapes(weights, needed, places)
    unknown, left_out = list[str](), list[str]()
    for name, original in in_file.items():
        if name in family.repeated or (name in family.copies and hyper.tied):
            _check_copy(weights, original, places[family.repeated.get(name) or family.copies[name]])
        elif name in family.tables:
            _check_table(weights, original, family.tables[name](hyper))
        elif name in family.copies or _matches(name, family.unused):
            left_out.append(original)
        elif not _matches(name, family.constants):
            unknown.append(original)
    _require(weights, "has", unknown, "that the model does not know")
    return Match(lambda name: weights.tensor(places[name]), tuple(left_out))


def _canonical(name: str, family: Family) -> str:
    """A name as transformers writes it today."""
    if "LayerNorm." in name:
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
    of_head = name.startswith(("cls.", "classifier.", "lm_head.", "embed_out."))
    return name if name.startswith(family.prefix) or of_head else family.prefix + name


def _require(weights: Weights, verb: str, names: list[str], which: str) -> None:
    if names:
        listed = ", ".join(sorted(names)[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
        tensors = "a tensor" if len(names) == 1 else f"{len(names)} tensors"
        raise ValueError(f"{weights.where}: {verb} {tensors} {which}: {listed}")


def _check_shapes(weights: Weights, needed: dict[str, tuple[int, ...]], places: dict[str, str]) -> None:
    wrong = [
        f"{places[name]} is {numbers(weights.shape(places[name]))}, not {numbers(shape)}"
        for name, shape in needed.items()
        if weights.shape(places[name]) != shape
    ]
    if wrong:
        more = f"; and {len(wrong) - SHAPES} more" if len(wrong) > SHAPES else ""
        raise ValueError(f"{weights.where}: expected the shapes that config.json implies: {'; '.join(wrong[:SHAPES])}{more}")


def _check_copy(weights: Weights, copy: str, original: str) -> None:
    if not torch.equal(weights.tensor(copy), weights.tensor(original)):
        raise ValueError(f"{weights.where}: {copy}: expected the same as {original}, which config.json ties it to; got another")


def _check_table(weights: Weights, name: str, expected: Tensor) -> None:
    tensor = weights.tensor(name)
    if tensor.shape != expected.shape or not torch.allclose(tensor, expected.to(tensor), rtol=0, atol=1e-4):
        raise ValueError(f"{weights.where}: {name}: expected sinusoids, which are not learned; got another table")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
