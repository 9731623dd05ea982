"""Rows that are asked for are those of all tokens; the last layer's MLP reads no others."""

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from tests.strategies import rng
from transalg.hyper import EHyper, GatoHyper
from transalg.model import ETransformer, Gato, build
from transalg.verify.batches import draw
from transalg.verify.cases import randomised, small

CHANGES: list[dict[str, Any]] = [{}, {"norm_first": False}, {"norm": "batch_norm"}, {"L": 1}, {"parallel": True}]


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: "-".join(map(str, changes.values())) or "default")
@pytest.mark.parametrize("kind", [GatoHyper, EHyper])
def test_the_last_mlp_reads_what_the_loss_looks_at(kind: type, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """In values and gradients; but of batch_norm, whose statistics are of all rows, the MLP reads all."""
    if kind is EHyper and "parallel" in changes:
        pytest.skip("an encoder's sub-layers are not parallel")
    hyper = small(kind, dropout=0.0, **changes)
    model, drawn = randomised(build(hyper, dtype=torch.float64), rng(0)).train(), draw(hyper, rng(1), 5)
    if isinstance(model, Gato):
        assert drawn.mixed is not None
        inputs, where = (drawn.mixed,), drawn.mixed.next_weights() > 0
    else:
        assert isinstance(model, ETransformer)
        inputs, where = (drawn.x, drawn.x_lengths, drawn.segments), torch.rand(drawn.x.shape, generator=rng(2)) < 0.3
    everything, tokens = model.features(*inputs)
    picked = tokens.unpad(where)
    assert 0 < int(picked.sum()) < len(picked)

    unit = type(model.layers[0].mlp)
    seen, compute = [], unit.compute
    monkeypatch.setattr(unit, "compute", lambda self, layer, X, i: seen.append(len(X)) or compute(self, layer, X, i))
    some, _ = model.features(*inputs, where=where)
    last = len(picked) if "norm" in changes else int(picked.sum())
    assert seen == [len(picked)] * (hyper.L - 1) + [last]
    assert_close(some, everything[picked], rtol=0, atol=1e-11)

    weights, parameters = torch.randn(some.shape, generator=rng(5), dtype=some.dtype), list(model.parameters())
    ours, theirs = (torch.autograd.grad((X * weights).sum(), parameters, allow_unused=True) for X in (some, everything[picked]))
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other, rtol=0, atol=1e-10)


def test_where_nothing_is_asked_for_one_row_comes_back() -> None:
    """So that every parameter has a gradient."""
    hyper = small(EHyper)
    model = build(hyper).train()
    assert isinstance(model, ETransformer)
    x = draw(hyper, rng(1), 5).x
    some, tokens = model.features(x, where=torch.zeros_like(x, dtype=torch.bool))
    assert len(some) == 1
    assert_close(some, model.features(x)[0][:1])
    assert model.features(x)[1].unpad(x)[0] == tokens.unpad(x)[0]
