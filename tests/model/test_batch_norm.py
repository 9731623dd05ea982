"""batch_norm: over all tokens of a batch in training, with running statistics otherwise."""

import copy
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from tests.model.models import KINDS, inputs_of
from tests.strategies import rng
from tests.tolerance import PROMISED
from transalg.formal.norm import batch_statistics
from transalg.hyper import DHyper, EDHyper, EHyper, Hyper, cost
from transalg.model import DTransformer, build
from transalg.model.norm import MOMENTUM, NORMS
from transalg.model.sharding import shard
from transalg.runs import checkpoints
from transalg.runs.metadata import Metadata
from transalg.tasks.losses import D_loss, E_loss
from transalg.verify.batches import draw
from transalg.verify.cases import randomised, small
from transalg.verify.laws import errors

exactly = {"rtol": 0, "atol": PROMISED}


def make(kind: type[Hyper], **departures: object):
    return randomised(build(small(kind, norm="batch_norm", **departures), dtype=torch.float64), rng(0))


@pytest.mark.parametrize("departures", [{}, {"norm_first": True}, {"norm_first": False, "tied": False}], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_in_training_it_is_the_formal_algorithm_in_training(kind: type[Hyper], departures: dict) -> None:
    """Values and gradients, through m and v as well, of each row by itself."""
    model = make(kind, **departures).train()
    batch = draw(model.hyper, rng(1))
    for row in range(len(batch.x)):
        if batch.x_lengths[row] > 1:  # the variance of one token is 0
            assert max(errors(model, batch.select([row]), rng(2))) <= PROMISED


def test_an_embedding_s_norm_too() -> None:
    model = make(EHyper, embedding_norm=True, segments=3, output_bias=True).train()
    batch = draw(model.hyper, rng(1))
    assert max(errors(model, batch.select([batch.x_lengths.index(max(batch.x_lengths))]), rng(2))) <= PROMISED


def test_statistics_are_those_of_all_tokens_and_of_no_padding() -> None:
    """The first norm of a decoder takes the embeddings: of 3 + 5 tokens, of which no other number matters."""
    model = make(DHyper).train()
    ids = torch.randint(20, (2, 5), generator=rng(1))
    layer = model.layers[0]
    before = layer.m1.clone(), layer.v1.clone()
    model(ids, [3, 5])
    X = torch.cat([model.W_e[ids[row, :count]] + model.W_p[:count] for row, count in enumerate((3, 5))])
    assert_close((layer.m1, layer.v1), batch_statistics(X.detach().T, *before, MOMENTUM), **exactly)
    moved = layer.m1.clone()
    model.eval()(ids)
    model.train().decode(ids, model.cache(2))
    assert layer.m1.equal(moved), "only training moves them"


def test_activation_checkpointing_counts_a_batch_once() -> None:
    one, other = make(DHyper), make(DHyper)
    other.checkpointing = True
    ids = torch.randint(20, (2, 5), generator=rng(1))
    for model in (one, other):
        D_loss(model.train(), ids).backward()
    assert_close(dict(one.named_buffers()), dict(other.named_buffers()), **exactly)
    assert_close([part.grad for part in one.parameters()], [part.grad for part in other.parameters()], **exactly)


def test_a_head_s_norm_takes_all_tokens_though_some_are_predicted() -> None:
    model = make(EHyper).train()
    x = torch.randint(20, (2, 5), generator=rng(1))
    chosen = torch.zeros(2, 5, dtype=torch.bool)
    chosen[0, 2] = chosen[1, 4] = True
    expected = -model(x).log_softmax(-1)[chosen].gather(1, x[chosen][:, None]).sum()
    assert_close(E_loss(model, x, x, chosen, weight=1.0), expected, **exactly)


@pytest.mark.parametrize("kind", [DHyper, EDHyper])
def test_decoding_in_training_mode_takes_running_statistics(kind: type[Hyper]) -> None:
    model = make(kind).eval()
    ids = torch.randint(20, (2, 5), generator=rng(1))
    expected = model(*[ids] * (2 if kind is EDHyper else 1)).detach()
    model.train()
    assert_close(model.decode(ids, model.cache(ids) if kind is EDHyper else model.cache(2)), expected, **exactly)
    assert model.training


def test_statistics_are_saved_and_no_optimiser_has_them(tmp_path: Path) -> None:
    model = make(DHyper)
    assert not {name for name, _ in model.named_parameters()} & {name for name, _ in model.named_buffers()}
    assert cost.parameters(model.hyper) == cost.parameters(model.hyper.replace(norm="layer_norm"))
    tensors = checkpoints.state(model, [])
    checkpoints.save(tmp_path / "last.safetensors", tensors, Metadata(task="lm", hyper=model.hyper))
    other = build(model.hyper, dtype=torch.float64)
    checkpoints.restore(other, [], checkpoints.load(tmp_path / "last.safetensors")[0], tmp_path / "last.safetensors")
    ids = inputs_of(model.hyper)
    assert other.eval()(*ids).equal(model.eval()(*ids))
    again = DTransformer.from_theta(model.theta(), model.hyper)
    assert all(ours.equal(theirs) for ours, theirs in zip(model.buffers(), again.buffers(), strict=True))


def test_they_start_at_0_and_1_on_every_device() -> None:
    model = DTransformer(small(DHyper, norm="batch_norm"), device="meta").to_empty(device="cpu")
    model.reset_parameters(rng(0))
    assert not model.layers[0].m1.any() and (model.v == 1).all()
    assert copy.deepcopy(model).half().v.dtype == torch.float16


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="shared: expected 1 with norm=batch_norm, whose running statistics are those of one layer, got 2"):
        small(DHyper, norm="batch_norm", shared=2)
    with pytest.raises(
        ValueError, match="norm: expected one without running statistics for a sharded model, layer_norm or RMSnorm, got batch"
    ):
        shard(make(DHyper))
    theta = make(DHyper).theta()
    with pytest.raises(ValueError, match="theta: expected no running statistics, for norm=layer_norm, got some"):
        DTransformer.from_theta(theta)
    plain = build(small(DHyper), dtype=torch.float64).theta()
    with pytest.raises(ValueError, match=r"theta: expected running statistics of .*gamma.*, for norm=batch_norm, got none"):
        DTransformer.from_theta(plain, norm="batch_norm")
    assert [name for name, norm in NORMS.items() if norm.over_tokens] == ["batch_norm"]
