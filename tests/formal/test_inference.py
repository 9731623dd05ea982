"""Algorithms 14 and 15 step by step."""

from dataclasses import replace

import torch

from tests.strategies import rng
from transalg.formal import DInference, DTheta, DTransformer, EDInference, EDTheta, EDTransformer
from transalg.formal.notation import sample, tempered

D = {"N_V": 11, "ell_max": 5, "H": 2, "d_e": 6, "d_mlp": 13}
BOS, EOS = 9, 10
theta = DTheta.init(**D, L=2, generator=rng(1))
edtheta = EDTheta.init(**D, L_enc=1, L_dec=2, generator=rng(2))


def test_greedy_continuation_is_the_argmax_of_the_last_column() -> None:
    x = [BOS, 3]
    for y in DInference(x, theta, 3, 0).tolist():
        assert y == DTransformer(x, theta)[:, -1].argmax()
        x.append(y)


def test_sampling_uses_the_generator_and_nothing_else() -> None:
    generator, x = rng(5), [BOS]
    expected = []
    for _ in range(4):
        expected.append(sample(tempered(DTransformer([*x, *expected], theta)[:, -1], 1.3), generator))
    assert DInference(x, theta, 4, 1.3, rng(5)).tolist() == expected
    assert len({tuple(DInference(x, theta, 4, 1.3, rng(seed)).tolist()) for seed in range(5)}) > 1


def test_beyond_ell_max_the_last_ell_max_tokens_count() -> None:
    y = DInference([BOS, 1, 2], theta, 7, 0).tolist()
    x = [BOS, 1, 2, *y]
    assert len(y) == 7
    for i in range(3, len(x)):
        assert x[i] == DTransformer(x[max(0, i - 5) : i], theta)[:, -1].argmax()
    assert DInference([7, 7, 7, BOS, 1, 2, 3, 4], theta, 2, 0).tolist() == DInference([BOS, 1, 2, 3, 4], theta, 2, 0).tolist()


def test_the_empty_prompt_starts_from_bos() -> None:
    assert DInference([], theta, 3, 0).tolist() == DInference([BOS], theta, 3, 0).tolist()


def test_it_may_stop_after_a_token() -> None:
    tokens = DInference([BOS], theta, 12, 1.0, rng(0)).tolist()
    stop = tokens[4]
    cut = DInference([BOS], theta, 12, 1.0, rng(0), stop=stop).tolist()
    assert cut == tokens[: tokens.index(stop) + 1]


def test_seq2seq_prediction_goes_from_bos_to_eos() -> None:
    predictions = [EDInference([1, 2], edtheta, 1.0, rng(seed)).tolist() for seed in range(30)]
    assert all(x[0] == BOS for x in predictions)
    ended = [x for x in predictions if EOS in x]
    assert ended and all(x.index(EOS) == len(x) - 1 for x in ended)
    assert all(len(x) == 1 + 5 for x in predictions if EOS not in x)


def test_seq2seq_prediction_reads_its_context() -> None:
    x = EDInference([1, 2], edtheta, 0).tolist()
    for t in range(1, len(x)):
        assert x[t] == EDTransformer([1, 2], x[:t], edtheta)[:, -1].argmax()
    read = [tuple(EDInference([v], edtheta, 1.0, rng(0)).tolist()) for v in range(8)]
    assert len(set(read)) > 1  # the same random numbers, another context


def test_the_cap_holds_where_eos_never_comes() -> None:
    never = replace(edtheta, W_u=torch.zeros_like(edtheta.W_u))
    assert EDInference([1], never, 0).tolist() == [BOS, 0, 0, 0, 0, 0]
    assert EDInference([1], never, 0, ell_gen=2).tolist() == [BOS, 0, 0]
    assert EDInference([1], never, 0, ell_gen=0).tolist() == [BOS]
