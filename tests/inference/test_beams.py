"""Beam search against its definition: exhaustive search, a plain search by the formal algorithm, and greedy decoding."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import rng
from tests.tolerance import PROMISED
from transalg.hyper import EDHyper
from transalg.inference import predict, search
from transalg.model import EDTransformer
from transalg.model.counterpart import formal_counterpart
from transalg.verify.cases import randomised, small


def made(seed: int, **sizes: int) -> EDTransformer:
    """A random model that is sure of itself, and ends now and then."""
    model = randomised(EDTransformer(small(EDHyper, **sizes), dtype=torch.float64), rng(seed)).eval()
    with torch.no_grad():
        model.unembedding.mul_(3)
    return model


def log_P(model: EDTransformer, z: list[int], x: list[int]) -> torch.Tensor:
    """What follows bos x, by the formal algorithm."""
    P = formal_counterpart(model.hyper)(torch.tensor(z), torch.tensor([model.hyper.bos_token, *x]), model.theta())
    return P[:, -1].log()


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), alpha=st.sampled_from([0.0, 0.6, 1.0]))
@settings(max_examples=5)
def test_with_enough_beams_the_search_is_exhaustive(seed: int, alpha: float) -> None:
    """5 tokens, up to 3 of them."""
    model = made(seed, N_V=5, ell_max=7)
    eos, z, ell = model.hyper.eos_token, [1, 0, 2], 3
    every, known = [], dict[tuple[int, ...], list[float]]()
    for length in range(ell + 1):
        for x in product([token for token in range(5) if token != eos], repeat=length):
            if length < ell:
                known[x] = log_P(model, z, list(x)).tolist()
            values = [known[x[:t]][x[t]] for t in range(length)]
            if length < ell:
                every.append((list(x), (sum(values) + known[x][eos]) / (length + 1) ** alpha))
            else:
                every.append((list(x), sum(values) / length**alpha))
    every.sort(key=lambda one: -one[1])
    (ours,) = search(model, [z], beams=64, alpha=alpha, ell_gen=ell, n_best=7)
    assert [one.score for one in ours] == pytest.approx([value for _, value in every[:7]], abs=PROMISED)
    assert ours[0].ids == every[0][0]


def plainly(model: EDTransformer, z: list[int], beams: int, alpha: float, ell_gen: int) -> list[tuple[float, list[int]]]:
    """Beam search as one would write it down, a sentence at a time, by the formal algorithm."""
    eos, running, ended = model.hyper.eos_token, [(0.0, list[int]())], []
    for ell in range(1, ell_gen + 1):
        every = [(before + float(p), [*x, token]) for before, x in running for token, p in enumerate(log_P(model, z, x))]
        every.sort(key=lambda one: -one[0])
        ended += [(log_p / ell**alpha, x[:-1]) for log_p, x in every[:beams] if x[-1] == eos]
        ended = sorted(ended, key=lambda one: -one[0])[:beams]
        running = [one for one in every if one[1][-1] != eos][:beams]
        if len(ended) == beams and ended[-1][0] >= running[0][0] / ell**alpha:
            return ended
    return sorted([*ended, *((log_p / ell_gen**alpha, x) for log_p, x in running)], key=lambda one: -one[0])


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "beams", "alpha"), [(1, 2, 1.0), (25, 3, 0.0), (44, 3, 0.5), (3, 4, 1.0), (6, 2, 0.0)])
def test_the_search_is_what_one_would_write_down(seed: int, beams: int, alpha: float) -> None:
    model = made(seed, N_V=7, ell_max=7)
    z = [[1, 0, 2, 3], [3], [2, 2]]
    for one, ours in zip(z, search(model, z, beams=beams, alpha=alpha, n_best=beams), strict=True):
        theirs = plainly(model, one, beams, alpha, 7)
        greedy = search(model, [one], beams=1, alpha=alpha)[0][0]
        expected = (
            theirs if any(x == greedy.ids for _, x in theirs) else sorted([*theirs, (greedy.score, greedy.ids)], key=lambda each: -each[0])
        )
        assert [each.score for each in ours] == pytest.approx([value for value, _ in expected[:beams]], abs=PROMISED)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), beams=st.integers(1, 6), alpha=st.sampled_from([0.0, 0.5, 1.0, 2.0]))
@settings(max_examples=40)
def test_the_best_is_never_worse_than_greedy_decoding(seed: int, beams: int, alpha: float) -> None:
    model = made(seed, N_V=7, ell_max=11)
    z = [[1, 0, 2], [3, 3, 1, 0, 2], [2]]
    greedy = predict(model, z)
    alone = search(model, z, beams=1, alpha=alpha)
    assert [one[0].ids for one in alone] == greedy
    for best, base in zip(search(model, z, beams=beams, alpha=alpha), alone, strict=True):
        assert best[0].score >= base[0].score - PROMISED


TABLE = {
    (): [0.4, 0.31, 0.29, 0, 0, 0, 0],
    (0,): [0.3, 0.28, 0.28, 0.14, 0, 0, 0],
    (1,): [0.5, 0.5, 0, 0, 0, 0, 0],
    (0, 0): [0, 0, 0, 0, 0, 0, 1.0],
}


class Table(EDTransformer):
    """A model whose P̂ of the next token is written down, and which keeps the tokens so far in its cache."""

    def decode(self, x, cache, lengths=None, *, last=False):
        t = cache.lengths[0]
        cache.keys[0][:, 0, t, 0] = x[:, 0].double()
        cache.lengths = [t + 1] * len(x)
        so_far = cache.keys[0][:, 0, 1 : t + 1, 0].long().tolist()
        return torch.tensor([TABLE.get(tuple(row), [0.25] * 4 + [0] * 3) for row in so_far], dtype=torch.float64).log()


def test_greedy_decoding_is_better_where_beams_lose_it() -> None:
    """0 0 eos has 0.12, but after two tokens 1 0 and 1 1 have 0.155 each, and then get worse and worse."""
    model = Table(small(EDHyper, N_V=7, ell_max=7), dtype=torch.float64).eval()
    assert predict(model, [[1]]) == [[0, 0]]
    assert math.exp(plainly_of(2)) < 0.12
    best = search(model, [[1], [2, 3]], beams=2, alpha=0.0, ell_gen=5)
    assert [one[0].ids for one in best] == [[0, 0], [0, 0]] and math.exp(best[0][0].score) == pytest.approx(0.12)
    assert [len(one) for one in search(model, [[1]], beams=2, alpha=0.0, ell_gen=5, n_best=2)] == [2]


def plainly_of(beams: int) -> float:
    """The best log P̂ that beams alone find."""
    running = [(0.0, ())]
    for _ in range(5):
        every = [
            (before + math.log(p), (*x, token)) for before, x in running for token, p in enumerate(TABLE.get(x, [0.25] * 4 + [0] * 3)) if p
        ]
        running = sorted(every, key=lambda one: -one[0])[:beams]
    return running[0][0]


def test_scores_and_order() -> None:
    model = made(3, N_V=11, ell_max=7)
    z = [[1, 2], [3, 4, 5], [6]]
    best = search(model, z, beams=5, n_best=5)
    for one, hypotheses in zip(z, best, strict=True):
        assert [each.score for each in hypotheses] == sorted((each.score for each in hypotheses), reverse=True)
        assert len({tuple(each.ids) for each in hypotheses}) == 5
        for each in hypotheses:
            steps = [*each.ids, *([model.hyper.eos_token] if each.ended else [])]
            log_p = sum(float(log_P(model, one, each.ids[:t])[token]) for t, token in enumerate(steps))
            assert each.log_p == pytest.approx(log_p, abs=PROMISED) and each.score == pytest.approx(log_p / len(steps), abs=PROMISED)
    again = [search(model, [one], beams=5, n_best=5)[0] for one in z]
    assert [[each.ids for each in hypotheses] for hypotheses in again] == [[each.ids for each in hypotheses] for hypotheses in best], (
        "alone as among others"
    )


def test_bad_input() -> None:
    model = made(0)
    for options, message in (
        ({"beams": 0}, "beams: expected 1 or more"),
        ({"beams": 2, "n_best": 3}, "n_best: expected a whole number from 1 to beams = 2"),
        ({"beams": 2, "alpha": float("nan")}, "alpha: expected a number in"),
        ({"beams": 2, "ell_gen": 0}, "ell_gen: expected"),
    ):
        with pytest.raises(ValueError, match=message):
            search(model, [[1]], **options)
    with pytest.raises(ValueError, match="beam search does not sample"):
        predict(model, [[1]], beams=2, tau=1.0)
