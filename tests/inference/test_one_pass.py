"""Masks, classes, embeddings and log-probabilities against the formal algorithms."""

import pytest
import torch

from tests.strategies import rng
from tests.tolerance import PROMISED, tolerance
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper
from transalg.inference.beams import search
from transalg.inference.decoding import continuations
from transalg.inference.one_pass import OF_ONE_LENGTH, TOKENS, WORTH, classify, embed, fill, passes, score
from transalg.inference.samplers import sampler_chain
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer
from transalg.model.counterpart import formal_counterpart
from transalg.verify.cases import randomised, small

KINDS = {
    "lm": (DTransformer, DHyper),
    "mlm": (ETransformer, EHyper),
    "seq2seq": (EDTransformer, EDHyper),
    "classify": (Classifier, ClassifierHyper),
}


def made(task: str, seed: int = 0, **sizes: int):
    model, hyper = KINDS[task]
    return randomised(model(small(hyper, **{"ell_max": 13} | sizes), dtype=torch.float64), rng(seed)).eval()


def formal(model, *sequences: list[int]) -> torch.Tensor:
    return formal_counterpart(model.hyper)(*map(torch.tensor, sequences), model.theta())


def test_every_mask_is_filled_as_algorithm_9_has_it() -> None:
    models = [made("mlm", seed) for seed in (0, 1)]
    mask, bos, eos = models[0].hyper.mask_token, models[0].hyper.bos_token, models[0].hyper.eos_token
    rows = [[bos, 3, mask, 5, mask, eos], [bos, mask, eos], [bos, 2, eos], [bos, 7, 7, 7, 7, 1, mask, eos]]
    for chosen in (models[:1], models):
        for row, filled in zip(rows, fill(chosen, rows, 4), strict=True):
            P = torch.stack([formal(model, row) for model in chosen]).mean(dim=0)
            places = [t for t, token in enumerate(row) if token == mask]
            assert len(filled) == len(places)
            for t, best in zip(places, filled, strict=True):
                expected = P[:, t].topk(4)
                assert [token for token, _ in best] == expected.indices.tolist()
                assert [p for _, p in best] == pytest.approx(expected.values.tolist(), abs=PROMISED)


@torch.no_grad()
def test_weights_that_are_too_large_to_compute_with_give_no_answer() -> None:
    """Each is a number; their sums are not."""
    models = {task: made(task) for task in KINDS}
    for model in models.values():
        for part in model.parameters():
            part.fill_(1.5e308)
    mask = models["mlm"].hyper.mask_token
    for compute in (
        lambda: fill([models["mlm"]], [[1, mask, 2]], 3),
        lambda: classify([models["classify"]], [[1, 4]]),
        lambda: embed(models["lm"], [[1, 4]]),
        lambda: score([models["lm"]], [[1, 4, 2]]),
        lambda: score([models["mlm"]], [[1, 4, 2]]),
        lambda: continuations(models["lm"], [[1]], sampler_chain(), ell_gen=2),
        lambda: continuations(models["lm"], [[1]], sampler_chain(0), ell_gen=2),
        lambda: search([models["seq2seq"]], [[1, 4]], beams=2, ell_gen=3),
    ):
        with pytest.raises(ValueError, match="the model computes NaN: numbers in it are too large"):
            compute()


def test_classes() -> None:
    models = [made("classify", seed) for seed in (0, 1)]
    bos = models[0].hyper.bos_token
    rows = [[bos, 1, 4], [bos], [bos, 9, 2, 6, 5]]
    for chosen in (models[:1], models):
        expected = torch.stack([torch.stack([formal(model, row) for model in chosen]).mean(dim=0) for row in rows])
        torch.testing.assert_close(classify(chosen, rows), expected, rtol=0, atol=PROMISED)


