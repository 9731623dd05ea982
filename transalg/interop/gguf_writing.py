"""A run as a gguf file for llama.cpp: its sizes, its tensors in one of three kinds of numbers, its tokenizer."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers
from torch import Tensor

from transalg.hyper import DHyper, Hyper
from transalg.interop.export import Exported
from transalg.interop.fitting import fit
from transalg.interop.gguf import ARCHITECTURES, ROPE_FACTORS
from transalg.interop.names import taken_apart
from transalg.interop.pieces import PATTERNS, SPACE
from transalg.model.positions import frequencies
from transalg.tokenization.tokenizer import vocabulary_size

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6  # types of tokens
BLOCK = 32  # numbers that q8_0 scales together
FILE = "model.gguf"


def write(run: Exported, folder: Path, numbers: str = "f32") -> str:
    """model.gguf; which architecture it has."""
    try:
        import gguf
    except ImportError as error:
        raise ValueError("gguf needs the package gguf; pip install 'transalg[export]'") from error
    architecture = fit(run.hyper, "gguf", ARCHITECTURES, lambda name: f"llama.cpp's {name}", lambda name: KNOWN[name](run.hyper))
    assert isinstance(run.hyper, DHyper)
    tokens = _tokens(run)
    writer = gguf.GGUFWriter(folder / FILE, architecture)
    writer.add_name(run.folder.resolve().name)
    writer.add_file_type(
        {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}[numbers]
    )
    _add_sizes(writer, architecture, run.hyper)
    for name, value in tokens.items():
        _add(writer, f"tokenizer.ggml.{name}", value)
    for name, tensor in _tensors(run, architecture):
        kind = _kind(name, tensor, numbers)
        array = gguf.quants.quantize(tensor.float().contiguous().numpy(), gguf.GGMLQuantizationType[kind])
        writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return f"{architecture}, {numbers}"


def _as_gpt2(hyper: Hyper) -> DHyper | None:
    if not isinstance(hyper, DHyper):
        return None
    return DHyper(**_sizes(hyper), activation="tanh_GELU")


def _as_neox(hyper: Hyper) -> DHyper | None:
    if not isinstance(hyper, DHyper) or hyper.positions != "rotary":
        return None
    gelu = hyper.activation if hyper.activation == "tanh_GELU" else "GELU"  # llama.cpp has one for both
    rotary: dict[str, Any] = {"d_rot": hyper.d_rot, "rotary_base": hyper.rotary_base}
    return DHyper(**_sizes(hyper), **rotary, positions="rotary", activation=gelu, parallel=hyper.parallel)


def _as_llama(hyper: Hyper) -> DHyper | None:
    if not isinstance(hyper, DHyper):
        return None
    scaled: dict[str, Any] = {"rotary_base": hyper.rotary_base, "rotary_scaling": hyper.rotary_scaling}
    rotary = scaled if hyper.positions == "rotary" else {}
    widths: dict[str, Any] = {"d_attn": hyper.d_attn, "d_mid": hyper.d_mid, "H_kv": hyper.H_kv, "bias": hyper.bias}
    return DHyper(**_sizes(hyper), **rotary, **widths, positions="rotary", norm="RMSnorm", activation="SwiGLU")


def _sizes(hyper: DHyper) -> dict[str, Any]:
    return {name: getattr(hyper, name) for name in ("N_V", "ell_max", "L", "H", "d_e", "d_mlp", "eps", "tied")}


KNOWN: dict[str, Callable[[Hyper], DHyper | None]] = {"llama": _as_llama, "gpt2": _as_gpt2, "gptneox": _as_neox}


def _tensors(run: Exported, architecture: str) -> list[tuple[str, Tensor]]:
    hyper = run.hyper
    assert isinstance(hyper, DHyper)
    tensors = list(taken_apart(hyper, ARCHITECTURES[architecture].sources, run.tensors))
    if architecture == "gptneox" and hyper.tied:  # which knows no tie
        tensors.append(("output.weight", run.tensors["W_e"]))
    if hyper.rotary_scaling is not None and len(hyper.rotary_scaling) > 1:
        tensors.append((ROPE_FACTORS, (frequencies(replace(hyper, rotary_scaling=None)) / frequencies(hyper)).float()))
    return tensors


def _kind(name: str, tensor: Tensor, numbers: str) -> str:
    """Vectors and positions stay in float32; so do rows that are not made of blocks, in half precision."""
    if numbers == "f32" or tensor.ndim < 2 or name == "position_embd.weight":
        return "F32"
    return "Q8_0" if numbers == "q8_0" and tensor.shape[-1] % BLOCK == 0 else "F16"


def _add_sizes(writer: Any, architecture: str, hyper: DHyper) -> None:
    heads = hyper.heads
    writer.add_block_count(hyper.L)
    writer.add_context_length(hyper.ell_max)
    writer.add_embedding_length(hyper.d_e)
    writer.add_feed_forward_length(hyper.d_mlp)
    writer.add_head_count(hyper.H)
    writer.add_vocab_size(hyper.N_V)
    if architecture == "llama":
        writer.add_layer_norm_rms_eps(hyper.eps)
        writer.add_head_count_kv(heads.H_kv)
        writer.add_key_length(heads.d_attn)
        writer.add_value_length(heads.d_mid)
    else:
        writer.add_layer_norm_eps(hyper.eps)
    if hyper.positions == "rotary":
        writer.add_rope_dimension_count(hyper.d_rot)
        writer.add_rope_freq_base(hyper.rotary_base)
    if hyper.rotary_scaling is not None and len(hyper.rotary_scaling) == 1:
        writer.add_string(f"{architecture}.rope.scaling.type", "linear")
        writer.add_rope_scaling_factor(hyper.rotary_scaling[0])
    if architecture == "gptneox":
        writer.add_parallel_residual(hyper.parallel)


def _add(writer: Any, name: str, value: Any) -> None:
    """With the type that gguf has for it."""
    if isinstance(value, bool):
        writer.add_bool(name, value)
    elif isinstance(value, int):
        writer.add_uint32(name, value)
    elif isinstance(value, str):
        writer.add_string(name, value)
    else:
        writer.add_array(name, value)


# The tokenizer ---------------------------------------------------------------------------------------------------------


def _tokens(run: Exported) -> dict[str, Any]:
    """The values below tokenizer.ggml."""
    core, special, N_V = run.tokenizer.core, run.hyper.special_tokens, run.hyper.N_V
    model = json.loads(core.to_str())["model"]
    if model["type"] != "BPE":
        raise ValueError(
            f"gguf knows vocabularies of byte pairs, of pieces and of characters; the tokenizer of this run is a {model['type']}"
        )
    names = [core.id_to_token(one) or f"[UNUSED{one}]" for one in range(N_V)]
    types = [NORMAL if one < vocabulary_size(core) and core.id_to_token(one) else UNUSED for one in range(N_V)]
    for one, token in core.get_added_tokens_decoder().items():
        types[one] = CONTROL if token.special else 4
    for one in special.ids:
        types[one] = CONTROL
    values: dict[str, Any] = _byte_pairs(core, model) if run.tokenizer.byte_level else _pieces(core, model, names, types)
    values |= {"tokens": names, "token_type": types, "add_bos_token": special.bos is not None}
    ends = {"bos_token_id": special.bos if special.bos is not None else special.eos, "eos_token_id": special.eos}
    return values | {name: one for name, one in ends.items() if one is not None}


def _byte_pairs(core: tokenizers.Tokenizer, model: dict[str, Any]) -> dict[str, Any]:
    return {"model": "gpt2", "pre": _pattern(core), "merges": [one if isinstance(one, str) else " ".join(one) for one in model["merges"]]}


def _pattern(core: tokenizers.Tokenizer) -> str:
    """The name of the way in which a text is split."""
    pre = json.loads(core.to_str())["pre_tokenizer"] or {}
    parts = pre.get("pretokenizers", [pre])
    patterns = [one["pattern"].get("Regex") for one in parts if one["type"] == "Split"]
    regex = patterns[0] if patterns else None
    name = next((name for name, known in PATTERNS.items() if known == regex), None)
    if name is None or len(patterns) > 1:
        raise ValueError(f"gguf: the tokenizer splits texts in a way that has no name here; expected {', '.join(PATTERNS)}")
    return name


def _pieces(core: tokenizers.Tokenizer, model: dict[str, Any], names: list[str], types: list[int]) -> dict[str, Any]:
    """Characters, or pieces that are merged: an earlier merge is a higher score. ▁ stands for a space."""
    normalizer = json.loads(core.to_str())["normalizer"] or {}
    steps = [one["type"] for one in normalizer.get("normalizers", [normalizer]) if one]
    if core.pre_tokenizer is not None or set(steps) - {"Prepend", "Replace"}:
        raise ValueError("gguf knows pieces that are merged from characters, with ▁ for a space; the tokenizer of this run does more")
    scores = dict[str, float]()
    for rank, pair in enumerate(model["merges"], 1):
        scores.setdefault("".join(pair if isinstance(pair, list) else pair.split(" ")), -float(rank))
    values: dict[str, Any] = {"model": "llama", "pre": "default", "scores": [scores.get(name, -1e6) for name in names]}
    for one, name in enumerate(names):
        if len(name) == 6 and name.startswith("<0x"):
            types[one] = BYTE
        if types[one] == NORMAL and "Replace" not in steps:
            names[one] = name.replace(" ", SPACE)
    unknown = core.token_to_id(model["unk_token"]) if model.get("unk_token") else None
    if unknown is not None:
        types[unknown] = UNKNOWN
        values["unknown_token_id"] = unknown
    return values | {"add_space_prefix": "Prepend" in steps}
