"""Text in, text out: what a run's methods give is what its tokens give."""

import inspect
import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import transalg
from tests.strategies import rng
from tests.tolerance import tolerance
from tests.training.runs import SIZES, TASKS, config, files
from transalg.cpu.linear import Int8Linear
from transalg.hyper import DHyper, SpecialTokens
from transalg.inference import RepetitionPenalty, Temperature, TopK, generate, predict
from transalg.inference.detokenizer import IncrementalDetokenizer
from transalg.inference.prompting import ask
from transalg.inference.results import CutText
from transalg.inference.run import Run
from transalg.model import DTransformer
from transalg.tokenization import Tokenizer
from transalg.tokenization import train as train_tokenizer
from transalg.training.start import train
from transalg.verify.cases import randomised

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


def test_samplers_may_be_given_as_they_are(runs: dict[str, Run]) -> None:
    run = runs["lm"]
    expected = run.generate("the", ell_gen=12, tau=0.7, top_k=5, repetition_penalty=1.3, seed=3)
    chain = (RepetitionPenalty(1.3), TopK(5), Temperature(0.7))
    assert run.generate("the", ell_gen=12, samplers=chain, seed=3) == expected
    assert "".join(run.stream("the", ell_gen=12, samplers=chain, seed=3)) == expected
    assert run.generate("the", ell_gen=12, samplers=(Temperature(0),)) == run.generate("the", ell_gen=12, tau=0)
    with pytest.raises(ValueError, match="samplers: expected these or tau, top_k, top_p and repetition_penalty, got both"):
        run.generate("the", samplers=chain, tau=0.5)


@pytest.mark.parametrize("method", [Run.generate, Run.stream, Run.completions, Run.predict, Run.predictions, Run.classify, Run.embed, ask])
def test_signatures_are_written_out(method) -> None:
    kinds = {parameter.kind for parameter in inspect.signature(method).parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}


def large(run: Run, seed: int) -> DTransformer:
    """A model with a matrix that is large enough to be packed."""
    hyper = DHyper(N_V=run.tokenizer.N_V, ell_max=67, L=1, H=2, d_e=514, d_mlp=1031)
    return randomised(DTransformer(hyper), rng(seed)).eval()


def sampled(run: Run) -> list[str]:
    """What a run generates for one prompt, which has a fast path of its own, and for several."""
    return [run.generate("the", ell_gen=41, seed=3), *run.generate(["the", "a d"], ell_gen=41, seed=3)]


def test_a_run_with_other_models_generates_what_they_generate(runs: dict[str, Run]) -> None:
    run, second = replace(runs["lm"], models=(large(runs["lm"], 1),)), large(runs["lm"], 2)
    before = sampled(run)
    assert sampled(replace(run, models=(second,))) == sampled(replace(runs["lm"], models=(second,)))
    assert all(one != other for one, other in zip(sampled(replace(run, models=(second,))), before, strict=True))


@pytest.mark.parametrize("change", [lambda W: W.mul_(-1), lambda W: W.data.mul_(-1), lambda W: W.data.copy_(-W.data)])
def test_a_run_notices_changed_weights(change, runs: dict[str, Run]) -> None:
    model, same = large(runs["lm"], 1), large(runs["lm"], 2)
    run = replace(runs["lm"], models=(model,))
    before = sampled(run)
    with torch.no_grad():
        change(model.layers[0].W_mlp1)
        change(model.layers[0].W_mlp2)
    same.load_state_dict(model.state_dict())
    assert sampled(run) == sampled(replace(runs["lm"], models=(same,)))
    assert all(one != other for one, other in zip(sampled(run), before, strict=True))


def test_stop_strings_end_a_text_before_them(runs: dict[str, Run]) -> None:
    run = runs["lm"]
    seed, full = next((seed, text) for seed in range(50) if len(text := run.generate("the", ell_gen=25, seed=seed)) > 12)
    stop = full[4:7]
    assert run.generate("the", ell_gen=25, seed=seed, stop=stop) == full[: full.index(stop)]
    pieces = list(run.stream("the", ell_gen=25, seed=seed, stop=(stop, "never")))
    assert "".join(pieces) == full[: full.index(stop)], "nothing of the stop string is shown"
    (one,) = run.completions(["the"], ell_gen=25, seed=seed, stop=stop)[0]
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
        assert seen == growing.finish() == text
    broken = IncrementalDetokenizer(tokenizer, [])
    broken.add([*tokenizer.encode("a", ends=False), tokenizer.encode("日", ends=False)[0]])
    assert broken.text == "a" and broken.finish() == "a\ufffd"


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
    results = runs["classify"].classify(["a cat", "ran"])
    assert [one.label for one in results] == [max(one.P, key=one.P.get) for one in results]
    assert all(sum(one.P.values()) == pytest.approx(1) for one in results)
    alone = runs["classify"].classify("a cat")
    assert alone.label == results[0].label and pytest.approx(results[0].P, abs=SAME) == alone.P


