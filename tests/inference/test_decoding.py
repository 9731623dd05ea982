"""Cached decoding is Algorithms 14 and 15, token for token, with the same random numbers too; a row is what it is alone."""

from math import inf

import pytest
import torch

from tests.strategies import rng
from tests.tolerance import tolerance
from transalg.formal import DInference, EDInference
from transalg.hyper import DHyper, EDHyper
from transalg.inference import Temperature, TopK, continuations, generate, pack, predict
from transalg.inference.beams import sample
from transalg.inference.decoding import Decoding, begin, sample_generators
from transalg.inference.one_pass import score
from transalg.model import DTransformer, EDTransformer
from transalg.model.counterpart import formal_counterpart
from transalg.verify.cases import cases, randomised, small

PRESETS = ("gpt2", "gpt3-small", "gopher-44m")  # larger ones are the same but for their sizes, which are shrunk
DECODERS = [
    case for case in cases() if type(case.hyper) is DHyper and (case.variant in PRESETS or "-" not in case.variant.replace("-norm", ""))
]
PAIRS = [case for case in cases() if type(case.hyper) is EDHyper]


def made(kind: type, hyper: DHyper | EDHyper, seed: int, dtype: torch.dtype = torch.float64) -> DTransformer | EDTransformer:
    """A random model that is sure of itself, so that what is drawn depends on what came before and not on the random numbers alone."""
    model = randomised(kind(hyper, dtype=dtype), rng(seed)).eval()
    with torch.no_grad():
        model.unembedding.mul_(6)
    return model


def formally(model: DTransformer, prompt: list[int], ell_gen: int, tau: float, generator: torch.Generator | None = None) -> list[int]:
    """Algorithm 14, up to and without eos."""
    eos = model.hyper.eos_token
    prompt = prompt or [model.hyper.bos_token]
    tokens = DInference(
        torch.tensor(prompt), model.theta(), ell_gen, tau, generator, stop=eos, DTransformer=formal_counterpart(model.hyper)
    ).tolist()
    return tokens[: tokens.index(eos)] if eos in tokens else tokens


def formally_seq2seq(model: EDTransformer, z: list[int], ell_gen: int, tau: float, generator: torch.Generator | None = None) -> list[int]:
    tokens = EDInference(
        torch.tensor(z), model.theta(), tau, generator, ell_gen=ell_gen, EDTransformer=formal_counterpart(model.hyper)
    ).tolist()[1:]
    return tokens[: tokens.index(model.hyper.eos_token)] if model.hyper.eos_token in tokens else tokens


@pytest.mark.slow
@pytest.mark.parametrize("case", DECODERS, ids=lambda case: case.variant)
def test_generation_is_algorithm_14(case) -> None:
    """Greedily and by drawing; beyond ℓ_max too, where the last ℓ_max tokens count."""
    model = made(DTransformer, case.hyper, 3)
    ell_max, bos = case.hyper.ell_max, case.hyper.bos_token
    prompts = [[bos, 3], [], [bos, *(t % 17 for t in range(ell_max - 3))], [bos, *(t % 13 for t in range(ell_max + 2))]]
    for tau in (0.0, 0.7):
        generated = generate(model, prompts, ell_gen=5, tau=tau, generator=rng(5))
        assert generated == [formally(model, prompt, 5, tau, rng(5)) for prompt in prompts]
        for form in (model, pack(model, 1)):
            assert [generate(form, [one], ell_gen=5, tau=tau, generator=rng(5))[0] for one in prompts] == generated, "alone as among others"


@pytest.mark.slow
@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case.variant)
def test_prediction_is_algorithm_15(case) -> None:
    model = made(EDTransformer, case.hyper, 4)
    ell = case.hyper.ell_max
    z = [[1, 2, 3, 4, 5, 6, 7][:ell], [11, 3, 5, 2], [9]]
    for tau in (0.0, 0.8, inf):
        predicted = predict(model, z, tau=tau, generator=rng(6), ell_gen=min(ell, 7))
        assert predicted == [formally_seq2seq(model, one, min(ell, 7), tau, rng(6)) for one in z]
        assert predicted == [predict(pack(model, 1), [one], tau=tau, generator=rng(6), ell_gen=min(ell, 7))[0] for one in z], (
            "the fast path"
        )


