"""Real weights: a storyteller with the text that llama2.c writes with it, and an adder with what Hugging Face's transformers answers."""

import json
import struct
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from tests.conftest import SHARED
from tests.parity.families import hyper_of, state_of
from transalg.cpu import pack, quantize
from transalg.formal.decoders import Llama, LlamaTheta
from transalg.interop.llama2c import read
from transalg.model import DTransformer
from transalg.model.positions import frequencies

BOS = 1
ELL_GEN = 200


def greedy(model: DTransformer, x: list[int], ell_gen: int) -> list[int]:
    """x and the most probable continuation of so many tokens, one at a time with the cache."""
    cache, x = model.cache(1, len(x) + ell_gen), list(x)
    logits = model.decode(torch.tensor([x]), cache, last=True)
    for _ in range(ell_gen):
        x.append(int(logits.argmax()))
        logits = model.decode(torch.tensor([x[-1:]]), cache, last=True)
    return x


# stories260K of llama2.c ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Story:
    """A model, its vocabulary, and the text that it has to write."""

    model: DTransformer
    pieces: list[bytes]
    gold: str

    def text(self, x: list[int]) -> str:
        """What llama2.c prints for these tokens: <0xNN> is a byte, and the first piece loses a leading space."""
        pieces = [bytes.fromhex(piece[3:5].decode()) if piece.startswith(b"<0x") else piece for piece in (self.pieces[v] for v in x)]
        return b"".join(pieces).decode().removeprefix(" ")


def llama2c(path: Path) -> DTransformer:
    """A model from a file of llama2.c."""
    checkpoint = read(path, "ids")
    model = DTransformer(checkpoint.hyper)
    model.load_state_dict(dict(checkpoint.tensors))
    return model.eval()


def vocabulary(path: Path, N_V: int) -> list[bytes]:
    """The pieces of a tokenizer of llama2.c: the length of the longest; then of each a score, its length and its bytes."""
    data, start, pieces = path.read_bytes(), 4, []
    for _ in range(N_V):
        _, length = struct.unpack_from("<fi", data, start)
        pieces.append(data[start + 8 : start + 8 + length])
        start += 8 + length
    assert start == len(data)
    return pieces


@pytest.fixture(scope="module")
def story() -> Story:
    folder = SHARED / "data" / "llama"
    if not folder.exists():
        pytest.skip("stories260K is not beside this checkout, in ../shared/data/llama")
    model = llama2c(folder / "stories260K.bin")
    return Story(model, vocabulary(folder / "tok512.bin", model.hyper.N_V), (folder / "gold260k.txt").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def x(story: Story) -> list[int]:
    """bos and the tokens of the expected text, as the engine writes them."""
    return greedy(story.model, [BOS], ELL_GEN)


def test_the_engine_tells_the_story(story: Story, x: list[int]) -> None:
    assert story.text(x[1:]) == story.gold.removesuffix("\n")


@pytest.mark.slow
def test_the_formal_algorithm_tells_the_story(story: Story, x: list[int]) -> None:
    """In every column of P the next token of the story is the most probable one, so greedy decoding writes it."""
    theta = LlamaTheta.from_named(story.model.theta().named())
    P = Llama(torch.tensor(x[:-1]), theta, omega=frequencies(story.model.hyper))
    assert P.argmax(dim=0).tolist() == x[1:] and len(x) == 1 + ELL_GEN


def test_packed_weights_tell_the_story(story: Story, x: list[int]) -> None:
    """The path of one token, with kernels for all matrices and for none."""
    for least in (0, None):
        packed = pack(story.model, 1, least=least)
        assert packed.single_token is not None
        assert greedy(packed, [BOS], ELL_GEN) == x


def test_8_bits_tell_the_story_where_it_is_clear(story: Story, x: list[int]) -> None:
    """How far logits move in int8, the first half of the story shows; in the second half, one that leads by more is the largest still."""
    int8 = quantize(story.model)
    cache = int8.cache(1, len(x))
    with torch.no_grad():
        exact = story.model(torch.tensor([x[:-1]]))[0]
    rounded = torch.cat([int8.decode(torch.tensor([[token]]), cache, last=True) for token in x[:-1]])
    first, second = slice(0, ELL_GEN // 2), slice(ELL_GEN // 2, ELL_GEN)
    moved = (rounded - exact)[first].abs().max()
    best = exact.topk(2, dim=1).values
    clear = (best[:, 0] - best[:, 1])[second] > 2 * moved
    assert clear.sum() > 0.5 * len(clear)
    assert rounded[second].argmax(dim=1)[clear].tolist() == torch.tensor(x[1:])[second][clear].tolist()


# mathformer ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adder() -> Path:
    pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")
    package = find_spec("mathformer")
    if package is None or package.origin is None:
        pytest.skip("mathformer, which has trained weights, is not installed: pip install -e '.[test]'")
    return Path(package.origin).parent / "addformer"


def test_seven_and_eight(adder: Path) -> None:
    """7+8= is continued with 15 and the end, by their code and by ours. The model was trained without bos."""
    from transformers import LlamaForCausalLM

    vocabulary = json.loads((adder / "vocab.json").read_text(encoding="utf-8"))
    ids = [vocabulary[character] for character in "7+8="]
    peer = LlamaForCausalLM.from_pretrained(adder, local_files_only=True).eval()
    model = DTransformer(hyper_of(peer.config))
    model.load_state_dict(state_of(peer.config, peer.state_dict()))
    x = torch.tensor([ids])
    theirs = peer.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=10, do_sample=False)[0].tolist()
    answer = theirs[len(ids) :]
    assert answer == [vocabulary["1"], vocabulary["5"], vocabulary["</s>"]]
    for each in (model, pack(model, 1)):
        assert greedy(each, ids, len(answer)) == theirs
    with torch.no_grad():
        assert_close(model(torch.tensor([theirs])), peer(torch.tensor([theirs])).logits, rtol=0, atol=1e-4)
