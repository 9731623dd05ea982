"""The minibatch losses are those of Algorithms 11–13: values and gradients; masking is Algorithm 12's, or BERT's."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.func import grad
from torch.testing import assert_close

from tests.parity.compare import assert_same_theta
from tests.strategies import rng
from tests.tolerance import PROMISED
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, SpecialTokens
from transalg.model.counterpart import formal_counterpart
from transalg.tasks.losses import C_loss, D_loss, E_loss, ED_loss
from transalg.tasks.masking import mask, mask_by_row
from transalg.verify.batches import draw
from transalg.verify.cases import MODELS, randomised, small


def setting(kind: type, **departures: Any):
    hyper = small(kind, **departures)
    model = randomised(MODELS[kind](hyper, dtype=torch.float64), rng(0))
    return model, draw(hyper, rng(1), rows=5), formal_counterpart(hyper), model.theta()


def compare(model, ours: torch.Tensor, formal, theta) -> None:
    assert_close(ours.detach(), formal(theta), rtol=0, atol=PROMISED)
    ours.backward()
    assert_same_theta(model.theta_gradient(), grad(formal)(theta))


def next_tokens(P: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Line 5 of Algorithms 11 and 13."""
    return -P[x[1:], torch.arange(len(x) - 1)].log().sum()


def test_algorithm_13() -> None:
    model, batch, DTransformer, theta = setting(DHyper)
    assert 1 in batch.x_lengths  # a row with nothing to predict
    ours = D_loss(model, batch.x, batch.x_lengths, weight=1.0)
    compare(model, ours, lambda theta: sum(next_tokens(DTransformer(row["x"], theta), row["x"]) for row in batch.rows()), theta)


def test_algorithm_11() -> None:
    model, batch, EDTransformer, theta = setting(EDHyper)
    ours = ED_loss(model, batch.z, batch.x, batch.z_lengths, batch.x_lengths, weight=1.0)
    compare(model, ours, lambda theta: sum(next_tokens(EDTransformer(row["z"], row["x"], theta), row["x"]) for row in batch.rows()), theta)


@pytest.mark.parametrize("departures", [{}, {"output_bias": True, "segments": 2}], ids=str)
def test_algorithm_12(departures: dict[str, Any]) -> None:
    model, batch, ETransformer, theta = setting(EHyper, p_mask=0.5, **departures)
    x_tilde, chosen = mask(batch.x, model.hyper, batch.x_lengths, rng(2))
    assert chosen.sum() > 3
    ours = E_loss(model, batch.x, x_tilde, chosen, batch.x_lengths, batch.segments, weight=1.0)

    def formal(theta: Any) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for row, length in enumerate(batch.x_lengths):
            segments = [] if batch.segments is None else [batch.segments[row, :length]]
            P = ETransformer(x_tilde[row, :length], theta, *segments)
            T_tilde = chosen[row, :length].nonzero()[:, 0]
            total = total - P[batch.x[row, T_tilde], T_tilde].log().sum()
        return total

    compare(model, ours, formal, theta)


def test_the_classifier() -> None:
    model, batch, EClassifier, theta = setting(ClassifierHyper)
    c = torch.tensor([0, 3, 1, 2, 3])
    ours = C_loss(model, batch.x, c, batch.x_lengths, weight=1.0)
    compare(model, ours, lambda theta: -sum(EClassifier(row["x"], theta)[c[n]].log() for n, row in enumerate(batch.rows())), theta)


def test_the_mean_unless_a_weight_is_given() -> None:
    model, batch, _, _ = setting(DHyper)
    predicted = sum(batch.x_lengths) - len(batch.x_lengths)
    assert_close(predicted * D_loss(model, batch.x, batch.x_lengths), D_loss(model, batch.x, batch.x_lengths, weight=1.0))
    classes = torch.tensor([0, 1, 2, 3, 0])
    model, batch, _, _ = setting(ClassifierHyper)
    assert_close(5 * C_loss(model, batch.x, classes, batch.x_lengths), C_loss(model, batch.x, classes, batch.x_lengths, weight=1.0))


