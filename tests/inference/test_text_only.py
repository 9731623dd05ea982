"""Gato as a language model, and its answers: with the key/value cache what one pass over all tokens gives, and nothing but text."""

from math import inf

import numpy as np
import pytest
import torch
from torch import Tensor

from transalg.hyper import GatoHyper
from transalg.hyper.modalities import TEXT
from transalg.inference import agent
from transalg.inference.agent import answers
from transalg.inference.text_only import TextOnly
from transalg.model import Gato, MixedBatch
from transalg.tokenization import train
from transalg.tokenization.modalities import Sequence as Tokens
from transalg.tokenization.modalities import Vocabulary, concatenate, encode_observation
from transalg.tokenization.spaces import Image, Spaces, Text

TOKENIZER = train("char", ["abcdefghijk"])
VOCABULARY = Vocabulary.of(TOKENIZER, 1)
SPACES = Spaces(Image(16, 32, 1), Text())
N_LOC = 5  # fewer than tokens, so that an index starts over


def gato(seed: int = 0, N_loc: int = N_LOC) -> Gato:
    hyper = GatoHyper(
        N_V=VOCABULARY.N_V, ell_max=29, L=2, H=2, d_e=14, d_mlp=11, N_loc=N_loc, N_grid=7, C=1, C_r=6, G=3, positions="rotary", tied=True
    )
    return Gato(hyper, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).eval()


def text_logits(model: Gato, ids: list[int]) -> Tensor:
    """Of all that follows each token, by one pass."""
    index = torch.arange(len(ids)) % N_LOC
    with torch.no_grad():
        return model(MixedBatch.of_tokens(TEXT, torch.tensor([ids]), index[None]))[0]


@pytest.fixture
def rows() -> list[list[int]]:
    drawn = np.random.default_rng(3).integers(TOKENIZER.N_V, size=(2, 19)).tolist()
    return [drawn[0][:13], drawn[1][:19]]


def test_text_is_read_part_by_part_as_in_one_pass(rows: list[list[int]]) -> None:
    model, N_text = gato(), TOKENIZER.N_V
    text = TextOnly(model, N_text)
    cache = text.cache(2)
    prefill = torch.zeros(2, 11, dtype=torch.long)
    for row, (ids, length) in enumerate(zip(rows, (7, 11), strict=True)):
        prefill[row, :length] = torch.tensor(ids[:length])
    logits = text.decode(prefill, cache, [7, 11], last=True)
    for step in range(6):
        for row, (ids, length) in enumerate(zip(rows, (7, 11), strict=True)):
            expected = text_logits(model, ids[: length + step])[-1]
            torch.testing.assert_close(logits[row, :N_text], expected[:N_text], rtol=1e-10, atol=1e-10)
        assert (logits[:, N_text:] == -inf).all(), "no value and no separator"
        following = torch.tensor([[ids[length + step]] for ids, length in zip(rows, (7, 11), strict=True)])
        logits = text.decode(following, cache, last=True)


def test_a_window_is_one_pass(rows: list[list[int]]) -> None:
    model, N_text = gato(), TOKENIZER.N_V
    window = TextOnly(model, N_text).window(torch.tensor([row[:13] for row in rows]))
    assert (window[:, N_text:] == -inf).all()
    for row, logits in zip(rows, window, strict=True):
        torch.testing.assert_close(logits[:N_text], text_logits(model, row[:13])[-1, :N_text], rtol=1e-10, atol=1e-10)


def as_text(token: int, index: int) -> Tokens:
    one = encode_observation(Spaces(Text(), Text()), "a", VOCABULARY).part(0, 1)
    return Tokens(one.kind, np.array([token]), np.array([index]), one.patches, one.intervals, one.loss)


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_the_most_probable_text_up_to_eos(seed: int) -> None:
    """The reference reads everything again for every token, and counts the index of text from that of the last patch."""
    model, eos = gato(seed, 23), TOKENIZER.eos_token
    images = [np.full((16, 32, 1), value, np.uint8) for value in (0, 31, 90, 130, 170, 250)]
    prompts = [encode_observation(SPACES, image, VOCABULARY) for image in images]
    expected = []
    for prompt in prompts:
        sequence, written = prompt, list[int]()
        while len(written) < 9:
            with torch.no_grad():
                token = int(model(MixedBatch.of([sequence]))[0, -1, : TOKENIZER.N_V].argmax())
            if token == eos:
                break
            written.append(token)
            sequence = concatenate([sequence, as_text(token, int(sequence.index[-1]) + 1)])
        expected.append(TOKENIZER.decode(written))
    assert len(set(expected)) > 1 or len(set(expected[0])) > 1
    assert answers(model, VOCABULARY, prompts, ell_gen=9) == expected
    assert answers(model, VOCABULARY, prompts[2:3], ell_gen=9) == expected[2:3], "alone as among others"


def test_nothing_is_written_after_eos(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that has ended waits for the others."""
    turns = iter([[0, TOKENIZER.eos_token], [1, 2], [TOKENIZER.eos_token, 3], [4, 4]])
    monkeypatch.setattr(agent, "draw", lambda *_: next(turns))
    prompts = [encode_observation(SPACES, np.full((16, 32, 1), value, np.uint8), VOCABULARY) for value in (0, 250)]
    assert answers(gato(0, 23), VOCABULARY, prompts, ell_gen=9) == [TOKENIZER.decode([0, 1]), ""]
    assert next(turns) == [4, 4], "it stops when all have ended"
