"""Captions of glyphs: Latin letters with marks in the faces of DejaVu, which matplotlib has, and their names in Unicode.

One script only, for Α, А and A are one picture with three names. A face is held out, and so are some pairs of a letter and a mark whose
letter and whose mark the model sees in other pairs. What is learned is drawn several times, in other sizes and places.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from string import ascii_letters

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures
from PIL import ImageDraw, ImageFont

from transalg.tokenization.spaces import Image, Spaces, Text

SIDE, SIZE, BASELINE = 32, 20, 24  # pixels
FACES = (
    *("Sans", "Sans-Bold", "Sans-Oblique", "Sans-BoldOblique"),
    *("SansMono", "SansMono-Bold", "SansMono-Oblique", "SansMono-BoldOblique"),
    *("Serif", "Serif-Bold", "Serif-Italic", "Serif-BoldItalic"),
)
HELD_OUT = "Serif-Bold"
VARIANTS = ((0, 0, 0), (-2, 1, 0), (-1, 0, -1), (-1, -1, 1), (1, 0, 1), (1, 1, -1), (2, -1, 0))  # pixels: size, to the right, down
PAIRS = 12  # about one pair in so many is held out
FEWEST = 4  # letters with a mark, of which one may be held out
SPACES = Spaces(Image(SIDE, SIDE, 1), Text())


@dataclass(frozen=True)
class Glyph:
    image: NDArray[np.uint8]  # 32 × 32 × 1
    name: str
    face: str
    split: str  # train, face or pair
    variant: int = 0  # of VARIANTS; 0 for the plain picture


def letters() -> list[str]:
    """A … z, and all characters that Unicode composes of one of them and marks."""
    composed = (chr(code) for code in range(0xC0, 0x2000) if unicodedata.decomposition(chr(code)))
    parts = {one: unicodedata.normalize("NFD", one) for one in composed}
    marked = [one for one, each in parts.items() if each[0] in ascii_letters and each[1:] and all(map(unicodedata.combining, each[1:]))]
    return sorted(ascii_letters) + marked


def pair(name: str) -> tuple[str, str]:
    """The letter and the mark in a name.

    >>> pair("LATIN SMALL LETTER E WITH ACUTE")
    ('LATIN SMALL LETTER E', 'ACUTE')
    """
    letter, _, mark = name.partition(" WITH ")
    return letter, mark


def held_out_pairs() -> set[str]:
    """Names that training does not see, of marks that it sees with other letters."""
    names = [unicodedata.name(one) for one in letters()]
    count = Counter(pair(name)[1] for name in names)
    return {name for name in names if pair(name)[1] and count[pair(name)[1]] >= FEWEST and _hash(name) % PAIRS == 0}


def glyphs() -> Iterator[Glyph]:
    """Every distinct picture, and after a plain one of training its variants.

    Blank ones are left out, and so are those that two names share, or that are in training and held out, and variants that are cut off.
    """
    hidden = held_out_pairs()
    drawn = dict[bytes, list[Glyph]]()
    for face in FACES:
        fonts = {larger: _font(face, SIZE + larger) for larger, _, _ in VARIANTS}
        missing = _draw(fonts[0], "\uffff").tobytes()
        for one in letters():
            name = unicodedata.name(one)
            split = "pair" if name in hidden else "face" if face == HELD_OUT else "train"
            plain = _draw(fonts[0], one)
            if not plain.any() or plain.tobytes() == missing or (face == HELD_OUT and name in hidden):
                continue
            for variant, (larger, x, y) in enumerate(VARIANTS if split == "train" else VARIANTS[:1]):
                image = _draw(fonts[larger], one, x, y)
                if not (variant and _touches_the_edge(image)):
                    drawn.setdefault(image.tobytes(), []).append(Glyph(image, name, face, split, variant))
    for same in drawn.values():
        if len({glyph.name for glyph in same}) == 1:
            yield min(same, key=lambda glyph: glyph.split != "train")


def _font(face: str, size: int) -> ImageFont.FreeTypeFont:
    from matplotlib import get_data_path

    # The basic layout is in every Pillow; the other one, where installed, moves some marks.
    return ImageFont.truetype(Path(get_data_path(), "fonts/ttf", f"DejaVu{face}.ttf"), size, layout_engine=ImageFont.Layout.BASIC)


def _draw(font: ImageFont.FreeTypeFont, text: str, x: int = 0, y: int = 0) -> NDArray[np.uint8]:
    picture = Pictures.new("L", (SIDE, SIDE))
    ImageDraw.Draw(picture).text((SIDE // 2 + x, BASELINE + y), text, 255, font=font, anchor="ms")
    return np.asarray(picture)[..., None]


def _touches_the_edge(image: NDArray[np.uint8]) -> bool:
    return bool(image[[0, -1]].any() or image[:, [0, -1]].any())


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big")