@pytest.mark.parametrize("kind", [DHyper, EDHyper, ClassifierHyper])
def test_label_smoothing_is_torch_s(kind: type) -> None:
    model, batch, _, _ = setting(kind, label_smoothing=0.3)
    x = batch.x
    if kind is ClassifierHyper:
        c = torch.tensor([0, 3, 1, 2, 3])
        ours, logits, targets = C_loss(model, x, c), model(x), c
    elif kind is DHyper:
        ours, logits, targets = D_loss(model, x), model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()
    else:
        ours, logits, targets = ED_loss(model, batch.z, x), model(batch.z, x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()
    assert_close(ours, F.cross_entropy(logits, targets, label_smoothing=0.3))


def test_a_row_may_be_one_longer_than_the_context() -> None:
    """ℓ_max tokens to read, and the one that follows the last of them."""
    model, _, _, _ = setting(DHyper)
    full = torch.randint(20, (2, model.hyper.ell_max + 1), generator=rng(3))
    assert D_loss(model, full).isfinite()


def test_nothing_to_predict_is_a_loss_of_0() -> None:
    for kind, call in (
        (DHyper, lambda m: D_loss(m, torch.tensor([[1], [2]]))),
        (EDHyper, lambda m: ED_loss(m, torch.tensor([[1]]), torch.tensor([[1]]))),
    ):
        model, _, _, _ = setting(kind)
        loss = call(model)
        loss.backward()
        assert loss == 0 and all((parameter.grad == 0).all() for parameter in model.parameters())
    model, batch, _, _ = setting(EHyper)
    loss = E_loss(model, batch.x, batch.x, torch.zeros_like(batch.x, dtype=torch.bool))
    loss.backward()
    assert loss == 0 and all((parameter.grad == 0).all() for parameter in model.parameters())


# Masking ---------------------------------------------------------------------------------------------------------------

LARGE = EHyper(N_V=103, ell_max=400, L=1, H=1, d_e=2, d_mlp=3, p_mask=0.2)
TEXT = torch.randint(100, (50, 400), generator=rng(0))


def test_masking_as_in_the_paper() -> None:
    x_tilde, chosen = mask(TEXT, LARGE, generator=rng(1))
    assert abs(chosen.double().mean() - 0.2) < 0.01
    assert (x_tilde[chosen] == 100).all() and x_tilde[~chosen].equal(TEXT[~chosen])
    again, _ = mask(TEXT, LARGE, generator=rng(1))
    assert again.equal(x_tilde) and not mask(TEXT, LARGE, generator=rng(2))[0].equal(x_tilde)


def test_masking_as_in_bert() -> None:
    x_tilde, chosen = mask(TEXT, LARGE.replace(mask_split=(0.8, 0.1, 0.1)), generator=rng(1))
    masked, unchanged = x_tilde[chosen] == 100, x_tilde[chosen] == TEXT[chosen]
    assert abs(masked.double().mean() - 0.8) < 0.02
    assert abs(unchanged.double().mean() - 0.1 - 0.1 / 100) < 0.02
    others = x_tilde[chosen][~masked & ~unchanged]
    assert len(others.unique()) > 90 and others.max() < 100
    assert x_tilde[~chosen].equal(TEXT[~chosen])


def test_special_tokens_and_padding_are_never_chosen() -> None:
    x = torch.tensor([[101, 5, 7, 102, 9, 9]] * 400)
    _, chosen = mask(x, LARGE, [4] * 400, rng(0))
    assert chosen[:, 1:3].any(dim=0).all() and not chosen[:, [0, 3, 4, 5]].any()


def test_special_tokens_may_have_any_ids() -> None:
    x = torch.randint(103, (50, 40), generator=rng(0))
    hyper = LARGE.replace(special=SpecialTokens(mask=1, bos=50, eos=None), mask_split=(0.5, 0.5, 0.0), p_mask=0.9)
    x_tilde, chosen = mask(x, hyper, generator=rng(1))
    assert not chosen[(x == 1) | (x == 50)].any() and (x_tilde != 50)[chosen].all()
    others = x_tilde[chosen & (x_tilde != 1)].unique().tolist()
    assert others == [token for token in range(103) if token not in (1, 50)], "every ordinary token can take a chosen token's place"


def test_the_masks_of_a_row_depend_on_its_index_alone() -> None:
    """Not on the rows beside it, nor on its padding."""
    lengths = torch.tensor([9, 31, 17, 40])
    x_tilde, chosen = mask_by_row(TEXT[:4, :40], LARGE, lengths, 0, [5, 6, 7, 8])
    for i, length in enumerate(lengths.tolist()):
        one_tilde, one_chosen = mask_by_row(TEXT[i : i + 1, : length + 3], LARGE, lengths[i : i + 1], 0, [5 + i])
        assert one_tilde[0, :length].equal(x_tilde[i, :length]) and one_chosen[0, :length].equal(chosen[i, :length])
        assert not chosen[i, length:].any()
    same = TEXT[:1, :200].expand(3, -1)
    others = mask_by_row(same, LARGE, torch.tensor([200] * 3), 0, [1, 2, 1])[1]
    assert others[0].equal(others[2]) and not others[0].equal(others[1])
    assert not mask_by_row(same, LARGE, torch.tensor([200] * 3), 1, [1, 2, 1])[1][0].equal(others[0])


@pytest.mark.parametrize(
    ("c", "message"),
    [
        (torch.tensor([0, 1]), r"c: expected a class for each of the 5 rows, got torch.int64 of shape \(2,\)"),
        (torch.zeros(5), r"c: expected a class for each of the 5 rows, got torch.float32"),
        (torch.tensor([0, 1, 2, 3, 4]), r"c: expected classes from 0 to N_C−1 with N_C = 4, got 4"),
    ],
)
def test_classes_that_are_not(c: torch.Tensor, message: str) -> None:
    model, batch, _, _ = setting(ClassifierHyper)
    with pytest.raises(ValueError, match=message):
        C_loss(model, batch.x, c)
