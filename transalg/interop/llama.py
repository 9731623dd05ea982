"""Llama of Hugging Face and its like: Mistral, Qwen 2 and 3, Gemma; and GPT-NeoX, whose positions turn as well.

Rows of matrices are in the same order on both sides, rotary pairs by halves included. GPT-NeoX alone has q, k and v of one head above
those of the next.
"""

from dataclasses import dataclass
from math import nextafter
from typing import Any

from transalg.hyper import DHyper
from transalg.hyper.heads import BIASES
from transalg.interop.family import ACTIVATIONS, THEIR_ACTIVATIONS, Family, Fields, initialisation
from transalg.interop.names import BY_HEAD, Source, linear, norm, rows
from transalg.interop.settings import Settings

LAYER = "model.layers.*."
SOURCES = {
    "W_e": rows("model.embed_tokens.weight"),
    "layers.*.gamma1": rows(f"{LAYER}input_layernorm.weight"),
    **linear("layers.*.W.W_qkv", *(f"{LAYER}self_attn.{one}_proj" for one in "qkv")),
    **linear("layers.*.W.W_o", f"{LAYER}self_attn.o_proj"),
    **{f"layers.*.W.gamma_{one}": rows(f"{LAYER}self_attn.{one}_norm.weight") for one in "qk"},
    "layers.*.gamma2": rows(f"{LAYER}post_attention_layernorm.weight"),
    **linear("layers.*.W_glu1", f"{LAYER}mlp.gate_proj", f"{LAYER}mlp.up_proj"),
    **linear("layers.*.W_mlp2", f"{LAYER}mlp.down_proj"),
    "gamma": rows("model.norm.weight"),
    "W_u": rows("lm_head.weight"),
}
GATED = {"SiLU": "SwiGLU", "GELU": "GEGLU", "tanh_GELU": "tanh_GEGLU"}  # an activation with a gate
SCALINGS = {  # the numbers of a scaling, in our order
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}


@dataclass(frozen=True)
class Kind:
    """What a model type says by itself, and its defaults where config.json is silent."""

    architecture: str
    departures: dict[str, Any]
    tied: bool = False
    head_dim: int | None = None  # d_e / H


KINDS = {
    "llama": Kind("LlamaForCausalLM", {}),
    "mistral": Kind("MistralForCausalLM", {}),
    "qwen2": Kind("Qwen2ForCausalLM", {"bias": "qkv"}),
    "qwen3": Kind("Qwen3ForCausalLM", {"qk_norm": True}, head_dim=128),
    "gemma": Kind("GemmaForCausalLM", {"norm": "RMSnorm_1p", "scaled": True}, tied=True, head_dim=256),
}


