"""Special tokens: by default the paper's last three, or the IDs that θ brings, or none."""

from dataclasses import replace

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.strategies import D, rng
from transalg.formal import DInference, DTheta, DTraining, DTransformer, EDInference, EDTheta, ETheta, ETraining, ETransformer
from transalg.formal.classification import ECTheta
from transalg.formal.theta import TransformerTheta

MASK, BOS, EOS = 0, 4, 2  # neither last nor in the paper's order
OWN = (MASK, BOS, EOS)
etheta = ETheta.init(**D, L=1, d_f=5, generator=rng(0), special=OWN)


def ids(theta: TransformerTheta) -> tuple[int, int, int]:
    return theta.mask_token, theta.bos_token, theta.eos_token


def test_the_papers_are_the_last_three() -> None:
    assert ids(DTheta.init(**D, L=1)) == (8, 9, 10)
    assert DTheta.init(**D, L=1).special_tokens == {"mask_token": 8, "bos_token": 9, "eos_token": 10}


def test_they_go_where_theta_goes() -> None:
    """Through every operation on θ: they are no parameters, and no operation changes them."""
    theta = etheta
    flat, spec = pytree.tree_flatten(theta)
    for other in (
        theta - 0.5 * theta + theta,
        theta.to(torch.float32),
        replace(theta, W_u=2 * theta.W_u),
        pytree.tree_map(torch.clone, theta),
        pytree.tree_unflatten(flat, spec),
        torch.func.grad(lambda theta: ETransformer([1], theta)[0, 0])(theta),
        ETheta.from_named(theta.named(), special=OWN),
        ETraining([[BOS, 1, EOS]], theta, 1, 0.1, 0.5, rng(0)),
        ECTheta.from_encoder(theta, 3),
    ):
        assert ids(other) == OWN
    assert len(flat) == len(theta.named()) and "special" not in theta.sizes()
    assert ids(ETheta.from_named(theta.named())) == (8, 9, 10)
    assert pytree.tree_structure(theta) != pytree.tree_structure(replace(theta, special=None))


def test_they_change_no_probability() -> None:
    assert ETransformer([1, 2], etheta).equal(ETransformer([1, 2], replace(etheta, special=None)))


def test_masking_leaves_exactly_the_special_ones() -> None:
    """With p_mask near 1: ordinary tokens above mask_token are masked, special ones wherever they are are not."""
    seen: list[list[int]] = []

    def watch(x: torch.Tensor, theta: ETheta) -> torch.Tensor:
        seen.append(x.tolist())
        return ETransformer(x, theta)

    ETraining([[BOS, 1, 3, 9, 10, EOS]], etheta, 1, 0.1, 1 - 1e-12, rng(0), ETransformer=watch)
    assert seen == [[BOS, MASK, MASK, MASK, MASK, EOS]]
    with pytest.raises(ValueError, match="x_1: expected no mask_token = 0 in the data, got one at index 1"):
        ETraining([[BOS, MASK]], etheta, 1, 0.1, 0.5)


def test_prediction_starts_and_stops_with_them() -> None:
    theta = EDTheta.init(**D, L_enc=1, L_dec=1, generator=rng(2), special=OWN)
    predictions = [EDInference([1, 3], theta, 1.0, rng(seed)).tolist() for seed in range(30)]
    assert all(x[0] == BOS for x in predictions)
    ended = [x for x in predictions if EOS in x]
    assert ended and all(x.index(EOS) == len(x) - 1 for x in ended)
    decoder = DTheta.init(**D, L=1, generator=rng(0), special=OWN)
    assert DInference([], decoder, 3, 0).tolist() == DInference([BOS], decoder, 3, 0).tolist()
    with pytest.raises(ValueError, match="x_1: expected bos_token = 4 first, got 9"):
        DTraining([[9, 1]], decoder, 1, 0.1)


@pytest.mark.parametrize(
    ("missing", "needs"),
    [
        ("mask_token", lambda theta: ETraining([[1, 2]], theta["E"], 1, 0.1, 0.5)),
        ("bos_token", lambda theta: DTraining([[1, 2]], theta["D"], 1, 0.1)),
        ("bos_token", lambda theta: DInference([], theta["D"], 1, 0)),
        ("bos_token", lambda theta: EDInference([1], theta["ED"], 0)),
        ("eos_token", lambda theta: EDInference([1], theta["ED"], 0)),
    ],
)
def test_a_missing_one_is_said_where_it_is_needed(missing: str, needs) -> None:
    special = tuple(None if name == missing else v for name, v in zip(("mask_token", "bos_token", "eos_token"), OWN, strict=True))
    theta = {
        "E": ETheta.init(**D, L=1, d_f=5, special=special),
        "D": DTheta.init(**D, L=1, special=special),
        "ED": EDTheta.init(**D, L_enc=1, L_dec=1, special=special),
    }
    with pytest.raises(ValueError, match=f"{missing}: expected one in the vocabulary of θ, got none: special = "):
        needs(theta)
    assert DTransformer([1, 2], theta["D"]).shape == (11, 2), "a transformer needs none"
    assert missing not in theta["D"].special_tokens


@pytest.mark.parametrize("special", [(0, 1), (0, 1, 11), (-1, 0, 1), (0, 1, "eos")])
def test_refused(special) -> None:
    with pytest.raises(ValueError, match="special: expected three token IDs below N_V = 11, or None for one that is missing, got"):
        DTheta.init(**D, L=1, special=special)
