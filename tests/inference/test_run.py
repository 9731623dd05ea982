"""Text in, text out: what a run's methods give is what its tokens give."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import transalg
from tests.tolerance import tolerance
from tests.training.runs import SIZES, TASKS, config, files
from transalg.inference import generate, predict
from transalg.inference.detokenizer import IncrementalDetokenizer
from transalg.inference.run import Run
from transalg.tokenization import train as train_tokenizer
from transalg.training.start import train

SAME = tolerance(torch.float64, terms=SIZES["d_mlp"], depth=2, size=10)  # a row alone and among others
ROUNDED = tolerance(torch.float32, terms=SIZES["d_e"])  # embeddings are float32


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """In float64, where no two tokens are so close that the rounding of a batch decides between them."""
    folder = files(tmp_path_factory.mktemp("runs"))
    for task in TASKS:
        train(config(task, folder, steps=40, dtype="float64"), folder / task)
    return {task: transalg.load(folder / task) for task in TASKS}


def test_generating_is_algorithm_14_on_the_tokens(runs: dict[str, Run]) -> None:
    run = runs["lm"]
    bos = run.model.hyper.bos_token
    prompts = ["the c", "", "a dog"]
    ids = [[bos, *run.tokenizer.encode(prompt, ends=False)] for prompt in prompts]
    expected = generate(run.model, ids, ell_gen=12, tau=0.9, top_k=5, generator=torch.Generator().manual_seed(3))
    options = {"ell_gen": 12, "tau": 0.9, "top_k": 5, "seed": 3}
    assert run.generate(prompts, **options) == [run.tokenizer.decode(one) for one in expected]
    assert [run.generate(prompt, **options) for prompt in prompts] == run.generate(prompts, **options)
    assert ["".join(run.stream(prompt, **options)) for prompt in prompts] == run.generate(prompts, **options)
    assert len(run.generate("the", samples=3, **options)) == 3
    assert run.generate("the", ell_gen=12, seed=1) != run.generate("the", ell_gen=12, seed=2)


def test_stop_strings_end_a_text_before_them(runs: dict[str, Run]) -> None:
    run = runs["lm"]
    seed, whole = next((seed, text) for seed in range(50) if len(text := run.generate("the", ell_gen=25, seed=seed)) > 12)
    stop = whole[4:7]
    assert run.generate("the", ell_gen=25, seed=seed, stop=stop) == whole[: whole.index(stop)]
    pieces = list(run.stream("the", ell_gen=25, seed=seed, stop=(stop, "never")))
    assert "".join(pieces) == whole[: whole.index(stop)], "nothing of the stop string is shown"
    (one,) = run.written(["the"], ell_gen=25, seed=seed, stop=stop)[0]
    assert one.ended and len(one.ids) < 25
    with pytest.raises(ValueError, match="stop: expected strings that are not empty"):
        run.generate("the", stop="")


def test_streamed_characters_are_whole() -> None:
    """Byte-level tokens that are parts of a character wait for the rest of it; what never becomes one is shown at the end."""
    tokenizer = train_tokenizer("bpe", ["a cat"], 300)
    for text in ("año 日本語 😀 x", "é"):
        ids = tokenizer.encode(text, ends=False)
        assert len(ids) > len(text)
        growing, seen = IncrementalDetokenizer(tokenizer, tokenizer.encode("ü", ends=False)), ""
        for one in ids:
            growing.add([one])
            assert text.startswith(growing.text) and growing.text.startswith(seen)
            seen = growing.text
        assert seen == growing.whole() == text
    broken = IncrementalDetokenizer(tokenizer, [])
    broken.add([*tokenizer.encode("a", ends=False), tokenizer.encode("日", ends=False)[0]])
    assert broken.text == "a" and broken.whole() == "a\ufffd"


def test_predictions(runs: dict[str, Run]) -> None:
    run = runs["seq2seq"]
    texts = ["a cat", "the mat", "ran"]
    z = [run.tokenizer.encode(text) for text in texts]
    for options in ({}, {"beams": 3}, {"beams": 3, "alpha": 0.5, "ell_gen": 9}):
        expected = [run.tokenizer.decode(one) for one in predict(run.model, z, **options)]
        assert run.predict(texts, **options) == expected and run.predict(texts[0], **options) == expected[0]
    best = run.predict("a cat", beams=4, n_best=3)
    assert len(best) == 3 and best[0].score >= best[1].score >= best[2].score
    assert best[0].text == run.predict("a cat", beams=4)
    drawn = run.predict("a cat", tau=2.0, n_best=4, seed=5)
    assert len({one.text for one in drawn}) > 1 and drawn[0].text == run.predict("a cat", tau=2.0, seed=5)


def test_filling_and_classifying(runs: dict[str, Run]) -> None:
    masks = runs["mlm"].fill("a c<mask>t <mask>at", k=3)
    assert len(masks) == 2 and all(len(mask) == 3 for mask in masks)
    assert all(one[1] >= other[1] for mask in masks for one, other in pairwise(mask))
    found = runs["classify"].classify(["a cat", "ran"])
    assert [one.label for one in found] == [max(one.P, key=one.P.get) for one in found]
    assert all(sum(one.P.values()) == pytest.approx(1) for one in found)
    alone = runs["classify"].classify("a cat")
    assert alone.label == found[0].label and list(alone.P.values()) == pytest.approx(list(found[0].P.values()), rel=0, abs=SAME)


@pytest.mark.parametrize("task", TASKS)
def test_embedding(task: str, runs: dict[str, Run]) -> None:
    texts = ["a cat", "the mat", "ran"]
    matrix = runs[task].embed(texts)
    assert matrix.shape == (3, 10) and matrix.dtype == np.float32
    np.testing.assert_allclose(runs[task].embed("ran"), matrix[2], atol=ROUNDED)
    unit = runs[task].embed(texts, normalize=True)
    np.testing.assert_allclose(unit, matrix / np.linalg.norm(matrix, axis=1, keepdims=True), atol=ROUNDED)


def test_scoring_what_was_written(runs: dict[str, Run]) -> None:
    run = runs["lm"]
    (one,) = run.written(["the "], ell_gen=15, seed=2)[0]
    scored = run.score("the " + one.text, eos=one.ended)
    assert sum(scored.log_p[4:]) == pytest.approx(one.log_p, abs=SAME * 29)
    assert scored.tokens[:4] == list("the ") and scored.total == sum(scored.log_p)
    (best,) = runs["seq2seq"].predict("a cat", n_best=1)
    assert runs["seq2seq"].score(best.text, context="a cat", eos=best.ended).total == pytest.approx(best.log_p, abs=SAME * 29)
    assert len(runs["mlm"].score("a cat").log_p) == 5


def test_an_ensemble_and_int8(runs: dict[str, Run]) -> None:
    folder = runs["lm"].folder
    pair = transalg.load(folder, folder)
    assert pair.generate("the", ell_gen=12, seed=1) == runs["lm"].generate("the", ell_gen=12, seed=1)
    small = transalg.load(folder, quantize="int8")
    assert small.score("the cat").total == pytest.approx(runs["lm"].score("the cat").total, abs=0.3)
    assert small.model.stand_ins()


@pytest.mark.parametrize(
    ("task", "call", "message"),
    [
        ("lm", lambda run: run.predict("a"), "a model for lm cannot predict; it can generate, embed, score"),
        ("seq2seq", lambda run: run.generate("a"), "a model for seq2seq cannot generate"),
        ("lm", lambda run: run.generate("Ω"), "prompt: nothing of 'Ω' is in the vocabulary"),
        ("lm", lambda run: run.generate("a cat " * 9), r"prompt: 55 tokens with bos; this model takes at most ℓ_max = 29"),
        ("lm", lambda run: run.generate("a", tau=float("nan")), "tau: expected a number"),
        ("lm", lambda run: run.generate("a", samples=0), "samples: expected 1 or more"),
        ("lm", lambda run: run.generate("a", seed=-1), "seed: expected a number from 0"),
        ("lm", lambda run: run.generate(7), "expected"),
        ("mlm", lambda run: run.fill("a cat"), "text: expected a <mask> to fill in 'a cat'"),
        ("classify", lambda run: run.classify("a cat " * 9), "text: 56 tokens with bos and eos"),
        ("classify", lambda run: run.score("a"), "a model for classify cannot score"),
        ("seq2seq", lambda run: run.score("a"), "context: expected the text it comes from"),
        ("lm", lambda run: run.score("a", context="b"), "context: expected none for a model of lm"),
        ("seq2seq", lambda run: run.predict("a", beams=2, tau=1.0), "a search draws nothing"),
    ],
)
def test_bad_input(task: str, call, message: str, runs: dict[str, Run]) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call(runs[task])


def test_a_prompt_can_be_truncated(runs: dict[str, Run]) -> None:
    run = runs["lm"]
    long = "a cat " * 9
    assert run.generate(long, truncate=True, ell_gen=3, tau=0) == run.tokenizer.decode(
        generate(run.model, [run.tokenizer.encode(long)[:-1][-29:]], ell_gen=3, tau=0)[0]
    )


def test_bad_folders(runs: dict[str, Run], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected the folder of a run, there is none"):
        transalg.load(tmp_path / "none")
    with pytest.raises(ValueError, match="there is no trained model in this folder"):
        transalg.load(tmp_path)
    damaged = tmp_path / "damaged"
    shutil.copytree(runs["lm"].folder, damaged)
    (damaged / "best.safetensors").write_bytes((damaged / "best.safetensors").read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"best\.safetensors"):
        transalg.load(damaged)
    shutil.copy(runs["lm"].folder / "best.safetensors", damaged)
    core = json.loads((damaged / "tokenizer.json").read_text())
    other = train_tokenizer("char", ["xyz"])
    other.save(damaged / "tokenizer.json")
    assert core["model"]["vocab"] and other.N_V != runs["lm"].tokenizer.N_V
    with pytest.raises(ValueError, match=r"N_V = \d+, but tokenizer\.json has 6 tokens"):
        transalg.load(damaged)
