"""llama2.c's files: the story that it tells, the tokens that it reads, and files that are none."""

import os
import random
import re
import struct
from itertools import pairwise
from pathlib import Path

import pytest

import transalg
from tests.conftest import SHARED
from transalg.interop.llama2c import BOS, read_pieces
from transalg.interop.load import import_checkpoint

FOLDER = SHARED / "data" / "llama"
STORY, TOKENS = FOLDER / "stories260K.bin", FOLDER / "tok512.bin"
present = pytest.mark.skipif(not FOLDER.exists(), reason="stories260K is not beside this checkout, in ../shared/data/llama")


@present
def test_the_story(tmp_path: Path) -> None:
    import_checkpoint(str(STORY), tmp_path / "run", tokenizer=str(TOKENS))
    run = transalg.load(tmp_path / "run")
    assert run.generate(tau=0, ell_gen=200) == (FOLDER / "gold260k.txt").read_text(encoding="utf-8").removesuffix("\n")


def encode(pieces: dict[str, int], scores: list[float], text: str) -> list[int]:
    """As run.c does it: characters or their bytes, then always the pair whose piece has the best score, the first of equals."""
    ids = list[int]()
    for character in f" {text}" if text else "":
        ids += [pieces[character]] if character in pieces else [byte + 3 for byte in character.encode()]
    names = {one: piece for piece, one in pieces.items()}
    while True:
        pairs = [(scores[pieces[names[a] + names[b]]], -i) for i, (a, b) in enumerate(pairwise(ids)) if names[a] + names[b] in pieces]
        if not pairs:
            return ids
        i = -max(pairs)[1]
        ids[i : i + 2] = [pieces[names[ids[i]] + names[ids[i + 1]]]]


@present
def test_tokens_are_those_of_llama2c() -> None:
    data, start, pieces, scores = TOKENS.read_bytes(), 4, dict[str, int](), list[float]()
    for one in range(512):
        score, length = struct.unpack_from("<fi", data, start)
        pieces[data[start + 8 : start + 8 + length].decode()] = one
        scores.append(score)
        start += 8 + length
    core, draw = read_pieces(TOKENS, 512), random.Random(0)
    words = ["Once", "upon", "a time", "naïve", "猫", "Lily's", "  ", "\n", "ball", "!", "xyz"]
    for _ in range(200):
        text = draw.choice(("", " ")).join(draw.choices(words, k=draw.randint(1, 9)))
        assert core.encode(text, add_special_tokens=False).ids == encode(pieces, scores, text), text


@present
def test_files_that_are_none(tmp_path: Path) -> None:
    whole, path = STORY.read_bytes(), tmp_path / "a.bin"
    for content, said in (
        (b"", "not a file of llama2.c: expected seven integers at its beginning"),
        (whole[:-4], f"expected {len(whole):,} bytes, as its sizes imply, got {len(whole) - 4:,}"),
        (struct.pack("<7i", 8, 5, 2**31 - 1, 2, 1, 9, 4) + bytes(99), "not a file of llama2.c: expected sizes at its beginning"),
        (b"\xff" * 64, "not a file of llama2.c: expected sizes at its beginning"),
        (struct.pack("<7i", 7, 5, 1, 3, 1, 9, 4) + bytes(99), "H: expected a divisor of d_e = 7"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(said)):
            import_checkpoint(str(path), tmp_path / "run", tokenizer="ids")
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=r"llama2\.c has its tokenizer in another file; --tokenizer FILE names it"):
        import_checkpoint(str(path), tmp_path / "run")
    (tmp_path / "t.bin").write_bytes(TOKENS.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"not a tokenizer of llama2\.c with 512 tokens"):
        import_checkpoint(str(path), tmp_path / "run", tokenizer=str(tmp_path / "t.bin"))
    assert not (tmp_path / "run").exists() and BOS == 1


def test_tokenizers_that_are_none(tmp_path: Path) -> None:
    piece, path = struct.pack("<fi", 0.0, 1), tmp_path / "t.bin"
    for content, said in (
        (struct.pack("<i", 1) + piece + b"a", "not a tokenizer of llama2.c with 2 tokens: it ends early"),
        (struct.pack("<i", 1) + piece + b"a" + piece + b"\xff", "not a tokenizer of llama2.c with 2 tokens: a piece that is not UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=said):
            read_pieces(path, 2)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match=r"t.bin: expected a file, a tokenizer of llama2.c"):
        read_pieces(path, 2)
