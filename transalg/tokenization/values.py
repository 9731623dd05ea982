"""Numbers and images as Gato reads them: mu-law, bins and their centres, patches; and the way back."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from transalg.hyper.modalities import BINS, MU, PATCH, M
from transalg.tokenization.sequence import Floats, Ints
from transalg.tokenization.spaces import Array


def mu_law(x: Array) -> Array:
    """F(x) = sgn(x) · log(μ·|x| + 1) / log(μ·M + 1)."""
    return np.asarray(np.sign(x) * np.log1p(MU * np.abs(x)) / np.log1p(MU * M))


def inverse_mu_law(y: Array) -> Array:
    """x = sgn(y) · ((μ·M + 1)^|y| − 1) / μ."""
    return np.asarray(np.sign(y) * np.expm1(np.abs(y) * np.log1p(MU * M)) / MU)


def bins(values: Array, *, unit: bool) -> Ints:
    """The bin of each value v, from 0 to 1023: ⌊512(y + 1)⌋ with y = clip(F(v), −1, 1); without F where values are declared to be in [−1, 1].

    y = 1 belongs to the last bin.
    """
    v = np.asarray(values, np.float64)
    y = np.clip(v if unit else mu_law(v), -1, 1)
    return np.minimum((BINS / 2 * (y + 1)).astype(np.int64), BINS - 1)


def centres(numbers: Array, *, unit: bool) -> Floats:
    """The value in the middle of each bin."""
    y = (np.asarray(numbers, np.float64) + 0.5) / (BINS / 2) - 1
    return (y if unit else inverse_mu_law(y)).astype(np.float32)


def patches(images: Array, channels: int) -> Floats:
    """The 16 × 16 patches of images, T × h × w × c, in raster order: n × C × 16 × 16, pixels in [−1, 1].

    Grey becomes C equal channels, and RGB one channel by its mean.
    """
    *_, h, w, c = images.shape
    bytes_ = images.dtype == np.uint8
    pixels = images.astype(np.float32) * np.float32(2 / 255 if bytes_ else 2) - 1
    if c != channels:
        pixels = np.repeat(pixels, channels, axis=-1) if c == 1 else pixels.mean(-1, keepdims=True)
    cells = pixels.reshape(-1, h // PATCH, PATCH, w // PATCH, PATCH, channels)
    return np.ascontiguousarray(cells.transpose(0, 1, 3, 5, 2, 4).reshape(-1, channels, PATCH, PATCH))


@lru_cache(maxsize=64)
def intervals(h: int, w: int) -> Floats:
    """(r, r′, c, c′) of every patch of an image, in raster order. It may not be written to."""
    rows, columns = (np.arange(0, side, PATCH) for side in (h, w))
    r, c = (each.ravel() for each in np.meshgrid(rows, columns, indexing="ij"))
    result = np.stack([r / h, (r + PATCH) / h, c / w, (c + PATCH) / w], axis=-1).astype(np.float32)
    result.flags.writeable = False
    return result


def image(patches: Floats, h: int, w: int) -> NDArray[np.uint8]:
    """The image, h × w × C, that has these patches."""
    cells = patches.reshape(h // PATCH, w // PATCH, -1, PATCH, PATCH).transpose(0, 3, 1, 4, 2)
    pixels = cells.reshape(h, w, -1)
    return np.asarray(np.rint((pixels + 1) * 127.5), np.uint8)
