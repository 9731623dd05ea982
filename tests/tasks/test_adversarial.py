"""Adversarial training for batches is the formal one, row by row."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch.func import grad_and_value
from torch.testing import assert_close

from tests.model.models import UNITS
from tests.strategies import rng
from tests.tolerance import PROMISED
from tests.training.runs import config, files
from transalg.formal.adversarial import adversarial_loss as formal_loss
from transalg.formal.adversarial import moved
from transalg.hyper import ClassifierHyper, Hyper
from transalg.model import build
from transalg.model.counterpart import formal_counterpart
from transalg.tasks import find
from transalg.tasks.losses import Objective
from transalg.verify.batches import draw
from transalg.verify.cases import randomised, small

CLASSIFIERS = {name: hyper for name, hyper in UNITS.items() if isinstance(hyper, ClassifierHyper) and not hyper.segments}
exactly = {"rtol": 0, "atol": PROMISED}


@pytest.mark.parametrize("hyper", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_a_batch_has_the_loss_and_the_gradient_of_its_rows(hyper: Hyper) -> None:
    model = randomised(build(hyper, dtype=torch.float64), rng(0)).eval()
    batch, c = draw(hyper, rng(1)), torch.tensor([0, 3, 1, 2, 2])
    loss = Objective(find("classify"), model, adversarial=0.7)(batch.x, c, list(batch.x_lengths), weight=1.0)
    loss.backward()
    counterpart = formal_counterpart(hyper)
    EClassifier = partial(counterpart.function, **counterpart.components)

    def formal(theta):
        acting = counterpart.acting(theta)  # so that a W_p which is not learned moves as well
        rows = zip(batch.rows(), c.tolist(), strict=True)
        return sum(formal_loss(row["x"], one, acting, 0.7, EClassifier=EClassifier, moved=moved) for row, one in rows)

    gradient, expected = grad_and_value(formal)(model.theta())
    assert_close(loss.detach(), expected, **exactly)
    assert_close(model.theta_gradient().named(), gradient.named(), **exactly)


def test_padding_and_activation_checkpointing_change_nothing() -> None:
    model = randomised(build(small(ClassifierHyper), dtype=torch.float64), rng(0)).train()
    batch, c = draw(model.hyper, rng(1)), torch.tensor([0, 3, 1, 2, 2])
    losses, gradients = [], []
    for x, checkpointing in ((batch.x, False), (batch.disturbed(-1).x, False), (batch.x, True)):
        model.checkpointing = checkpointing
        model.zero_grad()
        loss = Objective(find("classify"), model, adversarial=0.7)(x, c, list(batch.x_lengths))
        loss.backward()
        losses.append(loss.detach())
        gradients.append([part.grad.clone() for part in model.parameters()])
    assert_close(losses[1:], losses[:1] * 2, **exactly)
    assert_close(gradients[1:], gradients[:1] * 2, **exactly)
    assert model.move is None


def test_a_run_trains_with_it(tmp_path: Path) -> None:
    from transalg.training.start import train

    files(tmp_path)
    outcomes = [train(config("classify", tmp_path, adversarial=epsilon), tmp_path / str(epsilon)) for epsilon in (0.0, 0.5)]
    assert outcomes[0].figures != outcomes[1].figures


def test_for_classifiers_only(tmp_path: Path) -> None:
    files(tmp_path)
    with pytest.raises(ValueError, match=r"--train.adversarial: for classify and multi; got lm"):
        config("lm", tmp_path, adversarial=0.5)
    for name in ("shard", "compile"):
        with pytest.raises(ValueError, match=rf"--train.{name}: expected no --train.adversarial, which takes a gradient .*, got both"):
            config("classify", tmp_path, adversarial=0.5, **{name: True})
    with pytest.raises(ValueError, match=r"train.adversarial: expected a number in \[0, 1000\], got -1"):
        config("classify", tmp_path, adversarial=-1.0)
