"""Today's decoders against Hugging Face's: logits, the gradient of every parameter, ragged batches, ω, the numbers of parameters.

Their models compute norms, softmax and angles in float32 whatever the weights are. `InDouble` runs their code with float64 in these places.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.parity.compare import InDouble, gradient, randomise
from tests.parity.families import hyper_of, names, state_of
from tests.tolerance import PROMISED
from transalg.cpu import pack
from transalg.formal import decoders
from transalg.formal.decoders import LlamaTheta, Qwen3Theta
from transalg.formal.theta import DTheta
from transalg.hyper import preset
from transalg.hyper.cost import parameters
from transalg.model import DTransformer
from transalg.model.positions import frequencies

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")
exactly = {"rtol": 0, "atol": PROMISED}

N_V, ELL_MAX, W = 23, 13, 5
IDS = torch.randint(N_V, (4, 11), generator=torch.Generator().manual_seed(0))
LENGTHS = [11, 3, 1, 7]
TOKEN_MASK = torch.arange(11) < torch.tensor(LENGTHS)[:, None]
WEIGHTS = torch.randn(4, 11, N_V, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * TOKEN_MASK[..., None]


@dataclass(frozen=True)
class Case:
    """One of their classes at a small size, and the formal system that it is."""

    family: str  # as their classes and our systems are called
    theta: type[DTheta]
    sizes: dict[str, Any] = field(default_factory=dict)
    formal: dict[str, Any] = field(default_factory=dict)  # further hyperparameters of the system

    def config(self) -> Any:
        common = {"vocab_size": N_V, "max_position_embeddings": ELL_MAX, "num_hidden_layers": 3, "intermediate_size": 19}
        special = {"pad_token_id": None, "bos_token_id": 21, "eos_token_id": 22}
        return getattr(transformers, f"{self.family}Config")(**common | special | self.sizes, attn_implementation="eager")

    def peer(self) -> nn.Module:
        with InDouble():
            model = getattr(transformers, f"{self.family}ForCausalLM")(self.config()).double()
        if self.family == "Gemma":  # √d_e, which they round to float32 when they make the model
            model.model.embed_tokens.embed_scale.copy_(torch.tensor(model.config.hidden_size, dtype=torch.float64).sqrt())
        return randomise(model)

    def but(self, **sizes: Any) -> "Case":
        return replace(self, sizes=self.sizes | sizes)


GROUPS = {"num_attention_heads": 6, "num_key_value_heads": 2}
PRIME = GROUPS | {"hidden_size": 29, "head_dim": 14}  # where the width of a head is not that of the residual stream by H
TIED = {"tie_word_embeddings": True}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 0.05, "high_freq_factor": 0.7, "original_max_position_embeddings": 11}
LLAMA = Case("Llama", LlamaTheta, GROUPS | {"hidden_size": 42, "head_dim": 10})
CASES = {
    "Llama": LLAMA,
    "Llama, tied, no groups": LLAMA.but(num_key_value_heads=6, rms_norm_eps=0.1, **TIED),
    "Llama, one key": LLAMA.but(num_key_value_heads=1),
    "Llama, linear": LLAMA.but(rope_parameters={"rope_type": "linear", "rope_theta": 1000.0, "factor": 3.0}),
    "Llama 3": LLAMA.but(rope_parameters={"rope_theta": 1000.0, **LLAMA3}),
    "Mistral": Case("Mistral", LlamaTheta, PRIME | {"sliding_window": W}, {"w": W}),
    "Qwen 2": Case("Qwen2", LlamaTheta, GROUPS | {"hidden_size": 60, "rms_norm_eps": 0.03}),
    "Qwen 3": Case("Qwen3", Qwen3Theta, PRIME | TIED | {"rms_norm_eps": 0.07}),
    "Gemma": Case("Gemma", LlamaTheta, PRIME | {"rms_norm_eps": 0.02}),
    "NeoX": Case("GPTNeoX", DTheta, {"num_attention_heads": 5, "hidden_size": 70, "rotary_pct": 0.45, "layer_norm_eps": 0.02}),
    "NeoX, tied": Case("GPTNeoX", DTheta, TIED | {"num_attention_heads": 5, "hidden_size": 30, "rotary_pct": 1.0}),
}
FAMILIES = ["Llama", "Mistral", "Qwen 2", "Qwen 3", "Gemma", "NeoX"]


def engine(peer: nn.Module) -> DTransformer:
    model = DTransformer(hyper_of(peer.config), dtype=torch.float64)
    model.load_state_dict(state_of(peer.config, peer.state_dict()))
    return model


@pytest.mark.parametrize("name", CASES)
def test_logits_and_gradients(name: str) -> None:
    case = CASES[name]
    peer = case.peer()
    model = engine(peer)
    with InDouble():
        theirs = peer(IDS, attention_mask=TOKEN_MASK.long()).logits
    ours = model(IDS, LENGTHS)
    assert_close(ours, theirs * TOKEN_MASK[..., None], **exactly)
    (theirs * WEIGHTS).sum().backward()
    (ours * WEIGHTS).sum().backward()
    their_gradients = state_of(peer.config, dict(peer.named_parameters(remove_duplicate=False)), gradient)
    for symbol, parameter in model.named_parameters():
        assert their_gradients[symbol].any()
        assert_close(gradient(parameter), their_gradients[symbol], **exactly, msg=lambda text, symbol=symbol: f"{symbol}: {text}")


@pytest.mark.parametrize("name", CASES)
def test_the_formal_systems(name: str) -> None:
    case = CASES[name]
    peer, x = case.peer(), IDS[:1]
    model = engine(peer)
    theta = case.theta.from_named(model.theta().named())
    P = getattr(decoders, case.family)(x[0], theta, omega=frequencies(model.hyper), eps=model.hyper.eps, **case.formal)
    with torch.no_grad(), InDouble():
        theirs = peer(x).logits[0]
    assert_close(P.log(), theirs.log_softmax(dim=1).T, **exactly)


@pytest.mark.parametrize("name", FAMILIES)
def test_decoding_with_the_cache(name: str) -> None:
    """New tokens one at a time, with our cache and with theirs; one row also on the path of single tokens."""
    peer = CASES[name].peer()
    model = engine(peer)
    single = pack(model, 1)
    assert single.single_token is not None
    ours, of_one_row, theirs = model.cache(4), single.cache(1), None
    for t in range(11):
        new = IDS[:, t : t + 1]
        with torch.no_grad(), InDouble():
            step = peer(new, past_key_values=theirs, use_cache=True)
        theirs = step.past_key_values
        assert_close(model.decode(new, ours), step.logits, **exactly)
        assert_close(single.decode(new[:1], of_one_row), step.logits[:1], **exactly)


@pytest.mark.parametrize("name", ["Llama", "Llama 3", "Gemma", "NeoX"])
def test_their_code_as_it_is(name: str) -> None:
    """With float32 in its places, their model computes the same, less exactly."""
    peer = CASES[name].peer()
    with torch.no_grad():
        theirs = peer(IDS).logits
        assert_close(engine(peer)(IDS), theirs, rtol=1e-4, atol=1e-4)
    assert (engine(peer)(IDS) - theirs).abs().max() > PROMISED


@pytest.mark.parametrize("name", ["Llama", "Llama, linear", "Llama 3", "Qwen 2", "NeoX", "NeoX, tied"])
def test_frequencies(name: str) -> None:
    """ω is their inv_freq, in float32 as they have it and in float64."""
    config = CASES[name].config()
    omega = frequencies(hyper_of(config))

    def theirs() -> Tensor:
        model = getattr(transformers, f"{CASES[name].family}ForCausalLM")(config)
        return next(buffer for key, buffer in model.named_buffers() if key.endswith("rotary_emb.inv_freq"))

    assert_close(omega.float(), theirs(), rtol=1e-5, atol=0)
    with InDouble():
        assert_close(omega, theirs(), rtol=1e-12, atol=0)


def test_frequencies_of_llama_3_are_of_all_three_kinds() -> None:
    """The case above has slow pairs, fast pairs and pairs between."""
    scaled, plain = (frequencies(hyper_of(case.config())) for case in (CASES["Llama 3"], LLAMA.but(rope_parameters={"rope_theta": 1000.0})))
    kinds = Counter("slow" if one == 1 / 8 else "fast" if one == 1 else "between" for one in (scaled / plain).tolist())
    assert set(kinds) == {"slow", "fast", "between"}


@pytest.mark.parametrize("name", CASES)
def test_every_parameter_has_its_place(name: str) -> None:
    """Each of their parameters is in one of ours, once."""
    model = CASES[name].peer()
    used = Counter(one for _, theirs in names(model.config) for one in theirs)
    assert used == Counter(name for name, _ in model.named_parameters())
    assert sum(part.numel() for part in model.parameters()) == parameters(hyper_of(model.config))


LLAMA_32 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {  # the config.json of each
    "llama-2-7b": ("Llama", {
        "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
    }),
    "llama-3-8b": ("Llama", {
        "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    }),
    "llama-3.2-1b": ("Llama", {
        "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "rope_scaling": LLAMA_32, "tie_word_embeddings": True,
    }),
    "tinyllama-1.1b": ("Llama", {
        "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
        "num_key_value_heads": 4, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
    }),
    "smollm2-135m": ("Llama", {
        "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000, "tie_word_embeddings": True,
        "initializer_range": 0.041666666666666664,
    }),
    "smollm2-360m": ("Llama", {
        "vocab_size": 49152, "hidden_size": 960, "intermediate_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 15,
        "num_key_value_heads": 5, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000, "tie_word_embeddings": True,
    }),
    "mistral-7b": ("Mistral", {
        "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "sliding_window": 4096,
    }),
    "qwen2.5-0.5b": ("Qwen2", {
        "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
        "num_key_value_heads": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
    }),
    "qwen3-0.6b": ("Qwen3", {
        "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000,
        "tie_word_embeddings": True,
    }),
    "gemma-2b": ("Gemma", {
        "vocab_size": 256000, "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8,
        "num_key_value_heads": 1, "head_dim": 256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-6,
    }),
    "pythia-70m": ("GPTNeoX", {
        "vocab_size": 50304, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 8,
        "max_position_embeddings": 2048, "layer_norm_eps": 1e-5, "rotary_pct": 0.25, "rotary_emb_base": 10000,
    }),
    "pythia-160m": ("GPTNeoX", {
        "vocab_size": 50304, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "max_position_embeddings": 2048, "layer_norm_eps": 1e-5, "rotary_pct": 0.25, "rotary_emb_base": 10000,
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_as_published(name: str) -> None:
    """A preset is what the published configuration says, and has as many parameters as their model of it."""
    family, settings = PUBLISHED[name]
    config = getattr(transformers, f"{family}Config")(**settings)
    assert hyper_of(config) == preset(name)
    with torch.device("meta"):
        model = getattr(transformers, f"{family}ForCausalLM")(config)
    assert sum(part.numel() for part in model.parameters()) == parameters(preset(name))
