"""Random models that transformers itself makes and saves, one for each family, in float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.parity.compare import InDouble, randomise

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")

N_V, ELL_MAX, L, D_MLP = 97, 31, 2, 29
COMMON = {"vocab_size": N_V, "intermediate_size": D_MLP, "num_hidden_layers": L, "max_position_embeddings": ELL_MAX}
WIDE = COMMON | {"hidden_size": 24, "num_attention_heads": 4}
BERT = COMMON | {"hidden_size": 15, "num_attention_heads": 3, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
PAIRS = {
    "vocab_size": N_V, "d_model": 18, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 3, "decoder_attention_heads": 3,
    "encoder_ffn_dim": D_MLP, "decoder_ffn_dim": D_MLP, "max_position_embeddings": ELL_MAX, "pad_token_id": 96, "eos_token_id": 0,
    "bos_token_id": 1, "decoder_start_token_id": 96, "forced_eos_token_id": None, "dropout": 0.0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 3.0, "low_freq_factor": 0.5, "high_freq_factor": 2.0,
    "original_max_position_embeddings": 11,
}  # fmt: skip


def _gpt2(**more: Any) -> Any:
    config = {"vocab_size": N_V, "n_positions": ELL_MAX, "n_embd": 15, "n_layer": L, "n_head": 3, "bos_token_id": 1, "eos_token_id": 2}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**config | dropout | more))


def _made(name: str, head: str, config: dict[str, Any], **more: Any) -> Any:
    return getattr(transformers, f"{name}{head}")(getattr(transformers, f"{name}Config")(**config | more))


PEERS: dict[str, Callable[[], Any]] = {
    "gpt2": _gpt2,
    "gpt2 untied, narrow": lambda: _gpt2(tie_word_embeddings=False, n_inner=D_MLP, activation_function="relu", layer_norm_epsilon=0.01),
    "bert": lambda: _made("Bert", "ForMaskedLM", BERT),
    "bert untied": lambda: _made("Bert", "ForMaskedLM", BERT, tie_word_embeddings=False, hidden_act="gelu_new", type_vocab_size=3),
    "bert classes": lambda: _made("Bert", "ForSequenceClassification", BERT, num_labels=5),
    "bert bare": lambda: _made("Bert", "Model", BERT),
    "marian": lambda: _made("Marian", "MTModel", PAIRS, activation_function="swish", scale_embedding=True),
    "pegasus": lambda: _made("Pegasus", "ForConditionalGeneration", PAIRS, activation_function="relu", scale_embedding=True),
    "blenderbot": lambda: _made("Blenderbot", "ForConditionalGeneration", PAIRS),
    "llama": lambda: _made("Llama", "ForCausalLM", WIDE, num_key_value_heads=2, rope_parameters=LLAMA3),
    "llama tied": lambda: _made("Llama", "ForCausalLM", WIDE, tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
    "mistral": lambda: _made("Mistral", "ForCausalLM", WIDE, num_key_value_heads=2, sliding_window=5),
    "qwen2": lambda: _made("Qwen2", "ForCausalLM", WIDE, num_key_value_heads=2),
    "qwen2 windows": lambda: _made(
        "Qwen2", "ForCausalLM", WIDE, num_key_value_heads=4, use_sliding_window=True, sliding_window=3, max_window_layers=1
    ),
    "qwen3": lambda: _made("Qwen3", "ForCausalLM", WIDE, num_key_value_heads=2, head_dim=10),
    "gemma": lambda: _made("Gemma", "ForCausalLM", WIDE, num_key_value_heads=1, head_dim=10),
    "gpt_neox": lambda: _made("GPTNeoX", "ForCausalLM", COMMON, hidden_size=32, num_attention_heads=2),
    "gpt_neox in order": lambda: _made(
        "GPTNeoX",
        "ForCausalLM",
        COMMON,
        hidden_size=22,
        num_attention_heads=2,
        rotary_pct=0.4,
        use_parallel_residual=False,
        tie_word_embeddings=True,
    ),
}


def peer(name: str) -> Any:
    """A model with random weights in float64."""
    with InDouble():
        model = PEERS[name]().double()
    if name == "gemma":  # √d_e, which they round to float32 when they make the model
        model.model.embed_tokens.embed_scale.copy_(torch.tensor(model.config.hidden_size, dtype=torch.float64).sqrt())
    model = randomise(model)
    model.config._attn_implementation = "eager"
    with torch.no_grad():
        for module, buffers in (("model.encoder", "embed_positions"), ("model.decoder", "embed_positions")):
            if name in ("marian", "pegasus"):
                table = model.get_submodule(f"{module}.{buffers}").weight
                table.copy_(sinusoids(*table.shape))
        if name == "blenderbot":  # we have one table of positions for z and x
            model.model.decoder.embed_positions.weight.copy_(model.model.encoder.embed_positions.weight)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.randn(1, N_V, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    return model


def sinusoids(ell_max: int, d_e: int) -> torch.Tensor:
    """Marian's formula, here in float64."""
    angles = np.array([[t / 10000 ** (2 * (j // 2) / d_e) for j in range(d_e)] for t in range(ell_max)])
    return torch.from_numpy(np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], axis=1))


def saved(name: str, folder: Path) -> Any:
    """A peer, and its folder as transformers writes it."""
    model = peer(name)
    model.save_pretrained(folder)
    return model
