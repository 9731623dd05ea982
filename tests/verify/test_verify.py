"""The tool that verifies can fail, and looks at everything there is."""

from dataclasses import replace

import pytest
import torch

from transalg.hyper import PRESETS, DHyper
from transalg.model import kernels, norm
from transalg.model.cache import Cache
from transalg.verify.batches import draw
from transalg.verify.cases import Case, cases, shrunk, small, verify


def test_every_architecture_and_every_preset_is_looked_at() -> None:
    every = list(cases())
    assert {case.architecture for case in every} == {"DTransformer", "Gato", "ETransformer", "EDTransformer", "Classifier"}
    assert {case.variant for case in every} >= set(PRESETS)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.architecture}-{case.variant}")
def test_every_unit_and_every_preset_equals_the_formal_algorithm_and_keeps_the_laws(case: Case) -> None:
    verdict = verify(case)
    assert verdict.holds, verdict


@pytest.mark.parametrize("case", [case for case in cases() if case.variant in PRESETS], ids=lambda case: case.variant)
def test_presets_keep_their_departures_when_shrunk(case: Case) -> None:
    published = PRESETS[case.variant].hyper.departures()
    shrunken = case.hyper.departures()
    changed = {name for name in published if shrunken.get(name) != published[name]}
    assert changed <= {"band", "d_attn", "d_mid", "d_rot", "H_kv"} and (published.keys() - shrunken.keys()) <= {"d_attn", "d_mid"}
    again = shrunk(case.hyper)
    assert again.departures() == case.hyper.departures()


def test_a_broken_model_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool can fail: an engine whose causal attention sees everything."""
    case = next(cases())
    assert verify(case).holds
    dense = kernels.dense
    monkeypatch.setattr(kernels, "dense", lambda q, k, v, **options: dense(q, k, v, **options | {"causal": False}))
    verdict = verify(case)
    assert not verdict.holds and verdict.of_P > 1e-3 and verdict.laws["cache"] > 1e-3


def test_a_cache_that_mixes_its_rows_up_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(cases())
    monkeypatch.setattr(Cache, "reorder", lambda self, rows: None)
    laws = verify(case).laws
    assert laws["reorder"] > 1e-3 and laws["cache"] < 1e-10


def test_a_gradient_that_is_off_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values may be right where gradients are not."""
    case = next(cases())
    plain = norm.NORMS["layer_norm"]
    off = replace(plain, compute=lambda X, gamma, beta, eps: plain.compute(X, gamma.detach(), beta, eps))
    monkeypatch.setitem(norm.NORMS, "layer_norm", off)
    verdict = verify(case)
    assert verdict.of_P < 1e-10 and verdict.of_gradients > 1e-3 and not verdict.holds


def test_what_is_not_a_number_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(cases())
    monkeypatch.setitem(norm.NORMS, "layer_norm", replace(norm.NORMS["layer_norm"], compute=lambda X, gamma, beta, eps: X * float("nan")))
    assert verify(case).of_P == float("inf")


def test_batches_are_ragged_and_go_to_both_ends() -> None:
    batch = draw(small(DHyper), torch.Generator().manual_seed(1), rows=6)
    assert {1, 7} <= set(batch.x_lengths) and batch.x.shape == (6, 7)
    again = batch.disturbed(-1)
    for row, length in enumerate(batch.x_lengths):
        assert again.x[row, :length].equal(batch.x[row, :length]) and (again.x[row, length:] == -1).all()
