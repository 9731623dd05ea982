"""Today's decoders in the engine, small: the formal algorithm in one pass, with the cache, and one token at a time."""

import pytest
import torch
from torch.testing import assert_close

from tests.strategies import rng
from tests.tolerance import PROMISED, tolerance
from transalg.cpu import pack
from transalg.formal.positions import linear_scaling, llama3_scaling, rotary_frequencies
from transalg.hyper import PRESETS, DHyper, cost, preset
from transalg.model import DTransformer, build
from transalg.model.layers import Layer
from transalg.model.positions import frequencies
from transalg.verify.batches import draw
from transalg.verify.cases import randomised, shrunk, small
from transalg.verify.laws import cache, errors, prefill

NAMES = ("llama-3.2-1b", "smollm2-135m", "mistral-7b", "qwen2.5-0.5b", "qwen3-0.6b", "gemma-2b", "pythia-70m")


def small_model(name: str) -> DTransformer:
    model = randomised(build(shrunk(PRESETS[name].hyper), dtype=torch.float64), rng(0)).eval()
    assert isinstance(model, DTransformer)
    return model


@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_are_those_of_the_formal_algorithm(name: str) -> None:
    model = small_model(name)
    assert max(errors(model, draw(model.hyper, rng(1), rows=2, longest=7), rng(2))) <= PROMISED


@pytest.mark.parametrize("name", NAMES)
def test_decoding_with_the_cache_says_the_same(name: str) -> None:
    model = small_model(name)
    batch = draw(model.hyper, rng(1), rows=3, longest=7)
    assert cache(model, batch, rng(2)) <= PROMISED and prefill(model, batch, rng(3)) <= PROMISED


@pytest.mark.parametrize("name", NAMES)
def test_one_token_at_a_time_says_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the fast path, not through the layers."""
    model = small_model(name)
    x = torch.randint(model.hyper.N_V, (1, 7), generator=rng(4))
    expected, short = model(x).detach(), pack(model, 1)
    monkeypatch.setattr(Layer, "decode", None)
    state = short.cache(1, ell=7)
    logits = torch.cat([short.decode(x[:, t : t + 1], state) for t in range(7)], dim=1)
    assert_close(logits, expected, rtol=0, atol=tolerance(torch.float64, terms=30, depth=4, size=10))


@pytest.mark.parametrize("H_kv", [1, 2, 3, 6])
def test_the_cache_has_the_heads_of_keys_and_values_alone(H_kv: int) -> None:
    hyper = small(DHyper, H=6, H_kv=H_kv)
    state = build(hyper, dtype=torch.float64).cache(2, ell=5)
    assert state.keys.shape == (2, 2, H_kv, 5, 3) and state.values.shape == (2, 2, H_kv, 5, 5)
    assert state.bytes == cost.cache_bytes(hyper, 5, 2, 8)


def test_the_frequencies_are_those_of_the_hyperparameters() -> None:
    """d_rot, not d_attn; the base, and then the scaling."""
    same = {"rtol": 1e-15, "atol": 0}
    assert_close(frequencies(preset("pythia-70m")), rotary_frequencies(16), **same)
    omega = rotary_frequencies(64, 500_000.0)
    assert_close(frequencies(preset("llama-3-8b")), rotary_frequencies(128, 500_000.0), **same)
    assert_close(frequencies(preset("llama-3.2-1b")), llama3_scaling(omega, 32.0, 1.0, 4.0, 8192.0), **same)
    linear = preset("llama-3.2-1b", rotary_scaling=(4.0,))
    assert_close(frequencies(linear), linear_scaling(omega, 4.0), **same)


def test_every_scale_starts_at_one() -> None:
    """γ = 0 where the scale is 1 + γ."""
    for name, start in (("gemma-2b", 0), ("qwen3-0.6b", 1)):
        model = build(shrunk(PRESETS[name].hyper), generator=rng(0))
        gammas = [part for symbol, part in model.named_parameters() if "gamma" in symbol]
        assert len(gammas) >= 5 and all((part == start).all() for part in gammas)


@pytest.mark.parametrize("bias", ["none", "qkv", "all"])
def test_a_model_has_the_biases_that_it_says(bias: str) -> None:
    names = {name.rpartition(".")[2] for name, _ in build(small(DHyper, bias=bias)).named_parameters()}
    biases = {"none": set(), "qkv": {"b_qkv"}, "all": {"b_qkv", "b_o", "b_mlp1", "b_mlp2"}}[bias]
    assert {name for name in names if name.startswith("b_")} == biases
