"""Glyphs: pictures with one name each, and splits that hold out what they say."""

import doctest
from collections import Counter

import pytest

from transalg.worlds import glyphs
from transalg.worlds.glyphs import FACES, HELD_OUT, VARIANTS, Glyph, pair
from transalg.worlds.record import captions


@pytest.fixture(scope="module")
def drawn() -> list[Glyph]:
    return list(glyphs.glyphs())


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(glyphs) == (0, 1)


def test_pictures_are_distinct_and_not_blank(drawn: list[Glyph]) -> None:
    assert len({glyph.image.tobytes() for glyph in drawn}) == len(drawn) > 6000
    assert all(glyph.image.shape == (32, 32, 1) and glyph.image.any() for glyph in drawn)
    assert {glyph.face for glyph in drawn} == set(FACES)
    assert all(glyph.name.startswith("LATIN ") for glyph in drawn)


def test_a_picture_with_two_names_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """D with stroke and eth."""
    monkeypatch.setattr(glyphs, "letters", lambda: ["A", "\u0110", "\u00d0", "\U0001f400"])
    monkeypatch.setattr(glyphs, "FACES", ("Sans",))
    assert {glyph.name for glyph in glyphs.glyphs()} == {"LATIN CAPITAL LETTER A"}, "and so is what the face does not have"


def test_nothing_is_cut_off(drawn: list[Glyph]) -> None:
    for glyph in drawn:
        assert not (glyph.image[:, [0, -1]].any() and glyph.image[[0, -1]].any()), glyph


def test_what_is_learned_comes_in_several_sizes_and_places(drawn: list[Glyph]) -> None:
    assert {glyph.variant for glyph in drawn if glyph.split == "train"} == set(range(len(VARIANTS)))
    assert {glyph.variant for glyph in drawn if glyph.split != "train"} == {0}
    for i, glyph in enumerate(drawn):
        if glyph.variant:
            before = drawn[i - 1]
            assert (before.name, before.face) == (glyph.name, glyph.face) and before.variant < glyph.variant
            assert not glyph.image[[0, -1]].any() and not glyph.image[:, [0, -1]].any()


def test_no_variant_of_what_validates_is_learned(drawn: list[Glyph]) -> None:
    made = list(captions(0.3))
    validating, learned = ({(name, image.tobytes()) for image, name, split in made if split == each} for each in ("valid", "train"))
    plain = {(glyph.name, glyph.face): glyph.image.tobytes() for glyph in drawn if not glyph.variant}
    others = {(glyph.name, glyph.face): glyph for glyph in drawn if glyph.variant}
    held_out = [key for key, image in plain.items() if (key[0], image) in validating]
    assert len(held_out) > 1000 and not any((key[0], others[key].image.tobytes()) in learned for key in held_out if key in others)


def test_the_held_out_face_is_in_no_other_split(drawn: list[Glyph]) -> None:
    faces = {split: {glyph.face for glyph in drawn if glyph.split == split} for split in ("train", "face", "pair")}
    assert faces["face"] == {HELD_OUT} and HELD_OUT not in faces["train"] | faces["pair"]
    names = {split: {glyph.name for glyph in drawn if glyph.split == split} for split in ("train", "face")}
    assert names["face"] <= names["train"], "every letter of it is learned in other faces"


def test_held_out_pairs_are_of_letters_and_marks_that_are_learned(drawn: list[Glyph]) -> None:
    learned = {glyph.name for glyph in drawn if glyph.split == "train"}
    held_out = {glyph.name for glyph in drawn if glyph.split == "pair"}
    assert 30 <= len(held_out) <= 60 and not learned & held_out
    letters, marks = Counter(pair(name)[0] for name in learned), Counter(pair(name)[1] for name in learned)
    assert all(letters[pair(name)[0]] and marks[pair(name)[1]] >= 2 for name in held_out)
