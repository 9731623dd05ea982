"""The models are ordinary modules: they compile, train, save, load, shard, and live on any device in any precision."""

import copy
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

import transalg
from tests.model.compiling import ONE_GRAPH
from tests.model.models import KINDS, RICH, UNITS, inputs, inputs_of, make
from tests.strategies import rng
from tests.unchecked import in_a_process_without_checks
from transalg.hyper import PRESETS, DHyper, EDHyper, Hyper
from transalg.model import MODELS, DTransformer, EDTransformer, build, log_loss
from transalg.model.sharding import shard
from transalg.verify.cases import randomised, shrunk, small


def test_they_are_where_users_look_for_them() -> None:
    for name in ("DTransformer", "ETransformer", "EDTransformer", "Classifier"):
        assert getattr(transalg, name).__module__ == "transalg.model.architectures" and name in dir(transalg)
    with pytest.raises(AttributeError, match="no attribute 'RTransformer'"):
        _ = transalg.RTransformer


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_carry_the_paper_s_names(kind: type) -> None:
    paper = {"W_e", "W_p", "W_s", "W_u", "W_f", "W_c", "W_qkv", "W_kv", "W_q", "W_o", "W_r", "u", "w"} | {f"W_mlp{i}" for i in range(1, 5)}
    paper |= {name.replace("W_", "b_") for name in paper} | {
        f"{norm}{i}" for norm in ("gamma", "beta") for i in ("", "_e", "_enc", "_dec", 1, 2, 3, 4, 5)
    }
    assert {name.rpartition(".")[2] for name, _ in make(kind).named_parameters()} <= paper


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimiser_lowers_the_loss(kind: type) -> None:
    model = make(kind).train()
    ids = inputs(kind)
    target = torch.zeros(model(*ids).shape[:-1], dtype=torch.long)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        loss = F.cross_entropy(model(*ids).flatten(0, -2), target.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_goes_through_a_file(kind: type, tmp_path) -> None:
    model, other = make(kind), MODELS[kind](small(kind, **RICH[kind]), generator=rng(9)).eval()
    ids = inputs(kind)
    assert not model(*ids).equal(other(*ids))
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert model(*ids).equal(other(*ids))


@pytest.mark.parametrize("kind", KINDS)
def test_from_the_meta_device_to_a_real_one(kind: type) -> None:
    model = make(kind)
    empty = MODELS[kind](model.hyper, device="meta").eval()
    assert all(parameter.is_meta for parameter in empty.parameters())
    ids = inputs(kind)
    assert empty(*(each.to("meta") for each in ids)).shape == model(*ids).shape
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(model.state_dict())
    assert filled(*ids).equal(model(*ids))
    fresh = MODELS[kind](model.hyper, device="meta").to_empty(device="cpu").eval()
    fresh.reset_parameters(rng(0))
    assert fresh(*ids).equal(model(*ids))


@pytest.mark.parametrize("hyper", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_precisions(hyper: Hyper, dtype: torch.dtype) -> None:
    precise = build(hyper, generator=rng(0), dtype=torch.float64).eval()
    model = copy.deepcopy(precise).to(dtype)
    ids = inputs_of(hyper, full=False)
    logits = model(*ids)
    assert logits.dtype == dtype and logits.isfinite().all()
    assert_close(logits.double(), precise(*ids), rtol=0, atol={torch.float64: 0, torch.float32: 1e-4, torch.bfloat16: 0.3}[dtype])


def test_autocast() -> None:
    model = make(DHyper)
    ids = inputs(DHyper)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(*ids)
    assert logits.dtype == torch.bfloat16 and not logits.float().equal(model(*ids))
    assert_close(logits.float(), model(*ids), rtol=0, atol=0.3)


def test_weights_start_as_hyper_says() -> None:
    sizes = {"N_V": 401, "ell_max": 13, "L": 8, "H": 4, "d_e": 64, "d_mlp": 256}
    plain = DTransformer(DHyper(**sizes), generator=rng(0))
    gpt2 = DTransformer(DHyper(**sizes, init_std=0.02, init_residual=True), generator=rng(0))
    for model, expected in (
        (plain, {"W_e": 1 / 8, "W_qkv": 1 / 8, "W_o": 1 / 8, "W_mlp2": 1 / 16}),
        (gpt2, {"W_e": 0.02, "W_qkv": 0.02, "W_o": 0.005, "W_mlp2": 0.005}),
    ):
        for name, parameter in model.named_parameters():
            symbol = name.rpartition(".")[2]
            if symbol in expected:
                assert parameter.std().item() == pytest.approx(expected[symbol], rel=0.1), name
            elif symbol.startswith("gamma"):
                assert (parameter == 1).all()
            elif symbol.startswith(("b_", "beta")):
                assert (parameter == 0).all()
    del sizes["L"]
    pair = EDTransformer(EDHyper(**sizes, L_enc=2, L_dec=3, init_std=1.0, init_residual=True), generator=rng(0))
    assert pair.enc[0].W.W_o.std().item() == pytest.approx(1 / 2, rel=0.05)
    assert pair.dec[0].W_ed.W_o.std().item() == pytest.approx(1 / 3, rel=0.05)
    assert pair.dec[2].W_mlp4.std().item() == pytest.approx(1 / 3, rel=0.05)


def test_the_same_seed_gives_the_same_model() -> None:
    one, other = (DTransformer(small(DHyper), generator=rng(3)) for _ in range(2))
    assert all(a.equal(b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_model_says_what_it_is() -> None:
    assert "N_V=23, ell_max=37" in repr(make(DHyper)) and "tied=True, band=3" in repr(make(DHyper))


@pytest.mark.slow
def test_they_compile_and_export() -> None:
    """The tests of `compiling.py`, in a process without the run-time check of shapes, which torch's compiler cannot look into."""
    in_a_process_without_checks(Path(__file__).with_name("compiling.py"), passed=len(ONE_GRAPH) + len(KINDS) + 2)


def test_fake_tensors_have_shapes_and_no_values_to_look_at() -> None:
    with FakeTensorMode():
        model = DTransformer(small(DHyper))
        assert model(torch.zeros(2, 5, dtype=torch.long)).shape == (2, 5, 23)


# Many processes, seen from one -----------------------------------------------------------------------------------------


@pytest.fixture
def process_group() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", store=dist.FileStore(os.path.join(folder, "store"), 1), rank=0, world_size=1)
        yield
        dist.destroy_process_group()


@pytest.mark.parametrize("kind", KINDS)
def test_distributed_data_parallel(kind: type, process_group: None) -> None:
    model = make(kind, dtype=torch.float64)
    plain = copy.deepcopy(model)
    ids = inputs(kind, full=False)
    wrapped = DistributedDataParallel(model)
    wrapped(*ids).square().sum().backward()
    plain(*ids).square().sum().backward()
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None), name
        if theirs.grad is not None:
            assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("kind", [*KINDS, "smollm2-135m", "mistral-7b", "qwen3-0.6b", "gemma-2b", "pythia-70m"])
def test_fully_sharded(kind: type | str, process_group: None) -> None:
    if isinstance(kind, str):
        model = randomised(build(shrunk(PRESETS[kind].hyper), dtype=torch.float64), rng(0)).eval()
        ids = inputs_of(model.hyper, full=False)
    else:
        model, ids = make(kind, dtype=torch.float64), inputs(kind, full=False)
    plain = copy.deepcopy(model)
    shard(model, dist.device_mesh.init_device_mesh("cpu", (1,)))
    logits = model(*ids)
    assert_close(logits, plain(*ids))  # gathered weights may be aligned otherwise, which kernels heed
    logits.square().sum().backward()
    plain(*ids).square().sum().backward()
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        if theirs.grad is not None:
            assert_close(ours.grad.full_tensor(), theirs.grad)
    for part, value in plain.theta().named().items():
        assert model.theta().named()[part].equal(value)
    model.reset_parameters(rng(3))
    plain.reset_parameters(rng(3))
    assert all(ours.full_tensor().equal(theirs) for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True))


# Decoding --------------------------------------------------------------------------------------------------------------


def test_a_cache_may_forget() -> None:
    """After truncating, decoding continues as if the rest had never been."""
    model = make(DHyper, dtype=torch.float64)
    ids = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]])
    cache = model.cache(2, ell=9)
    model.decode(ids, cache)
    cache.truncate([2, 4])
    again = model.decode(torch.tensor([[11], [12]]), cache)
    one_pass = model(torch.tensor([[1, 2, 11, 0, 0], [6, 7, 8, 9, 12]]), [3, 5])
    assert_close(again[:, 0], torch.stack([one_pass[0, 2], one_pass[1, 4]]))