def test_rows_end_at_their_own_time() -> None:
    """Many rows of one batch, ending one after another, are what they are alone."""
    hyper = small(DHyper, N_V=7, ell_max=31)
    model = made(DTransformer, hyper, 6)
    (samples,) = continuations(model, [[hyper.bos_token, 2]], (Temperature(8.0),), ell_gen=19, samples=13, generator=rng(2))
    assert [one.ids for one in samples] == [
        formally(model, [hyper.bos_token, 2], 19, 8.0, each) for each in sample_generators(rng(2), 13)[1]
    ]
    assert len({len(one.ids) for one in samples}) > 3
    for one in samples:
        assert one.ended == (one.log_p_eos is not None) == (len(one.ids) < 19)


def test_the_row_that_is_left_takes_the_fast_path() -> None:
    hyper = small(DHyper, ell_max=31)
    model = made(DTransformer, hyper, 6)
    short = pack(model, 1)
    decoding = begin(short, [[hyper.bos_token, 2], [hyper.bos_token, 3]], (Temperature(0),), ell_gen=11, generators=[rng(0)])
    decoding.step()
    decoding.end(0)
    single_token, calls = short.single_token, []
    short.single_token = lambda *arguments: calls.append(arguments) or single_token(*arguments)
    assert decoding.finish()[1].ids == formally(model, [hyper.bos_token, 3], 11, 0)
    assert len(calls) == 10


def test_samples_of_one_prompt() -> None:
    """The first is what the prompt alone gives, the others have random numbers of their own; all are repeatable."""
    hyper = small(DHyper, ell_max=19)
    model = made(DTransformer, hyper, 0)
    prompts = [[hyper.bos_token, 5, 7], [hyper.bos_token]]
    many = continuations(model, prompts, (Temperature(1.0),), ell_gen=7, samples=5, generator=rng(2))
    assert [one[0].ids for one in many] == generate(model, prompts, ell_gen=7, generator=rng(2))
    assert len({tuple(one.ids) for one in many[0]}) > 2
    assert [[one.ids for one in each] for each in many] == [
        [one.ids for one in continuations(model, [prompt], (Temperature(1.0),), ell_gen=7, samples=5, generator=rng(2))[0]]
        for prompt in prompts
    ]
    pairs, z = made(EDTransformer, small(EDHyper, N_V=5, ell_max=29), 4), [[1, 1, 0], [1, 0], [0], [0, 0, 0], [1], [1, 0, 1, 0], [0, 0]]
    drawn = sample(pairs, z, (Temperature(inf),), samples=2, generator=rng(3))
    assert [one[0].ids for one in drawn] == predict(pairs, z, tau=inf, generator=rng(3))
    assert [[one.ids for one in each] for each in drawn] == [
        [one.ids for one in sample(pairs, [alone], (Temperature(inf),), samples=2, generator=rng(3))[0]] for alone in z
    ]
    assert len({tuple(one.ids) for one in drawn[0]}) > 1 and len({len(one.ids) for each in drawn for one in each}) > 1


def test_rows_of_one_z_stay_together() -> None:
    """Where one of two samples continues, the cache keeps both when it forgets the others, for they share the keys and values of z."""
    model = made(EDTransformer, small(EDHyper, ell_max=13), 4)

    def begun() -> Decoding:
        cache = model.cache(torch.tensor([[3, 1], [1, 5], [9, 2], [6, 5]]))
        cache.repeat(2)
        return Decoding(
            [model], [[model.hyper.bos_token]] * 8, [cache], (Temperature(2.0),), [rng(seed) for seed in range(8)], 9, group_size=2
        )

    complete, ended = begun(), begun()
    ended.step()
    for row in (0, 1, 2, 3, 4, 6):
        ended.end(row)
    assert [ended.finish()[row].ids for row in (5, 7)] == [complete.finish()[row].ids for row in (5, 7)]
    assert ended.cache_rows == [4, 5, 6, 7] and len(complete.continuations[5].ids) > 2


