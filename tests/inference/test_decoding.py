"""Cached decoding is Algorithms 14 and 15, token for token."""

import pytest
import torch

from tests.strategies import rng
from transalg.formal import DInference, EDInference
from transalg.hyper import DHyper, EDHyper
from transalg.inference.decoding import generate, pick, predict
from transalg.model import DTransformer, EDTransformer
from transalg.model.bridge import twin
from transalg.verify.cases import randomised, small


def test_greedy_generation_is_algorithm_14() -> None:
    hyper = small(DHyper, ell_max=19)
    model = randomised(DTransformer(hyper, dtype=torch.float64), rng(0)).eval()
    prompts = [[hyper.bos_token, 3], [hyper.bos_token, 5, 7, 2, 11], [hyper.bos_token]]
    found = generate(model, prompts, ell_gen=9, tau=0)
    for prompt, ours in zip(prompts, found, strict=True):
        theirs = DInference(torch.tensor(prompt), model.theta(), 9, 0.0, DTransformer=twin(hyper)).tolist()
        end = theirs.index(hyper.eos_token) if hyper.eos_token in theirs else len(theirs)
        assert ours == theirs[:end] and ours
    assert generate(model, [prompts[1]], ell_gen=9, tau=0)[0] == found[1], "alone as among others"
    assert generate(model, [[]], ell_gen=9, tau=0)[0] == found[2], "an empty prompt is bos"


def test_greedy_prediction_is_algorithm_15() -> None:
    hyper = small(EDHyper, ell_max=19)
    model = randomised(EDTransformer(hyper, dtype=torch.float64), rng(4)).eval()
    z = torch.randint(20, (3, 7), generator=rng(1))
    lengths = [7, 4, 1]
    found = predict([model], z, lengths)
    for row, length, ours in zip(z, lengths, found, strict=True):
        theirs = EDInference(row[:length], model.theta(), 0.0, EDTransformer=twin(hyper)).tolist()
        expected = [one for one in theirs if one not in (hyper.bos_token, hyper.eos_token)] if hyper.eos_token in theirs else theirs[1:]
        assert ours[: len(expected)] == expected
    assert predict([model, model], z, lengths) == found


def test_several_models_average_their_probabilities() -> None:
    hyper = small(EDHyper)
    models = [randomised(EDTransformer(hyper, dtype=torch.float64), rng(seed)).eval() for seed in (1, 2)]
    z = torch.randint(20, (1, 5), generator=rng(1))
    first = predict(models, z, [5])[0][:1]
    P = torch.stack([model(z, torch.tensor([[hyper.bos_token]])).softmax(dim=-1)[0, 0] for model in models]).mean(dim=0)
    assert first == ([int(P.argmax())] if int(P.argmax()) != hyper.eos_token else [])


def test_temperature() -> None:
    logits = torch.tensor([[0.0, 1.0, 3.0]]).expand(20_000, 3)
    for tau in (0.5, 1.0, 4.0):
        drawn = torch.bincount(pick(logits, tau, rng(0)), minlength=3) / 20_000
        torch.testing.assert_close(drawn, torch.softmax(logits[0] / tau, dim=0), rtol=0, atol=0.015)
    assert pick(logits, 0, None).unique().tolist() == [2]
    assert (torch.bincount(pick(logits, float("inf"), rng(0))) / 20_000 - 1 / 3).abs().max() < 0.015


def test_bad_input() -> None:
    model = DTransformer(small(DHyper))
    with pytest.raises(ValueError, match="tau: expected a number"):
        generate(model, [[1]], ell_gen=1, tau=float("nan"))
    with pytest.raises(ValueError, match="prompts: expected at most ℓ_max = 7 tokens"):
        generate(model, [[1] * 8], ell_gen=1)