@pytest.mark.parametrize("kind", [DHyper, EDHyper])
def test_the_cache_keeps_its_memory(kind: type) -> None:
    model = MODELS[kind](small(kind, ell_max=37))
    cache = model.cache(torch.tensor([[1, 2], [3, 4], [5, 6]]), ell=11) if kind is EDHyper else model.cache(3, ell=11)
    where = [part.data_ptr() for part in (*cache.keys, *cache.values, *(part for pair in cache.cross for part in pair))]
    for _ in range(11):
        model.decode(torch.tensor([[1], [2], [3]]), cache)
        cache.reorder([0, 0, 2])
    assert [part.data_ptr() for part in (*cache.keys, *cache.values, *(part for pair in cache.cross for part in pair))] == where


def test_the_encoder_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(EDHyper)
    z = torch.tensor([[1, 2, 3], [4, 5, 6]])
    runs = 0
    plain = model.enc[0].forward

    def counted(*args: Any) -> torch.Tensor:
        nonlocal runs
        runs += 1
        return plain(*args)

    monkeypatch.setattr(model.enc[0], "forward", counted)
    cache = model.cache(z, ell=7)
    for _ in range(5):
        model.decode(torch.tensor([[1], [2]]), cache)
    assert runs == 1


def test_training_with_the_chunked_loss_is_training_with_the_logits() -> None:
    model = make(DHyper, dtype=torch.float64)
    ids = inputs(DHyper)[0]
    X, _ = model.features(ids[:, :-1])
    log_loss(X, model.unembedding, ids[:, 1:].flatten()).backward()
    ours = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), reduction="sum").backward()
    assert_close(ours, [parameter.grad for parameter in model.parameters()])


@pytest.mark.parametrize("kind", KINDS)
def test_layers_computed_again_give_the_same_gradients(kind: type) -> None:
    """With dropout too: the second time drops what the first time dropped."""
    model = MODELS[kind](small(kind, **RICH[kind] | {"dropout": 0.3}), generator=rng(0), dtype=torch.float64).train()
    gradients = []
    for recompute in (False, True):
        model.checkpointing = recompute
        model.zero_grad()
        torch.manual_seed(5)
        model(*inputs(kind, full=False)).square().sum().backward()
        gradients.append([part.grad.clone() for part in model.parameters() if part.grad is not None])
    assert all(ours.equal(theirs) for ours, theirs in zip(*gradients, strict=True))
