"""Spaces: what an observation or an action may be. Frozen values, with JSON, checks, and the order in which parts become tokens.

>>> space = Dictionary({"wheel": Box(-1, 1, (2,)), "camera": Image(32, 48), "mission": Text(), "gear": Discrete(5)})
>>> list(leaves(space))
['mission', 'camera', 'gear', 'wheel']
>>> from_json(to_json(space)) == space
True
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transalg.checks import integer, is_integer, is_real
from transalg.hyper.modalities import BINS, PATCH, M

Array = NDArray[Any]


@dataclass(frozen=True)
class Box:
    """Real numbers, a low and a high for all of them; either may be infinite."""

    low: float = -inf
    high: float = inf
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (is_real(self.low) and is_real(self.high) and self.low < self.high):
            raise ValueError(f"box: expected low < high, got {self.low} and {self.high}")
        _check_shape("box", self.shape)

    @property
    def unit(self) -> bool:
        """Declared to be in [−1, 1], so that values need no mu-law."""
        return self.low >= -1 and self.high <= 1


@dataclass(frozen=True)
class Discrete:
    """Integers from 0 to n − 1."""

    n: int
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        integer("discrete", self.n, 1, BINS)
        _check_shape("discrete", self.shape)


@dataclass(frozen=True)
class Image:
    """h × w pixels of c channels: bytes, or numbers in [0, 1]. Patches of 16 × 16 have to fit."""

    h: int
    w: int
    c: int = 3

    def __post_init__(self) -> None:
        if not all(is_integer(side) and side > 0 and side % PATCH == 0 for side in (self.h, self.w)):
            raise ValueError(f"image: expected a height and a width that {PATCH} divides, got {self.h}×{self.w}; resize or pad it")
        if self.c not in (1, 3):
            raise ValueError(f"image: expected 1 channel (grey) or 3 (RGB), got {self.c}")


@dataclass(frozen=True)
class Text:
    """Any text."""


@dataclass(frozen=True)
class Dictionary:
    """Spaces by name; names have no slash. Without any it is the observation of one who sees nothing."""

    spaces: Mapping[str, "Space"] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in self.spaces:
            if not isinstance(name, str) or not name or "/" in name:
                raise ValueError(f"dictionary: expected names without a slash, got {name!r}")
        for name, space in self.spaces.items():
            _check_space(f"dictionary/{name}", space)


Leaf = Box | Discrete | Image | Text
Space = Leaf | Dictionary
ORDER: dict[type, int] = {Text: 0, Image: 1, Box: 2, Discrete: 2}  # text, then image patches, then tensors


@lru_cache(maxsize=1024)  # every row of training asks several times
def leaves(space: Space) -> Mapping[str, Leaf]:
    """The parts of a space by path, in the order of their tokens: by kind, then by the names in their paths. A space that is no dictionary has the path ""."""

    def walk(path: tuple[str, ...], part: Space) -> list[tuple[tuple[str, ...], Leaf]]:
        if isinstance(part, Dictionary):
            return [leaf for name, inner in part.spaces.items() for leaf in walk((*path, name), inner)]
        return [(path, part)]

    ordered = sorted(walk((), space), key=lambda leaf: (ORDER[type(leaf[1])], leaf[0]))
    return MappingProxyType({"/".join(path): leaf for path, leaf in ordered})


@dataclass(frozen=True)
class Spaces:
    """What is observed, and what is done. An action that is a text is an answer: a caption, or a document where nothing is observed."""

    observation: Space
    action: Space

    def __post_init__(self) -> None:
        _check_space("observation", self.observation)
        _check_space("action", self.action)
        parts = leaves(self.action).values()
        if not parts or (not self.answers and any(isinstance(leaf, Text | Image) for leaf in parts)):
            raise ValueError("action: expected discrete or continuous values, or one text and nothing else")
        for leaf in parts:
            if isinstance(leaf, Box) and any(M < abs(end) < inf for end in (leaf.low, leaf.high)):
                raise ValueError(
                    f"action: expected numbers from {-M:g} to {M:g}, as far as the bins reach, got {leaf.low:g} to {leaf.high:g}; scale them"
                )

    @property
    def answers(self) -> bool:
        return isinstance(self.action, Text)

    @property
    def document(self) -> bool:
        """Text alone."""
        return self.answers and not leaves(self.observation)


def flatten(space: Space, value: Any, name: str, *, bounds: bool = True) -> dict[str, Array | str]:
    """The parts of a value by path, each checked; a ValueError names the part that does not belong to its space.

    Without `bounds`, numbers may be outside of their box, as observations sometimes are; their tokens are clipped.
    """

    def find(path: str) -> Any:
        part = value
        for key in path.split("/") if path else ():
            if not isinstance(part, Mapping) or key not in part:
                raise ValueError(f"{name}: expected {path}, got none")
            part = part[key]
        return part

    return {path: check(leaf, find(path), f"{name}/{path}" if path else name, bounds=bounds) for path, leaf in leaves(space).items()}


def unflatten(space: Space, parts: Mapping[str, Any], path: str = "") -> Any:
    """The value whose parts these are."""
    if isinstance(space, Dictionary):
        return {name: unflatten(inner, parts, f"{path}/{name}" if path else name) for name, inner in space.spaces.items()}
    return parts[path]


def check(leaf: Leaf, value: Any, name: str, *, bounds: bool = True) -> Array | str:
    """A value as its space has it: an array of int64 or float32, of uint8 or float32 for pixels, or a text."""
    if isinstance(leaf, Text):
        if not isinstance(value, str):
            raise ValueError(f"{name}: expected a text, got {type(value).__name__}")
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name}: expected the shape {_shape(leaf)}, got rows of unequal lengths") from error
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        got = type(array.item()) if array.ndim == 0 else type(value)
        raise ValueError(f"{name}: expected numbers, got {got.__name__}")
    if isinstance(leaf, Image):
        return _pixels(leaf, array, name)
    if array.shape != leaf.shape:
        raise ValueError(f"{name}: expected the shape {leaf.shape}, got {array.shape}")
    if isinstance(leaf, Discrete):
        if not np.issubdtype(array.dtype, np.integer) and array.dtype != bool:
            raise ValueError(f"{name}: expected integers from 0 to {leaf.n - 1}, got {array.dtype}")
        if array.size and not (array.min() >= 0 and array.max() < leaf.n):
            raise ValueError(f"{name}: expected integers from 0 to {leaf.n - 1}, got {_outside(array, 0, leaf.n - 1)}")
        return array.astype(np.int64)
    if np.isnan(array).any():
        raise ValueError(f"{name}: expected numbers, got NaN")
    with np.errstate(over="ignore"):  # beyond float32 is infinite
        array = array.astype(np.float32)
        low, high = np.float32(max(leaf.low, -M)), np.float32(min(leaf.high, M))  # of what is to be decoded, beyond M is nothing
    if bounds and array.size and not (array.min() >= low and array.max() <= high):
        raise ValueError(f"{name}: expected numbers from {low:g} to {high:g}, got {_outside(array, low, high)}")
    return array


def _pixels(leaf: Image, array: Array, name: str) -> Array:
    if array.shape == (leaf.h, leaf.w) and leaf.c == 1:
        array = array[..., None]
    if array.shape != (leaf.h, leaf.w, leaf.c):
        raise ValueError(f"{name}: expected an image of {leaf.h}×{leaf.w}×{leaf.c}, got the shape {array.shape}")
    if array.dtype == np.uint8:
        return array
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"{name}: expected pixels as uint8, or floats in [0, 1], got {array.dtype}")
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        raise ValueError(f"{name}: expected pixels in [0, 1], got {_outside(array, 0, 1)}")
    return array.astype(np.float32)


def _outside(array: Array, low: Any, high: Any) -> Any:
    return array[~((array >= low) & (array <= high))].flat[0].item()


def _shape(leaf: Box | Discrete | Image) -> tuple[int, ...]:
    return (leaf.h, leaf.w, leaf.c) if isinstance(leaf, Image) else leaf.shape


def _check_space(name: str, space: object) -> None:
    if not isinstance(space, Space):
        kind = type(space)
        raise ValueError(
            f"{name}: expected a Box, Discrete, Image, Text or Dictionary of {__name__}, got {kind.__module__}.{kind.__name__}"
        )


def _check_shape(name: str, shape: object) -> None:
    if not isinstance(shape, tuple) or not all(is_integer(side) and side > 0 for side in shape):
        raise ValueError(f"{name}: expected a shape, a tuple of positive integers, got {shape!r}")


# JSON ------------------------------------------------------------------------------------------------------------------


def to_json(space: Space) -> dict[str, Any]:
    """A space as JSON has it; an infinite bound is null."""
    match space:
        case Box(low, high, shape):
            return {"kind": "box", "low": _finite(low), "high": _finite(high), "shape": list(shape)}
        case Discrete(n, shape):
            return {"kind": "discrete", "n": n, "shape": list(shape)}
        case Image(h, w, c):
            return {"kind": "image", "h": h, "w": w, "c": c}
        case Text():
            return {"kind": "text"}
        case Dictionary(spaces):
            return {"kind": "dictionary", "spaces": {name: to_json(inner) for name, inner in spaces.items()}}


def from_json(value: Any, name: str = "space") -> Space:
    """The space that JSON describes."""
    kinds = ("box", "discrete", "image", "text", "dictionary")
    if not isinstance(value, dict) or value.get("kind") not in kinds:
        raise ValueError(f"{name}: expected a kind, one of {', '.join(kinds)}, got {value!r}")
    try:
        match value["kind"]:
            case "box":
                low, high = (bound if (bound := value[end]) is not None else limit for end, limit in (("low", -inf), ("high", inf)))
                return Box(low, high, tuple(value["shape"]))
            case "discrete":
                return Discrete(value["n"], tuple(value.get("shape", ())))
            case "image":
                return Image(value["h"], value["w"], value.get("c", 3))
            case "text":
                return Text()
            case _:
                return Dictionary({key: from_json(inner, f"{name}/{key}") for key, inner in value["spaces"].items()})
    except KeyError as error:
        raise ValueError(f"{name}: expected {error.args[0]} of a {value['kind']}, got none") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{name}: expected a {value['kind']}, got {value}") from error


def _finite(bound: float) -> float | None:
    return bound if np.isfinite(bound) else None
