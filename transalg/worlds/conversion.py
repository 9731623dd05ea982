"""Spaces of gymnasium as ours, and their values there and back."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from gymnasium import spaces as theirs
from PIL import Image as Pictures

from transalg.hyper.modalities import LOCAL, PATCH
from transalg.tokenization.spaces import Array, Box, Dictionary, Discrete, Image, Space, Text

MIDDLE = 128  # the brightness that is 0 in [−1, 1]
SUPPORTED = "box, discrete, dictionary, text or image"


@dataclass(frozen=True)
class Pixels:
    """What happens to images before they are patches."""

    crop: tuple[int, int] | None = None  # rows
    size: tuple[int, int] | None = None  # height and width to resize to
    pad: bool = False  # with black, to a multiple of the patch
    background: int | None = None  # a brightness that becomes 0 in [−1, 1], to which no kernel answers; others are half as far from it

    def __call__(self, image: Array) -> Array:
        if self.crop:
            image = image[slice(*self.crop)]
        if self.size and image.shape[:2] != self.size:
            h, w = self.size
            planes = [Pictures.fromarray(plane).resize((w, h), Pictures.Resampling.BOX) for plane in np.moveaxis(image, -1, 0)]
            image = np.stack([np.asarray(plane) for plane in planes], axis=-1)
        if self.pad:
            image = np.pad(image, [(0, -side % PATCH) for side in image.shape[:2]] + [(0, 0)])
        if self.background is not None:
            image = (MIDDLE + (image.astype(np.int16) - self.background) // 2).astype(np.uint8)
        return image


@dataclass(frozen=True)
class Conversion:
    """Our space of one of theirs, and functions for its values."""

    space: Space
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]


def convert(space: theirs.Space[Any], pixels: Pixels, name: str) -> Conversion:
    """A ValueError in one line says which part of a space is not supported."""
    try:
        match space:
            case theirs.Dict():
                return _dictionary({key: convert(inner, pixels, f"{name}/{key}") for key, inner in space.spaces.items()}, dict)
            case theirs.Tuple():
                return _tuple([convert(inner, pixels, f"{name}/{i}") for i, inner in enumerate(space.spaces)], tuple)
            case theirs.MultiDiscrete() if len(counts := np.unique(space.nvec)) > 1 or (space.start != 0).any() or not len(counts):
                parts = [theirs.Discrete(int(n), start=int(start)) for n, start in zip(space.nvec.flat, space.start.flat, strict=True)]
                join = lambda each: np.array(each, space.dtype).reshape(space.shape)  # noqa: E731
                inner = _tuple([convert(part, pixels, f"{name}/{i}") for i, part in enumerate(parts)], join)
                return Conversion(inner.space, lambda value: inner.ours(np.ravel(value)), inner.theirs)
            case theirs.MultiDiscrete():
                return Conversion(Discrete(int(counts[0]), space.shape), np.asarray, lambda value: np.asarray(value, space.dtype))
            case theirs.MultiBinary():
                return Conversion(Discrete(2, space.shape), np.asarray, lambda value: np.asarray(value, space.dtype))
            case theirs.Discrete():
                return Conversion(
                    Discrete(int(space.n)), lambda value: index(value) - int(space.start), lambda value: int(value) + int(space.start)
                )
            case _ if isinstance(space, theirs.Text) or (
                space.dtype is not None and np.issubdtype(space.dtype, np.str_)
            ):  # minigrid's missions
                return Conversion(Text(), str, str)
            case theirs.Box() if _is_image(space):
                return _image(space, pixels)
            case theirs.Box() if 0 in space.shape:
                raise ValueError(f"expected at least one number, got the shape {space.shape}")
            case theirs.Box() if space.dtype == np.uint8 and len(space.shape) == 3 and np.prod(space.shape) > LOCAL:
                raise ValueError(f"expected an image of height × width × 1 or 3 channels, got the shape {space.shape}")
            case theirs.Box():
                low, high = float(np.min(space.low)), float(np.max(space.high))
                return Conversion(Box(low, high, space.shape), np.asarray, lambda value: _inside(space, value))
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(name) else f"{name}: {error}") from error
    raise ValueError(f"{name}: expected {SUPPORTED}, got {type(space).__name__}, which is not supported")


def _dictionary(parts: dict[str, Conversion], join: Callable[[dict[str, Any]], Any]) -> Conversion:
    return Conversion(
        Dictionary({key: part.space for key, part in parts.items()}),
        lambda value: {key: part.ours(value[key]) for key, part in parts.items()},
        lambda value: join({key: part.theirs(value[key]) for key, part in parts.items()}),
    )


def _tuple(parts: list[Conversion], join: Callable[[list[Any]], Any]) -> Conversion:
    """A dictionary with numbers as names, all equally long, so that they are in order."""
    width = len(str(len(parts) - 1))
    named = _dictionary({f"{i:0{width}}": part for i, part in enumerate(parts)}, lambda value: join(list(value.values())))
    return Conversion(
        named.space,
        lambda value: {f"{i:0{width}}": part.ours(each) for i, (part, each) in enumerate(zip(parts, value, strict=True))},
        named.theirs,
    )


def _is_image(space: theirs.Box) -> bool:
    """Bytes in two dimensions, or three with one or three channels."""
    return space.dtype == np.uint8 and (len(space.shape) == 2 or (len(space.shape) == 3 and space.shape[2] in (1, 3)))


def _image(space: theirs.Box, pixels: Pixels) -> Conversion:
    def ours(value: Any) -> Array:
        image = np.asarray(value)
        return pixels(image[..., None] if image.ndim == 2 else image)

    try:
        return Conversion(Image(*ours(np.zeros(space.shape, np.uint8)).shape), ours, np.asarray)
    except ValueError as error:
        raise ValueError(f"{error}, with @80x80 after the name say") from error


def _inside(space: theirs.Box, value: Any) -> Array:
    """Numbers of an action within the bounds of each, which may be narrower than those of all; whole where they have to be."""
    value = np.clip(value, space.low, space.high)
    return np.asarray(np.rint(value) if np.issubdtype(space.dtype, np.integer) else value, space.dtype)