LONG = "a cat " * 9  # 56 tokens with bos and eos


def test_long_texts_are_cut_to_ell_max_with_eos_last(runs: dict[str, Run]) -> None:
    """28 of 29 tokens are bos and the beginning of the text, the last is eos; one warning says how many texts were cut."""
    beginning = LONG[:27]
    for task, call in (
        ("classify", lambda run, texts, **more: [list(one.P.values()) for one in run.classify(texts, **more)]),
        ("embed", lambda run, texts, **more: run.embed(texts, **more).tolist()),
        ("seq2seq", lambda run, texts, **more: [[one.log_p] for (one,) in run.predict(texts, n_best=1, **more)]),
    ):
        run = runs["lm" if task == "embed" else task]
        with pytest.warns(CutText, match=r"^2 of 3 texts cut to ℓ_max = 29 tokens$") as caught:
            cut = call(run, [LONG, "ran", LONG])
        assert len(caught) == 1
        for ours, theirs in zip(cut, call(run, [beginning, "ran", beginning]), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-5)
        with pytest.raises(ValueError, match=r"56 tokens with bos and eos in .*; this model takes at most ℓ_max = 29"):
            call(run, [LONG], too_long="error")
        with pytest.raises(ValueError, match="too_long: expected cut or error, got skip"):
            call(run, ["ran"], too_long="skip")


def test_no_mask_is_cut(runs: dict[str, Run]) -> None:
    run = runs["mlm"]
    with pytest.warns(CutText, match="1 of 1 texts"):
        assert len(run.fill("a <mask>at " + LONG)) == 1
    for text in (LONG + "<mask>", "<mask>" + "a" * 27 + "<mask>"):
        with pytest.raises(ValueError, match=r"text: expected every <mask> in the first ℓ_max = 29 tokens, eos included"):
            run.fill(text)
    assert len(run.fill("<mask>" + "a" * 25 + "<mask>")) == 2, "29 tokens with bos and eos"


class OtherSpecialTokens(Tokenizer):
    """Its special tokens are the first three, not the last."""

    special_tokens = SpecialTokens(mask=0, bos=1, eos=2)


def test_special_tokens_are_those_the_tokenizer_names() -> None:
    tokenizer = train_tokenizer("char", ["abcdefgh"])
    letters = [tokenizer.token(token) for token in range(5)]
    detokenizer = IncrementalDetokenizer(OtherSpecialTokens(tokenizer.core), [1])
    detokenizer.add([1, 4, 0, 3, 2])
    assert detokenizer.text == letters[4] + letters[3] and detokenizer.new_ids == [4, 3]


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
    (one,) = run.completions(["the "], ell_gen=15, seed=2)[0]
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
    assert any(isinstance(module, Int8Linear) for module in small.model.modules())


@pytest.mark.parametrize(
    ("task", "call", "message"),
    [
        ("lm", lambda run: run.predict("a"), "a model for lm cannot predict; it can generate, embed, score"),
        ("seq2seq", lambda run: run.generate("a"), "a model for seq2seq cannot generate"),
        ("lm", lambda run: run.generate("Ω"), "prompt: nothing of 'Ω' is in the vocabulary"),
        ("lm", lambda run: run.generate("a cat " * 9), r"prompt: 55 tokens with bos; this model takes at most ℓ_max = 29"),
        ("lm", lambda run: run.generate("a", tau=float("nan")), "tau: expected a number"),
        ("lm", lambda run: run.generate("a", samples=0), "samples: expected 1 or more"),
        ("lm", lambda run: run.generate("a", seed=-1), r"seed: expected a whole number from 0 to 2\^63 − 1"),
        ("lm", lambda run: run.generate(7), "expected"),
        ("mlm", lambda run: run.fill("a cat"), "text: expected a <mask> to fill in 'a cat'"),
        ("classify", lambda run: run.classify("a cat " * 9, too_long="error"), "text: 56 tokens with bos and eos"),
        ("classify", lambda run: run.score("a"), "a model for classify cannot score"),
        ("seq2seq", lambda run: run.score("a"), "context: expected the text it comes from"),
        ("lm", lambda run: run.score("a", context="b"), "context: expected none for a model of lm"),
        ("seq2seq", lambda run: run.predict("a", beams=2, tau=1.0), "beam search does not sample"),
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
