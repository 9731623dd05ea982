"""Today's decoders: each is `GPT` with its components, on the θ of an engine's model, and what the systems have in common."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.strategies import fill, rng
from tests.tolerance import tolerance
from transalg.formal import DTheta, DTraining, MHAttention
from transalg.formal.bias import unbiased
from transalg.formal.decoders import Gemma, GPTNeoX, Llama, LlamaTheta, Mistral, Qwen2, Qwen3, Qwen3Theta
from transalg.formal.embedding import scaled
from transalg.formal.heads import GroupedMHAttention
from transalg.formal.mlp import GatedMLP, tanh_GELU
from transalg.formal.norm import RMSnorm_1p
from transalg.formal.positions import RotaryAttention, rotary_frequencies, without_positions
from transalg.formal.systems import GPT, parallel_norm
from transalg.formal.theta import TransformerTheta
from transalg.hyper import DHyper, preset
from transalg.model import build
from transalg.model.counterpart import formal_counterpart
from transalg.model.positions import frequencies
from transalg.verify.cases import randomised, shrunk

exactly = {"rtol": 0, "atol": tolerance(torch.float64, terms=13, depth=4, size=10)}
SIZES = {"N_V": 11, "ell_max": 7, "H": 6, "H_kv": 2, "d_e": 5, "d_mlp": 13, "d_attn": 4, "d_mid": 3, "L": 2}
OMEGA = rotary_frequencies(4, 100.0)
x = [9, 1, 2, 3, 4, 10]
SYSTEMS: dict[str, tuple[Callable[..., Tensor], type[DTheta]]] = {
    "llama-2-7b": (Llama, LlamaTheta),
    "llama-3-8b": (Llama, LlamaTheta),
    "llama-3.2-1b": (Llama, LlamaTheta),
    "tinyllama-1.1b": (Llama, LlamaTheta),
    "smollm2-135m": (Llama, LlamaTheta),
    "smollm2-360m": (Llama, LlamaTheta),
    "mistral-7b": (Mistral, LlamaTheta),
    "qwen2.5-0.5b": (Qwen2, LlamaTheta),
    "qwen3-0.6b": (Qwen3, Qwen3Theta),
    "gemma-2b": (Gemma, LlamaTheta),
    "pythia-70m": (GPTNeoX, DTheta),
    "pythia-160m": (GPTNeoX, DTheta),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_gpt_with_the_components_of_its_preset(name: str) -> None:
    system, kind = SYSTEMS[name]
    published = preset(name)
    assert isinstance(published, DHyper)
    hyper = shrunk(published).replace(eps=0.003)
    theta = randomised(build(hyper, dtype=torch.float64), rng(0)).theta()
    tokens = torch.randint(0, hyper.N_V, (7,), generator=rng(1))
    more = {"w": hyper.band} if system is Mistral else {}
    P = system(tokens, kind.from_named(theta.named()), omega=frequencies(hyper), eps=hyper.eps, **more)
    assert_close(P, formal_counterpart(hyper)(tokens, theta), **exactly)
    default = system(tokens, kind.from_named(theta.named()), omega=frequencies(hyper), **more)
    assert not torch.allclose(P, default), "ε reaches the norms"


def theta_of(kind: type[TransformerTheta], bias: str = "none", seed: int = 0) -> TransformerTheta:
    sizes = {symbol: size for symbol, size in SIZES.items() if symbol in kind.symbols()}
    return unbiased(fill(kind.init(**sizes), seed), bias)


def test_a_window_of_all_tokens_makes_mistral_llama() -> None:
    theta = theta_of(LlamaTheta)
    plain = Llama(x, theta, omega=OMEGA)
    assert Mistral(x, theta, omega=OMEGA, w=6).equal(plain)
    near = Mistral(x, theta, omega=OMEGA, w=3)
    assert_close(near[:, :3], plain[:, :3], **exactly)
    assert not torch.allclose(near[:, 3], plain[:, 3]), "the fourth token does not see the first"


def test_without_biases_qwen_2_is_llama() -> None:
    theta = theta_of(LlamaTheta)
    assert Qwen2(x, theta, omega=OMEGA).equal(Llama(x, theta, omega=OMEGA))
    biased = theta_of(LlamaTheta, "qkv")
    assert not torch.allclose(Qwen2(x, biased, omega=OMEGA), Llama(x, theta, omega=OMEGA))


def test_gemma_by_its_departures() -> None:
    """√d_e, 1 + γ, GELU by tanh, and W_e for W_u: a Llama with other components."""
    theta = theta_of(LlamaTheta)
    attention = partial(GroupedMHAttention, Attention=partial(RotaryAttention, omega=OMEGA))
    by_parts = partial(GPT, layer_norm=RMSnorm_1p, MLP=partial(GatedMLP, SiLU=tanh_GELU), MHAttention=attention)
    wide = scaled(without_positions(replace(theta, W_u=theta.W_e.T)))
    plain = DTheta(**{name: getattr(wide, name) for name in ("W_e", "W_p", "layers", "gamma", "beta", "W_u")})
    assert_close(Gemma(x, theta, omega=OMEGA), by_parts(x, plain), **exactly)
    assert Gemma(x, replace(theta, W_u=0 * theta.W_u), omega=OMEGA).equal(Gemma(x, theta, omega=OMEGA)), "W_u has no part in it"


def test_neox_has_parallel_layers() -> None:
    theta = theta_of(DTheta, "all")
    attention = partial(MHAttention, Attention=partial(RotaryAttention, omega=OMEGA))
    P = GPT(x, without_positions(theta), block=parallel_norm, MHAttention=attention)
    assert_close(GPTNeoX(x, theta, omega=OMEGA), P, **exactly)


@pytest.mark.parametrize("system", [Llama, Qwen2, Qwen3, Gemma, GPTNeoX, partial(Mistral, w=3)])
def test_every_system_is_causal_and_has_no_other_positions(system: Callable[..., Tensor]) -> None:
    kind = {Qwen3: Qwen3Theta, GPTNeoX: DTheta}.get(system, LlamaTheta)
    theta = theta_of(kind)
    P = system(x, theta, omega=OMEGA)
    assert_close(P.sum(dim=0), torch.ones(6).double(), **exactly)
    assert_close(system([*x[:5], 3], theta, omega=OMEGA)[:, :5], P[:, :5], **exactly)
    assert system(x, replace(theta, W_p=theta.W_p + 1), omega=OMEGA).equal(P), "W_p is not used"
    assert not torch.allclose(system([9, 2, 1, 3, 4, 10], theta, omega=OMEGA)[:, 3:], P[:, 3:]), "the order matters"


def test_a_system_trains_by_algorithm_13() -> None:
    """What it does not use has the gradient 0; biases are taken away inside."""
    theta = unbiased(LlamaTheta.init(**SIZES, generator=rng(0)))
    trained = DTraining([x], theta, 2, 0.05, DTransformer=lambda x, theta: Llama(x, unbiased(theta), omega=OMEGA))
    assert type(trained) is LlamaTheta and trained.W_p.equal(theta.W_p) and trained.beta.equal(theta.beta)
    assert not trained.layers[1].W_gate.equal(theta.layers[1].W_gate) and not trained.layers[0].W.W_k.equal(theta.layers[0].W.W_k)
    assert not trained.layers[0].W.b_q.any()
    loss = [-Llama(x, one, omega=OMEGA)[x[1:], torch.arange(5)].log().sum() for one in (theta, trained)]
    assert loss[1] < loss[0]
