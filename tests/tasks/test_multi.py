"""multi: the loss of a batch is the formal one with each text's block of classes; figures are of each data set."""

from pathlib import Path

import pytest
import torch
from torch.func import grad
from torch.testing import assert_close

from tests.parity.compare import assert_same_theta
from tests.strategies import rng
from tests.tolerance import PROMISED
from tests.training.runs import config, files, options
from transalg.evaluation.measure import evaluate
from transalg.formal.classification import MultiTaskClassifier
from transalg.hyper import ClassifierHyper
from transalg.inference.run import Run
from transalg.model.architectures import Classifier
from transalg.model.counterpart import formal_counterpart
from transalg.runs.config import Config
from transalg.tasks.losses import C_loss
from transalg.tasks.multi import MultiTask
from transalg.tasks.predictions import block_log_probabilities, class_log_probabilities
from transalg.training.start import train
from transalg.verify.batches import draw
from transalg.verify.cases import randomised, small

BLOCKS = (range(2), range(2, 5))
C = torch.tensor([0, 3, 1, 2, 4])
TASK = MultiTask({"a": BLOCKS[0], "b": BLOCKS[1]})


def model_of(seed: int = 0, **departures: object) -> Classifier:
    return randomised(Classifier(small(ClassifierHyper, N_C=5, **departures), dtype=torch.float64), rng(seed))  # type: ignore[arg-type]


@pytest.mark.parametrize("departures", [{}, {"pooling": "mean", "norm_first": True}], ids=str)
def test_the_loss_of_a_batch_is_that_of_its_rows_over_their_blocks(departures: dict[str, object]) -> None:
    model = model_of(**departures)
    batch, formal = draw(model.hyper, rng(1), rows=5), formal_counterpart(model.hyper)

    def loss(theta: object) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for row, c in zip(batch.rows(), C.tolist(), strict=True):
            block = next(block for block in BLOCKS if c in block)
            total = total - MultiTaskClassifier(row["x"], list(block), theta, EClassifier=formal)[c - block.start].log()
        return total

    ours, theta = TASK.loss(model, (batch.x, C, list(batch.x_lengths)), weight=1.0), model.theta()
    assert_close(ours.detach(), loss(theta), rtol=0, atol=PROMISED)
    ours.backward()
    assert_same_theta(model.theta_gradient(), grad(loss)(theta))


def test_a_text_s_loss_does_not_depend_on_other_heads() -> None:
    model = model_of(label_smoothing=0.3)
    batch = draw(model.hyper, rng(1), rows=5)
    before = C_loss(model, batch.x[:1], C[:1], blocks=BLOCKS)
    before.backward()
    assert model.W_c.grad[:2].all() and not model.W_c.grad[2:].any() and not model.b_c.grad[2:].any()
    with torch.no_grad():
        model.W_c[2:] += 7
    assert C_loss(model, batch.x[:1], C[:1], blocks=BLOCKS).equal(before)
    assert not C_loss(model, batch.x[:1], C[:1]).equal(before)


def test_the_probabilities_of_an_ensemble_are_means_within_a_block() -> None:
    models = [model_of(0), model_of(1)]
    batch = draw(models[0].hyper, rng(2), rows=5)
    log_P = block_log_probabilities(models, batch.x, C, BLOCKS, batch.x_lengths)
    for block in BLOCKS:
        rows = torch.tensor([c in block for c in C.tolist()])
        alone = [class_log_probabilities([model], batch.x, batch.x_lengths, block).exp() for model in models]
        assert_close(log_P[rows][:, list(block)].exp(), torch.stack(alone).mean(dim=0)[rows])
        assert_close(class_log_probabilities(models, batch.x, batch.x_lengths, block).exp(), torch.stack(alone).mean(dim=0))
        assert (log_P[rows].exp().sum(dim=1) - 1).abs().max() < 1e-12


def test_figures_are_means_over_the_data_sets() -> None:
    """Four texts of a, all right; one of b, wrong: the mean is not that of the five."""
    figures = TASK.mean_figures([2.0, 4.0, 4.0, 3.0, 0.0, 1.0], 5)
    assert figures == {"val_loss": (0.5 + 3) / 2, "val_accuracy": 0.5, "val_accuracy_a": 1.0, "val_accuracy_b": 0.0}
    assert TASK.mean_figures([2.0, 3.0, 4.0, 0.0, 0.0, 0.0], 4) == {"val_loss": 0.5, "val_accuracy": 0.75, "val_accuracy_a": 0.75}


def test_a_run(tmp_path: Path) -> None:
    outcome = train(config("multi", files(tmp_path)), tmp_path / "run")
    run = Run.load(tmp_path / "run")
    assert run.labels == ("animals/dog", "animals/none", "labels/cat", "labels/other") and run.config.weights == (1.0, 1.0)
    figures = evaluate(run).figures
    assert figures["loss"] == pytest.approx(outcome.figures["val_loss"], rel=1e-5)
    for name in run.heads:
        assert figures[f"accuracy of {name}"] == outcome.figures[f"val_accuracy_{name}"] == evaluate(run, head=name).figures["accuracy"]
    assert set(run.classify("a cat", head="labels").P) == {"cat", "other"}
    assert sum(run.classify("a cat", head="animals").P.values()) == pytest.approx(1)


def test_another_classifier_starts_with_the_encoder_and_headless(tmp_path: Path) -> None:
    """Though here it has as many classes."""
    train(config("multi", files(tmp_path), steps=1), tmp_path / "run")
    (tmp_path / "four.txt").write_text("".join(f"{i % 4}\ta cat {i}\n" for i in range(12)))
    start = Run.load(tmp_path / "run").model.state_dict()
    chosen = options("classify", tmp_path, steps=1, eta=1e-9) | {"data": str(tmp_path / "four.txt"), "init": str(tmp_path / "run")}
    del chosen["tokenizer"]
    train(Config.from_dict(chosen), tmp_path / "next")
    then = Run.load(tmp_path / "next").model.state_dict()
    assert then["W_c"].shape == start["W_c"].shape and not torch.allclose(then["W_c"], start["W_c"], atol=1e-3)
    assert_close(then["W_f"], start["W_f"], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [1.0]}, r"--weights: expected 2, one for each data set \(labels, animals\), got 1"),
        ({"weights": [1.0, 0.0]}, "--weights: expected numbers more than 0, got 0 for animals"),
        ({"weights": ["x", 1]}, "weights: expected numbers, got 'x'"),
        ({"weights": 1.0}, r"weights: expected a list of numbers, got 1.0"),
        ({"data": ["a/b.csv", "c/b.tsv"]}, "--data: expected data sets of different names, got b twice, a/b.csv and c/b.tsv; rename one"),
        ({"valid": "x.csv"}, r"--valid: expected 2, one for each data set \(labels, animals\), got 1"),
        ({"task": "classify"}, "--data: expected one for classify, got 2; several are for multi"),
        ({"task": "lm", "data": "x", "weights": [1.0]}, "--weights: for multi and gato, which learns several data sets; got lm"),
        ({"data": []}, "data: expected names, got none"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config.from_dict(options("multi", tmp_path) | {"split": 0.25} | change)


def test_a_data_set_has_two_classes(tmp_path: Path) -> None:
    files(tmp_path)
    (tmp_path / "animals.txt").write_text("one\ta cat\n" * 8)
    with pytest.raises(ValueError, match="animals: expected texts of at least 2 classes, got one, 'one'"):
        train(config("multi", tmp_path), tmp_path / "run")