def test_many_rows_are_embedded_as_few_are() -> None:
    """With packed weights, each row once, however often it occurs."""
    model = randomised(ETransformer(small(EHyper, ell_max=13), dtype=torch.float32), rng(0)).eval()
    few = [[1, 2, 3], [4, 5], [6, 7, 8, 9, 10, 2]]
    many, counted = few * WORTH + [[3, i % 11, i % 7, i % 5] for i in range(2 * WORTH)], list[int]()
    vectors = embed(model, many, progress=counted.append)
    assert sum(counted) == len(many) == len(vectors)
    expected = torch.cat([embed(model, few), embed(model, many[-5:])])
    torch.testing.assert_close(torch.cat([vectors[:3], vectors[-5:]]), expected, rtol=0, atol=tolerance(torch.float32, terms=99))


def test_passes_have_every_row_once_and_one_length_where_there_are_many() -> None:
    rows = [[0] * length for length in (*[3] * 400, *range(1, 30), TOKENS + 1, *[7] * 900)]
    made = list(passes(rows))
    assert sorted(i for some in made for i in some) == list(range(len(rows)))
    for some in made:
        lengths = [len(rows[i]) for i in some]
        assert lengths == sorted(lengths) and (sum(lengths) <= TOKENS or len(some) == 1)
        assert sum(length for length in lengths if length < lengths[-1]) < OF_ONE_LENGTH
    assert not list(passes([]))


@pytest.mark.parametrize("task", KINDS)
def test_embeddings_do_not_depend_on_the_batch(task: str) -> None:
    model = made(task)
    rows = [[3, 1, 4], [1], [5, 9, 2, 6, 5, 3], [2, 7]]
    with torch.no_grad():
        alone = [(model.features(torch.tensor([row])) if task == "lm" else model.encode(torch.tensor([row])))[0].float() for row in rows]
    torch.testing.assert_close(
        embed(model, rows), torch.stack([X.mean(dim=0) for X in alone]), rtol=0, atol=tolerance(torch.float32, terms=6)
    )
    torch.testing.assert_close(
        embed(model, rows, "first"), torch.stack([X[0] for X in alone]), rtol=0, atol=tolerance(torch.float32, terms=6)
    )
    with pytest.raises(ValueError, match="pooling: expected mean, first or max"):
        embed(model, rows, "last")


def test_scores_of_a_language_model_and_of_pairs() -> None:
    decoders, pairs = [made("lm", seed) for seed in (0, 1)], made("seq2seq")
    rows, z = [[3, 1, 4], [1, 1], [5, 9, 2, 6, 5, 3]], [[2], [7, 1, 8], [2, 8]]
    for row, x, of_text, of_pair in zip(rows, z, score(decoders, rows), score([pairs], rows, z), strict=True):
        P = torch.stack([formal(model, row) for model in decoders]).mean(dim=0)
        assert of_text == pytest.approx([float(P[row[t + 1], t].log()) for t in range(len(row) - 1)], abs=PROMISED)
        P = formal(pairs, x, row)
        assert of_pair == pytest.approx([float(P[row[t + 1], t].log()) for t in range(len(row) - 1)], abs=PROMISED)


def test_scores_beyond_ell_max_have_half_of_it_as_context() -> None:
    model = made("lm", ell_max=6)
    row = torch.randint(20, (23,), generator=rng(0)).tolist()
    (log_p,) = score([model], [row])
    for t in range(1, 23):
        possible = [float(formal(model, row[first:t])[row[t], -1].log()) for first in range(max(0, t - 6), max(0, t - 3) + 1)]
        assert min(abs(log_p[t - 1] - one) for one in possible) < PROMISED, t
    assert log_p[:6] == pytest.approx([float(formal(model, row[:t])[row[t], -1].log()) for t in range(1, 7)], abs=PROMISED)


def test_an_encoder_scores_each_token_given_all_others() -> None:
    model = made("mlm")
    mask, row = model.hyper.mask_token, [model.hyper.bos_token, 3, 1, 4, 1, model.hyper.eos_token]
    expected = [float(formal(model, [*row[:t], mask, *row[t + 1 :]])[row[t], t].log()) for t in range(1, 5)]
    assert score([model], [row])[0] == pytest.approx(expected, abs=PROMISED)
