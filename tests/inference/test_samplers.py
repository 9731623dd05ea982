"""Each sampler against Hugging Face's, and what is drawn against its probabilities."""

from math import inf

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LogitsProcessorList, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from tests.strategies import rng
from tests.tolerance import tolerance
from transalg.inference.samplers import RepetitionPenalty, Temperature, TopK, TopP, draw, sampler_chain

SEEDS = st.integers(0, 10**6)


def logits_of(seed: int) -> torch.Tensor:
    return 3 * torch.randn(5, 23, generator=rng(seed), dtype=torch.float64)


@given(seed=SEEDS, k=st.integers(1, 30), p=st.floats(0.05, 1), tau=st.floats(0.2, 5), penalty=st.floats(0.5, 3))
def test_samplers_are_those_of_hugging_face(seed: int, k: int, p: float, tau: float, penalty: float) -> None:
    logits = logits_of(seed)
    context = torch.randint(23, (5, 7), generator=rng(seed))
    peers = LogitsProcessorList(
        [RepetitionPenaltyLogitsProcessor(penalty), TopKLogitsWarper(k), TemperatureLogitsWarper(tau), TopPLogitsWarper(p)]
    )
    ours = logits
    for one in sampler_chain(tau, k, p, penalty):
        ours = one(ours, context.tolist())
    torch.testing.assert_close(
        ours.softmax(dim=1), peers(context, logits.clone()).softmax(dim=1), rtol=0, atol=tolerance(torch.float64, terms=23, size=10)
    )


@given(seed=SEEDS, k=st.integers(1, 23))
def test_limits_of_the_temperature(seed: int, k: int) -> None:
    logits = logits_of(seed)
    cold = Temperature(0)(logits).softmax(dim=1)
    assert cold.argmax(dim=1).equal(logits.argmax(dim=1)) and cold.amax(dim=1).eq(1).all()
    hot = Temperature(inf)(TopK(k)(logits)).softmax(dim=1)
    torch.testing.assert_close(hot.sort(dim=1).values[:, -k:], torch.full((5, k), 1 / k, dtype=torch.float64))


def test_the_most_probable_token_always_stays() -> None:
    logits = torch.tensor([[0.0, 5.0, 1.0]])
    for one in (TopK(1), TopP(1e-9)):
        assert one(logits, [[]]).isfinite().tolist() == [[False, True, False]]
    assert TopP(1.0)(logits).equal(logits)


def test_what_is_drawn_has_its_probability() -> None:
    logits = torch.tensor([[0.0, 1.0, 3.0]]).expand(5_000, 3)
    generator = rng(0)
    for chosen in ((Temperature(0.5),), (Temperature(1.0),), (Temperature(4.0),), (TopK(2), Temperature(2.0))):
        expected = logits[:1].double()
        for one in chosen:
            expected = one(expected, [[]])
        drawn = torch.bincount(torch.tensor(draw(logits, chosen, [[]] * 5_000, [generator] * 5_000)), minlength=3) / 5_000
        torch.testing.assert_close(drawn, expected.softmax(dim=1)[0].float(), rtol=0, atol=0.03)


def test_a_greedy_draw_heeds_the_penalty() -> None:
    logits = torch.tensor([[2.0, 1.9, 0.0]])
    assert draw(logits, sampler_chain(0.0), [[0]], []) == [0]
    assert draw(logits, sampler_chain(0.0, repetition_penalty=1.5), [[0]], []) == [1]


@pytest.mark.parametrize("make", [lambda: Temperature(True), lambda: TopK(2.5), lambda: TopP(1.5), lambda: RepetitionPenalty(inf)])
def test_what_cannot_be(make) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()
