"""Algorithms 11–13 and the classifier's training: what they do beyond their parity with the peers' SGD."""

import pytest
import torch
from torch.testing import assert_close

from tests.strategies import rng
from transalg.formal import (
    DTheta,
    DTraining,
    DTransformer,
    EDTheta,
    EDTraining,
    EDTransformer,
    ETheta,
    ETraining,
    ETransformer,
)
from transalg.formal.classification import ECInference, EClassifier, ECTheta, ECTraining

pytestmark = pytest.mark.slow

D = {"N_V": 11, "ell_max": 7, "H": 2, "d_e": 6, "d_mlp": 13}
MASK, BOS, EOS = 8, 9, 10


def test_training_learns_a_sequence() -> None:
    x = [BOS, 3, 1, 4, 1, 5, EOS]
    theta = DTraining([x], DTheta.init(**D, L=1, generator=rng(0)), 60, 0.1)
    assert DTransformer(x, theta).argmax(dim=0)[:-1].tolist() == x[1:]


def test_training_learns_to_reverse() -> None:
    zs = [[1, 2], [2, 1], [3, 1], [1, 3]]
    xs = [[BOS, *reversed(z), EOS] for z in zs]
    theta = EDTraining(zs, xs, EDTheta.init(**D, L_enc=1, L_dec=1, generator=rng(0)), 60, 0.05)
    for z, x in zip(zs, xs, strict=True):
        assert EDTransformer(z, x, theta).argmax(dim=0)[:-1].tolist() == x[1:]


def test_masked_training_learns_to_fill_in() -> None:
    x = [BOS, 3, 1, 4, 1, 5, EOS]
    theta = ETraining([x], ETheta.init(**D, L=1, d_f=6, generator=rng(0)), 80, 0.1, 0.3, rng(1))
    assert ETransformer([BOS, 3, MASK, 4, 1, 5, EOS], theta)[:, 2].argmax() == 1


def test_classifier_learns_its_classes() -> None:
    xs, cs = [[BOS, 1, 2], [BOS, 2, 1], [BOS, 5], [BOS, 6, 6]], [0, 2, 1, 1]
    theta = ECTraining(xs, cs, ECTheta.init(**D, L=1, d_f=6, N_C=3, generator=rng(0)), 120, 0.05)
    assert [ECInference(x, theta) for x in xs] == cs
    assert_close(EClassifier(xs[0], theta).sum(), torch.tensor(1.0, dtype=torch.float64))


def test_only_the_masked_tokens_are_trained_and_the_special_ones_never() -> None:
    """With p_mask near 1 every ordinary token is masked, bos and eos are not: x̃ is bos mask … mask eos."""
    theta, seen = ETheta.init(**D, L=1, d_f=5, generator=rng(0)), []

    def watch(x: torch.Tensor, theta: ETheta) -> torch.Tensor:
        seen.append(x.tolist())
        return ETransformer(x, theta)

    ETraining([[BOS, 1, 2, EOS]], theta, 1, 0.1, 1 - 1e-12, rng(0), ETransformer=watch)
    assert seen == [[BOS, MASK, MASK, EOS]]


def test_masking_frequency_is_p_mask_and_redrawn_every_epoch() -> None:
    theta, seen = ETheta.init(**D, L=1, d_f=5, generator=rng(0)), []

    def watch(x: torch.Tensor, theta: ETheta) -> torch.Tensor:
        seen.append((x == MASK).tolist())
        return ETransformer(x, theta)

    ETraining([[1, 2, 3, 4, 5, 6, 7]], theta, 60, 1e-9, 0.3, rng(3), ETransformer=watch)
    masked = torch.tensor(seen).double()
    assert len({tuple(row) for row in seen}) > 20
    assert abs(masked.mean() - 0.3) < 4 * (0.3 * 0.7 / masked.numel()) ** 0.5


def test_training_is_repeatable_and_leaves_its_input_alone() -> None:
    theta = ETheta.init(**D, L=1, d_f=5, generator=rng(0))
    before = {name: part.clone() for name, part in theta.named().items()}
    xs = [torch.tensor([BOS, 1, 2, 3, EOS])]
    one, same = (ETraining(xs, theta, 3, 0.1, 0.5, rng(7)) for _ in range(2))
    assert all(a.equal(b) for a, b in zip(one.named().values(), same.named().values(), strict=True))
    assert all(part.equal(before[name]) for name, part in theta.named().items())
    assert xs[0].tolist() == [BOS, 1, 2, 3, EOS]
    assert not one.W_u.equal(theta.W_u)