def test_a_generator_moves_on() -> None:
    model, generator = made(DTransformer, small(DHyper, ell_max=19), 0), rng(2)
    first, second = (generate(model, [[1]], ell_gen=9, generator=generator)[0] for _ in range(2))
    assert first != second
    assert [first, second] != [generate(model, [[1]], ell_gen=9)[0] for _ in range(2)], "others each time without one"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_generated_scores_the_same_in_one_pass(dtype: torch.dtype) -> None:
    hyper = small(DHyper, ell_max=41)
    model = made(DTransformer, hyper, 3, dtype)
    prompts = [[hyper.bos_token, 3], [hyper.bos_token, 5, 7, 2, 11]]
    generated = continuations(model, prompts, (TopK(9), Temperature(1.3)), ell_gen=31, generator=rng(0))
    for prompt, (one,) in zip(prompts, generated, strict=True):
        (again,) = score([model], [[*prompt, *one.ids]])
        assert one.log_p == pytest.approx(again[len(prompt) - 1 :], abs=tolerance(dtype, terms=41, depth=2, size=10))


def test_several_models_average_their_probabilities() -> None:
    models = [made(EDTransformer, small(EDHyper), seed) for seed in (1, 2)]
    decoders = [made(DTransformer, small(DHyper), seed) for seed in (1, 2)]
    eos = models[0].hyper.eos_token
    for tokens, logits in (
        (predict(models, [[3, 1, 4]]), [model(torch.tensor([[3, 1, 4]]), torch.tensor([[model.hyper.bos_token]])) for model in models]),
        (generate(decoders, [[3, 1, 4]], ell_gen=1, tau=0), [model(torch.tensor([[3, 1, 4]])) for model in decoders]),
    ):
        best = int(torch.stack([each.softmax(dim=-1)[0, -1] for each in logits]).mean(dim=0).argmax())
        assert tokens[0][:1] == ([best] if best != eos else [])
    assert predict([models[0]] * 3, [[3, 1, 4]]) == predict(models[0], [[3, 1, 4]])


def test_the_encoder_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made(EDTransformer, small(EDHyper, ell_max=13), 4)
    calls, real = [], model._encode
    monkeypatch.setattr(model, "_encode", lambda *arguments: calls.append(1) or real(*arguments))
    for options in ({}, {"beams": 3}, {"tau": 1.0}):
        calls.clear()
        predict(model, [[3, 1, 4], [1, 5]], **options)
        assert len(calls) == 1


def test_bad_input() -> None:
    model = DTransformer(small(DHyper))
    for options, message in (
        ({"tau": float("nan")}, r"tau: expected a number in \[0, ∞\], got nan"),
        ({"tau": -1}, "tau: expected a number"),
        ({"top_k": 0}, "top_k: expected 1 or more"),
        ({"top_p": 0.0}, r"top_p: expected a number in \(0, 1\]"),
        ({"repetition_penalty": -1.0}, r"repetition_penalty: expected a number in \(0, ∞\)"),
        ({"ell_gen": -1}, "ell_gen: expected 0 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            generate(model, [[1]], **{"ell_gen": 1} | options)
    with pytest.raises(ValueError, match="model: expected a DTransformer, or several"):
        generate(EDTransformer(small(EDHyper)), [[1]], ell_gen=1)
    with pytest.raises(ValueError, match="models: expected models of one vocabulary"):
        generate([model, DTransformer(small(DHyper, N_V=11))], [[1]], ell_gen=1)
    with pytest.raises(ValueError, match="IDs from 0 to N_V"):
        generate(model, [[10**6]], ell_gen=1)
    assert generate(model, [[1]], ell_gen=0) == [[]]