def hyper(config: Settings) -> DHyper:
    kind = KINDS[config.text("model_type")]
    H, d_e = config.size("num_attention_heads"), config.size("hidden_size")
    d_attn = config.size("head_dim", kind.head_dim or max(1, d_e // H))
    config.require("use_bidirectional_attention", None, "for a token sees none that follow it")
    fields: Fields = {
        "H_kv": config.size("num_key_value_heads", H),
        "d_attn": d_attn,
        "d_mid": d_attn,
        "eps": config.number("rms_norm_eps", 1e-6),
        "norm": "RMSnorm",
        "activation": _gated(config),
        "bias": _bias(config),
        "tied": config.flag("tie_word_embeddings", kind.tied),
        "attention_dropout": config.number("attention_dropout", 0.0),
    }
    return DHyper(**_sizes(config) | fields | rotary(config, d_attn) | _band(config) | initialisation(config) | kind.departures)


def _sizes(config: Settings) -> dict[str, Any]:
    return {
        "N_V": config.size("vocab_size"),
        "ell_max": config.size("max_position_embeddings", 2048),
        "L": config.layers("num_hidden_layers"),
        "H": config.size("num_attention_heads"),
        "d_e": config.size("hidden_size"),
        "d_mlp": config.size("intermediate_size"),
    }


def _gated(config: Settings) -> str:
    if config.text("model_type") == "gemma":  # its early files say gelu and mean the approximation
        name = config.text(config.any_of("hidden_activation", "hidden_act"), "gelu_pytorch_tanh")
        return GATED["tanh_GELU" if name == "gelu" else ACTIVATIONS.get(name, "tanh_GELU")]
    activation = config.choice("hidden_act", ACTIVATIONS, "silu")
    if activation not in GATED:
        raise config.wrong("hidden_act", "one that there is a gate with, such as silu", activation)
    return GATED[activation]


def _bias(config: Settings) -> str:
    attention, mlp = config.flag("attention_bias", False), config.flag("mlp_bias", False)
    if attention != mlp:
        raise ValueError(
            f"{config.where}: attention_bias, mlp_bias: expected both or none, for q, k, v, o and the MLP have biases together; got one"
        )
    return "all" if attention else "none"


def rotary(config: Settings, d_attn: int) -> Fields:
    """Rotary positions, as newer files and as older ones say it."""
    new = config.table("rope_parameters")
    scaling = new if new.values else config.table("rope_scaling")
    base = new.number("rope_theta") if new.has("rope_theta") else config.number(config.any_of("rope_theta", "rotary_emb_base"), 10000.0)
    name = scaling.any_of("rope_type", "type")
    if scaling.text(name, "default") not in SCALINGS:
        raise scaling.wrong(name, " or ".join(SCALINGS), scaling.values[name])
    numbers = tuple(scaling.number(one) for one in SCALINGS[scaling.text(name, "default")])
    part = new if new.has("partial_rotary_factor") else config
    d_rot = int(d_attn * part.number(part.any_of("partial_rotary_factor", "rotary_pct"), _rotary_part(config)))
    return {"positions": "rotary", "rotary_base": base, "rotary_scaling": numbers or None, "d_rot": d_rot}


def _rotary_part(config: Settings) -> float:
    return 0.25 if config.text("model_type") == "gpt_neox" else 1.0


def _band(config: Settings) -> Fields:
    """A sliding window: of all layers in Mistral, of those that layer_types names in Qwen."""
    L, model_type = config.layers("num_hidden_layers"), config.text("model_type")
    if model_type == "mistral":
        return {"band": config.size("sliding_window"), "band_pattern": "1"} if config.has("sliding_window") else {}
    if not config.flag("use_sliding_window", False):
        return {}
    full = config.size("max_window_layers", 28) if config.values.get("max_window_layers") != 0 else 0
    types = config.values.get("layer_types") or ["full_attention" if l < full else "sliding_attention" for l in range(L)]
    names = {"full_attention": "0", "sliding_attention": "1"}
    if not isinstance(types, list) or len(types) != L or not all(one in names for one in types):
        raise config.wrong("layer_types", f"{' or '.join(names)} for each of {L} layers", types)
    pattern = "".join(names[one] for one in types)
    return {"band": config.size("sliding_window", 4096), "band_pattern": pattern} if "1" in pattern else {}


def _rope_parameters(hyper: DHyper) -> dict[str, Any]:
    scaling = hyper.rotary_scaling or ()
    name = next((name for name, numbers in SCALINGS.items() if len(numbers) == len(scaling)), "default")
    numbers = {one: int(value) if one.startswith("original") else value for one, value in zip(SCALINGS[name], scaling, strict=True)}
    return {"rope_theta": hyper.rotary_base or 10000.0, "rope_type": name, **numbers}


def _their_sizes(hyper: DHyper) -> dict[str, Any]:
    return {
        "vocab_size": hyper.N_V,
        "max_position_embeddings": hyper.ell_max,
        "num_hidden_layers": hyper.L,
        "num_attention_heads": hyper.H,
        "hidden_size": hyper.d_e,
        "intermediate_size": hyper.d_mlp,
        "tie_word_embeddings": hyper.tied,
        "attention_dropout": hyper.attention_dropout,
        **({"initializer_range": hyper.init_std} if hyper.init_std else {}),
        "rope_parameters": _rope_parameters(hyper),
    }


def config(hyper: DHyper) -> dict[str, Any]:
    biased = hyper.bias == "all"
    ungated = {gated: activation for activation, gated in GATED.items()}
    result = _their_sizes(hyper) | {
        "num_key_value_heads": hyper.heads.H_kv,
        "head_dim": hyper.heads.d_attn,
        "rms_norm_eps": hyper.eps,
        "hidden_act": THEIR_ACTIVATIONS[ungated.get(hyper.activation, "SiLU")],
        "attention_bias": biased,
        "mlp_bias": biased,
        "sliding_window": hyper.band,
    }
    if hyper.band is not None:
        windows = [hyper.band_pattern[l % len(hyper.band_pattern)] == "1" for l in range(hyper.L)]
        result |= {"use_sliding_window": True, "max_window_layers": 0}
        result["layer_types"] = ["sliding_attention" if window else "full_attention" for window in windows]
    return result


def _family(model_type: str) -> Family:
    return Family(
        model_type=model_type,
        architectures=(KINDS[model_type].architecture,),
        hyper=hyper,
        config=config,
        sources=SOURCES,
        marker="model.embed_tokens.weight",
        prefix="model.",
        copies={"lm_head.weight": "model.embed_tokens.weight"},
        constants=(r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",),
    )


# GPT-NeoX --------------------------------------------------------------------------------------------------------------

NEOX_LAYER = "gpt_neox.layers.*."
NEOX_SOURCES = {
    "W_e": rows("gpt_neox.embed_in.weight"),
    **norm("layers.*.gamma1", f"{NEOX_LAYER}input_layernorm"),
    "layers.*.W.W_qkv": Source((f"{NEOX_LAYER}attention.query_key_value.weight",), BY_HEAD),
    "layers.*.W.b_qkv": Source((f"{NEOX_LAYER}attention.query_key_value.bias",), BY_HEAD),
    **linear("layers.*.W.W_o", f"{NEOX_LAYER}attention.dense"),
    **norm("layers.*.gamma2", f"{NEOX_LAYER}post_attention_layernorm"),
    **linear("layers.*.W_mlp1", f"{NEOX_LAYER}mlp.dense_h_to_4h"),
    **linear("layers.*.W_mlp2", f"{NEOX_LAYER}mlp.dense_4h_to_h"),
    **norm("gamma", "gpt_neox.final_layer_norm"),
    "W_u": rows("embed_out.weight"),
}


def neox_hyper(config: Settings) -> DHyper:
    config.require("attention_bias", True, f"for biases are one of {', '.join(BIASES)}", default=True)
    H, d_e = config.size("num_attention_heads"), config.size("hidden_size")
    fields: Fields = {
        "eps": config.number("layer_norm_eps", 1e-5),
        "activation": config.choice("hidden_act", ACTIVATIONS, "gelu"),
        "parallel": config.flag("use_parallel_residual", True),
        "tied": config.flag("tie_word_embeddings", False),
        "dropout": config.number("hidden_dropout", 0.0),
        "attention_dropout": config.number("attention_dropout", 0.0),
    }
    return DHyper(**_sizes(config) | fields | rotary(config, max(1, d_e // H)) | initialisation(config))


def neox_config(hyper: DHyper) -> dict[str, Any]:
    result = _their_sizes(hyper) | {
        "layer_norm_eps": hyper.eps,
        "hidden_act": THEIR_ACTIVATIONS.get(hyper.activation, "gelu"),
        "use_parallel_residual": hyper.parallel,
        "hidden_dropout": hyper.dropout,
        "attention_bias": True,
    }
    d_rot, d_attn = hyper.d_rot or hyper.heads.d_attn, hyper.heads.d_attn
    part = d_rot / d_attn if int(d_attn * (d_rot / d_attn)) == d_rot else nextafter(d_rot / d_attn, 1.0)
    return result | {"rotary_pct": part, "rope_parameters": _rope_parameters(hyper) | {"partial_rotary_factor": part}}


NEOX = Family(
    model_type="gpt_neox",
    architectures=("GPTNeoXForCausalLM",),
    hyper=neox_hyper,
    config=neox_config,
    sources=NEOX_SOURCES,
    marker="gpt_neox.embed_in.weight",
    prefix="gpt_neox.",
    aliases={"embed_out.weight": ("lm_head.weight",)},
    copies={"embed_out.weight": "gpt_neox.embed_in.weight", "lm_head.weight": "gpt_neox.embed_in.weight"},
    constants=(r"gpt_neox\.layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)", r"gpt_neox\.rotary_emb\.inv_freq"),
)
LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA = map(_family, KINDS)
