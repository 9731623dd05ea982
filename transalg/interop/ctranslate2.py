"""A run for CTranslate2: decoders for its Generator, encoder–decoders for its Translator, encoders without a head for its Encoder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from transalg.hyper import DHyper, EDHyper, EHyper, Hyper
from transalg.hyper.mlp import MLPS, Gated
from transalg.interop.export import Exported, write_tokenizer
from transalg.interop.fitting import fit
from transalg.model.positions import POSITIONS

ACTIVATIONS = {
    "ReLU": "RELU",
    "GELU": "GELU",
    "tanh_GELU": "GELUTanh",
    "SiLU": "SWISH",
    "SwiGLU": "SWISH",
    "GEGLU": "GELU",
    "tanh_GEGLU": "GELUTanh",
}
NORMS = ("layer_norm", "RMSnorm", "RMSnorm_1p")
Tensors = Mapping[str, Tensor]


def write(run: Exported, folder: Path, numbers: str = "float32") -> str:
    """model.bin, config.json and the vocabulary; the class that loads it."""
    try:
        from ctranslate2 import specs
    except ImportError as error:
        raise ValueError("ctranslate2 needs the package ctranslate2; pip install 'transalg[export]'") from error
    hyper = run.hyper
    fit(hyper, "ctranslate2", ["CTranslate2"], lambda name: "what it knows", lambda name: understood(hyper))
    names = _vocabulary(run)
    special = {name: names[one] for name, one in (("bos", hyper.special_tokens.bos), ("eos", hyper.special_tokens.eos)) if one is not None}
    if isinstance(hyper, EDHyper):
        spec: Any = specs.TransformerSpec(_encoder(specs, hyper, run.tensors, "enc"), _decoder(specs, hyper, run.tensors, "dec"))
        spec.register_source_vocabulary(names)
        spec.register_target_vocabulary(names)
        spec.config.add_attribute("decoder_start_token", special.get("bos", names[0]))
        kind = "Translator"
    else:
        decodes = isinstance(hyper, DHyper)
        side = _decoder(specs, hyper, run.tensors, "layers") if decodes else _encoder(specs, hyper, run.tensors, "layers")
        spec = specs.TransformerDecoderModelSpec(side) if decodes else specs.TransformerEncoderModelSpec(side)
        spec.register_vocabulary(names)
        kind = "Generator" if decodes else "Encoder"
    spec.config.layer_norm_epsilon = hyper.eps
    spec.config.unk_token = names[0]
    spec.config.bos_token = special.get("bos", special.get("eos", names[0]))
    spec.config.eos_token = special.get("eos", names[0])
    spec.validate()
    spec.optimize(quantization=None if numbers == "float32" else numbers)
    spec.save(str(folder))
    config = (folder / "config.json").read_bytes()
    write_tokenizer(run, folder)
    (folder / "config.json").write_bytes(config)
    return f"ctranslate2.{kind}, {numbers}"


def understood(hyper: Hyper) -> Hyper:
    """The model as CTranslate2 would compute it."""
    changes: dict[str, Any] = {}
    if hyper.positions == "relative":
        changes |= {"positions": "learned", "d_r": None}
    if hyper.d_mid != hyper.d_attn:
        changes["d_mid"] = hyper.d_attn
    if hyper.norm not in NORMS:
        changes["norm"] = "layer_norm"
    if hyper.rotary_scaling is not None and len(hyper.rotary_scaling) > 1:
        changes["rotary_scaling"] = None
    if isinstance(hyper, DHyper):
        changes |= {} if hyper.norm_first else {"norm_first": True}
        changes |= {"band_pattern": "1"} if hyper.band is not None and "0" in hyper.band_pattern else {}
        changes |= {"qk_norm": False} if hyper.qk_norm and not hyper.norm.startswith("RMS") else {}
        changes |= {"norm": "layer_norm"} if hyper.parallel and hyper.norm != "layer_norm" else {}
    elif isinstance(hyper, EHyper):
        changes |= {"head": "none", "d_f": hyper.d_e} if hyper.head != "none" else {}
        changes |= {"pooling": "bos"} if getattr(hyper, "pooling", "bos") != "bos" else {}
        if type(hyper) is not EHyper:
            raise ValueError("CTranslate2 has no classes")
    return replace(hyper, **changes)


def _encoder(specs: Any, hyper: Hyper, tensors: Tensors, stack: str) -> Any:
    segments = bool(getattr(hyper, "segments", 0))
    final = isinstance(hyper, EDHyper) and hyper.norm_first
    spec = specs.TransformerEncoderSpec(
        hyper.stacks[stack],
        hyper.H,
        pre_norm=hyper.norm_first,
        no_final_norm=not final,
        num_source_embeddings=2 if segments else 1,
        embeddings_merge=specs.EmbeddingsMerge.ADD,
        layernorm_embedding=bool(getattr(hyper, "embedding_norm", False)),
        **_common(specs, hyper),
    )
    spec.scale_embeddings = hyper.scaled
    spec.embeddings[0].weight = _array(tensors["W_e"])
    if segments:
        spec.embeddings[1].weight = _array(tensors["W_s"])
    _positions(spec, hyper, tensors)
    if getattr(hyper, "embedding_norm", False):
        _norm(spec.layernorm_embedding, hyper, tensors, "gamma_e")
    if final:
        _norm(spec.layer_norm, hyper, tensors, "gamma_enc")
    for l, layer in enumerate(spec.layer):
        name = f"{stack}.{hyper.parameter_set(l)}"
        _attention(layer.self_attention, hyper, tensors, f"{name}.W", ("W_qkv", "W_o"))
        _norm(layer.self_attention.layer_norm, hyper, tensors, f"{name}.gamma1")
        _mlp(layer.ffn, hyper, tensors, name, 1)
        _norm(layer.ffn.layer_norm, hyper, tensors, f"{name}.gamma2")
    return spec


def _decoder(specs: Any, hyper: Hyper, tensors: Tensors, stack: str) -> Any:
    alone, parallel = isinstance(hyper, DHyper), bool(getattr(hyper, "parallel", False))
    window = {"sliding_window": hyper.band} if isinstance(hyper, DHyper) and hyper.band is not None else {}
    parallel_residual = {"parallel_residual": True} if parallel else {}
    spec = specs.TransformerDecoderSpec(
        hyper.stacks[stack],
        hyper.H,
        pre_norm=hyper.norm_first,
        with_encoder_attention=not alone,
        **_common(specs, hyper),
        **window,
        **parallel_residual,
    )
    spec.scale_embeddings = hyper.scaled
    spec.embeddings.weight = _array(tensors["W_e"])
    if hyper.positions != "rotary":
        _positions(spec, hyper, tensors)
    _linear(spec.projection, tensors, "W_e" if hyper.tied else "W_u", "b_u")
    if hyper.norm_first:
        _norm(spec.layer_norm, hyper, tensors, "gamma" if alone else "gamma_dec")
    for l, layer in enumerate(spec.layer):
        name = f"{stack}.{hyper.parameter_set(l)}"
        own, first, mlp = ("W", 1, 2) if alone else ("W_dec", 3, 5)
        _attention(layer.self_attention, hyper, tensors, f"{name}.{own}", ("W_qkv", "W_o"))
        if not alone:
            _attention(layer.attention, hyper, tensors, f"{name}.W_ed", ("W_q", "W_kv", "W_o"))
            _norm(layer.attention.layer_norm, hyper, tensors, f"{name}.gamma4")
        _mlp(layer.ffn, hyper, tensors, name, 1 if alone else 3)
        before_attention = layer.input_layer_norm if parallel else layer.self_attention.layer_norm
        before_mlp = layer.post_attention_layer_norm if parallel else layer.ffn.layer_norm
        _norm(before_attention, hyper, tensors, f"{name}.gamma{first}")
        _norm(before_mlp, hyper, tensors, f"{name}.gamma{mlp}")
    return spec


def _common(specs: Any, hyper: Hyper) -> dict[str, Any]:
    """What encoders and decoders are told alike."""
    heads = hyper.heads
    options: dict[str, Any] = {
        "activation": specs.Activation[ACTIVATIONS[hyper.activation]],
        "ffn_glu": isinstance(MLPS[hyper.activation], Gated),
        "rms_norm": hyper.norm.startswith("RMS"),
        "num_heads_kv": heads.H_kv,
        "head_dim": heads.d_attn,
        "qk_norm": bool(getattr(hyper, "qk_norm", False)),
    }
    if hyper.positions == "rotary":
        options |= {"rotary_dim": hyper.d_rot, "rotary_interleave": False, "rotary_base": hyper.rotary_base}
        if hyper.rotary_scaling is not None:
            options |= {"rotary_scaling_type": specs.RotaryScalingType.Linear, "rotary_scaling_factor": hyper.rotary_scaling[0]}
    return options


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().contiguous().numpy()


def _linear(spec: Any, tensors: Tensors, W: str, b: str) -> None:
    spec.weight = _array(tensors[W])
    if b in tensors:
        spec.bias = _array(tensors[b])


def _norm(spec: Any, hyper: Hyper, tensors: Tensors, gamma: str) -> None:
    scale, beta = tensors[gamma].float(), gamma.replace("gamma", "beta")
    spec.gamma = _array(1 + scale if hyper.norm == "RMSnorm_1p" else scale)
    if beta in tensors:
        spec.beta = _array(tensors[beta])


def _attention(spec: Any, hyper: Hyper, tensors: Tensors, name: str, matrices: tuple[str, ...]) -> None:
    for linear, W in zip(spec.linear, matrices, strict=True):
        _linear(linear, tensors, f"{name}.{W}", f"{name}.b{W[1:]}")
    if getattr(hyper, "qk_norm", False):
        _norm(spec.q_norm, hyper, tensors, f"{name}.gamma_q")
        _norm(spec.k_norm, hyper, tensors, f"{name}.gamma_k")


def _mlp(spec: Any, hyper: Hyper, tensors: Tensors, name: str, number: int) -> None:
    _linear(spec.linear_1, tensors, f"{name}.W_mlp{number + 1}", f"{name}.b_mlp{number + 1}")
    if not isinstance(MLPS[hyper.activation], Gated):
        _linear(spec.linear_0, tensors, f"{name}.W_mlp{number}", f"{name}.b_mlp{number}")
        return
    parts = {key: tensors[key].chunk(2) for key in (f"{name}.W_glu{number}", f"{name}.b_glu{number}") if key in tensors}
    for i, linear in enumerate((spec.linear_0, spec.linear_0_noact)):
        _linear(linear, {key: pair[i] for key, pair in parts.items()}, f"{name}.W_glu{number}", f"{name}.b_glu{number}")


def _positions(spec: Any, hyper: Hyper, tensors: Tensors) -> None:
    """Written out, for its own sinusoids begin at 1; zeros where there are none, and where queries and keys turn."""
    table = POSITIONS[hyper.positions].formal_table(hyper)
    spec.position_encodings.encodings = _array(tensors["W_p"] if table is None else table.T)


def _vocabulary(run: Exported) -> list[str]:
    """A name for every row of the embedding."""
    core = run.tokenizer.core
    names = [core.id_to_token(one) or f"<unused {one}>" for one in range(run.hyper.N_V)]
    if len(set(names)) < len(names):
        raise ValueError("ctranslate2 takes a vocabulary in which every token has a name of its own; this one has some twice")
    return names
