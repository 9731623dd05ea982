"""gguf files, as llama.cpp reads them, of the architectures llama, gpt2 and gptneox: their names, and how they are read.

The package `gguf` of the extra `export` is needed.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor

from transalg.formal.positions import llama3_scaling, rotary_frequencies
from transalg.hyper import DHyper, SpecialTokens
from transalg.interop.checkpoint import Checkpoint
from transalg.interop.family import Family
from transalg.interop.matching import match
from transalg.interop.names import PAIRS, Shape, Source, joined, linear, norm, rows
from transalg.interop.pieces import beginning_with, byte_pairs, sentence_pieces
from transalg.interop.settings import Settings
from transalg.interop.vocabulary import read_vocabulary

TYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")  # of numbers that can be read
LAYER = "blk.*."
LLAMA_SOURCES = {
    "W_e": rows("token_embd.weight"),
    "layers.*.gamma1": rows(f"{LAYER}attn_norm.weight"),
    **{
        f"layers.*.W.{letter}_qkv": Source(tuple(f"{LAYER}attn_{one}.{kind}" for one in "qkv"), PAIRS)
        for letter, kind in (("W", "weight"), ("b", "bias"))
    },
    **linear("layers.*.W.W_o", f"{LAYER}attn_output"),
    "layers.*.gamma2": rows(f"{LAYER}ffn_norm.weight"),
    **linear("layers.*.W_glu1", f"{LAYER}ffn_gate", f"{LAYER}ffn_up"),
    **linear("layers.*.W_mlp2", f"{LAYER}ffn_down"),
    "gamma": rows("output_norm.weight"),
    "W_u": rows("output.weight"),
}
GPT2_SOURCES = {
    "W_e": rows("token_embd.weight"),
    "W_p": rows("position_embd.weight"),
    **norm("layers.*.gamma1", f"{LAYER}attn_norm"),
    **linear("layers.*.W.W_qkv", f"{LAYER}attn_qkv"),
    **linear("layers.*.W.W_o", f"{LAYER}attn_output"),
    **norm("layers.*.gamma2", f"{LAYER}ffn_norm"),
    **linear("layers.*.W_mlp1", f"{LAYER}ffn_up"),
    **linear("layers.*.W_mlp2", f"{LAYER}ffn_down"),
    **norm("gamma", "output_norm"),
    "W_u": rows("output.weight"),
}
NEOX_SOURCES = {name: source for name, source in GPT2_SOURCES.items() if name != "W_p"}
LLAMA3 = [(8.0, 1.0, 4.0, 8192.0), (32.0, 1.0, 4.0, 8192.0)]  # the scalings of Llama 3.1 and 3.2
ROPE_FACTORS = "rope_freqs.weight"


class GGUFWeights:
    """The tensors of a gguf file by name, memory-mapped, in float32."""

    def __init__(self, reader: Any, where: str) -> None:
        self._tensors, self.where = {str(tensor.name): tensor for tensor in reader.tensors}, where

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> Shape:
        return tuple(int(size) for size in reversed(self._tensors[name].shape))

    def tensor(self, name: str) -> Tensor:
        from gguf.quants import dequantize

        tensor = self._tensors[name]
        kind = tensor.tensor_type.name
        if kind not in TYPES:
            raise ValueError(f"{self.where}: {name}: expected numbers of {', '.join(TYPES)}, got {kind}")
        return torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).view(self.shape(name))


def read(path: Path, tokenizer: str | None = None) -> Checkpoint:
    """The checkpoint in a file."""
    values, weights = _open(path)
    config = Settings(values, str(path))
    architecture = config.text("general.architecture")
    if architecture not in ARCHITECTURES:
        raise ValueError(f"{path}: general.architecture: expected {' or '.join(ARCHITECTURES)}, got {architecture!r}: it is not supported")
    if "token_embd.weight" not in weights:
        raise ValueError(f"{path}: lacks a tensor that the model needs: token_embd.weight")
    family = ARCHITECTURES[architecture]
    sizes: dict[str, Any] = {"N_V": weights.shape("token_embd.weight")[0], "tied": "output.weight" not in weights}
    sizes |= {"rope_factors": weights.tensor(ROPE_FACTORS) if ROPE_FACTORS in weights else None}
    sizes |= {"bias": [f"blk.0.{one}.bias" in weights for one in ("attn_q", "attn_output", "ffn_up")]}
    try:
        hyper = family.hyper(Settings(values | sizes, str(path)))
    except ValueError as error:
        raise error if str(error).startswith(str(path)) else ValueError(f"{path}: {error}") from error
    assert isinstance(hyper, DHyper)
    matched = match(family, hyper, weights)  # type: ignore[arg-type]
    core, special = _tokenizer(config, hyper.N_V) if tokenizer is None else (read_vocabulary(path.parent, hyper.N_V, tokenizer), None)
    hyper = hyper.replace(special=special or _special(config, hyper.N_V, default=architecture == "llama"))
    return Checkpoint(hyper=hyper, tensors=joined(hyper, family.sources, matched.tensor), dtype=torch.float32, core=core)


def _open(path: Path) -> tuple[dict[str, Any], GGUFWeights]:
    """All values of the header, and the tensors."""
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise ValueError(f"{path}: a gguf file needs the package gguf; pip install 'transalg[export]'") from error
    try:
        reader = GGUFReader(path)
        values = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
        return values, GGUFWeights(reader, str(path))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # a damaged file fails in many ways, of which only its reader's own messages tell something
        said = str(error).splitlines()[0] if type(error) is ValueError and str(error) else "its parts do not fit together"
        raise ValueError(f"{path}: not a complete gguf file: {said}") from error


def _sizes(config: Settings, architecture: str) -> dict[str, Any]:
    named = partial("{}.{}".format, architecture)
    return {
        "N_V": config.values["N_V"],
        "tied": config.values["tied"],
        "ell_max": config.size(named("context_length")),
        "L": config.layers(named("block_count")),
        "H": config.size(named("attention.head_count")),
        "d_e": config.size(named("embedding_length")),
        "d_mlp": config.size(named("feed_forward_length")),
    }


def llama_hyper(config: Settings) -> DHyper:
    sizes = _sizes(config, "llama")
    d_attn = config.size("llama.attention.key_length", max(1, sizes["d_e"] // sizes["H"]))
    config.require("llama.rope.dimension_count", d_attn, "for all components of a head turn", default=d_attn)
    return DHyper(
        **sizes,
        d_attn=d_attn,
        d_mid=config.size("llama.attention.value_length", d_attn),
        H_kv=config.size("llama.attention.head_count_kv", sizes["H"]),
        eps=config.number("llama.attention.layer_norm_rms_epsilon", 1e-5),
        rotary_base=config.number("llama.rope.freq_base", 10000.0),
        rotary_scaling=_scaling(config, d_attn),
        positions="rotary",
        norm="RMSnorm",
        activation="SwiGLU",
        bias=_bias(config),
    )


def _bias(config: Settings) -> str:
    kinds = {(False, False, False): "none", (True, False, False): "qkv", (True, True, True): "all"}
    present = tuple(config.values["bias"])
    if present not in kinds:
        raise ValueError(f"{config.where}: expected biases of q, k and v, of all projections, or of none; got some others")
    return kinds[present]


def _scaling(config: Settings, d_attn: int) -> tuple[float, ...] | None:
    """A factor for all frequencies; or Llama 3's, which is a table of factors."""
    factors = config.values["rope_factors"]
    if factors is not None:
        omega = rotary_frequencies(d_attn, config.number("llama.rope.freq_base", 10000.0))
        for numbers in LLAMA3:
            expected = omega / llama3_scaling(omega, *numbers)
            if factors.shape == expected.shape and torch.allclose(factors.double(), expected, rtol=1e-5):
                return numbers
        raise ValueError(f"{config.where}: {ROPE_FACTORS}: expected the factors of Llama 3.1 or 3.2, got others")
    name = config.text("llama.rope.scaling.type", "none")
    if name == "none":
        return None
    config.require("llama.rope.scaling.type", "linear", "or none")
    return (config.number("llama.rope.scaling.factor"),)


def gpt2_hyper(config: Settings) -> DHyper:
    return DHyper(
        **_sizes(config, "gpt2"),
        eps=config.number("gpt2.attention.layer_norm_epsilon", 1e-5),
        activation="tanh_GELU",
    )


def neox_hyper(config: Settings) -> DHyper:
    sizes = _sizes(config, "gptneox")
    return DHyper(
        **sizes,
        eps=config.number("gptneox.attention.layer_norm_epsilon", 1e-5),
        positions="rotary",
        rotary_base=config.number("gptneox.rope.freq_base", 10000.0),
        d_rot=config.size("gptneox.rope.dimension_count", max(1, sizes["d_e"] // sizes["H"])),
        parallel=config.flag("gptneox.use_parallel_residual", True),
    )


def _special(config: Settings, N_V: int, *, default: bool) -> SpecialTokens:
    """bos, if it stands before a text, and eos."""
    bos, eos = (config.token_ids(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos"))
    adds = config.flag("tokenizer.ggml.add_bos_token", default)
    inside = [[one for one in ids if 0 <= one < N_V] for ids in (bos if adds else [], eos)]
    return SpecialTokens(None, *(ids[0] if ids else None for ids in inside))  # type: ignore[arg-type]


def _tokenizer(config: Settings, N_V: int) -> tuple[tokenizers.Tokenizer, SpecialTokens]:
    kind = config.text("tokenizer.ggml.model")
    tokens = config.values.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not 1 <= len(tokens) <= N_V:
        raise ValueError(f"{config.where}: tokenizer.ggml.tokens: expected at most N_V = {N_V} tokens, got {len(tokens or ())}")
    types = config.values.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    control = [one for one, each in enumerate(types[: len(tokens)]) if each == 3]
    special = _special(config, len(tokens), default=kind == "llama")
    try:
        if kind == "gpt2":
            merges = config.values.get("tokenizer.ggml.merges") or []
            core = byte_pairs(tokens, merges, [*control, *special.ids], config.text("tokenizer.ggml.pre", "default"))
        elif kind == "llama":
            scores = config.values.get("tokenizer.ggml.scores") or [0.0] * len(tokens)
            unknown = config.token_ids("tokenizer.ggml.unknown_token_id") or [0]
            prefix = config.flag("tokenizer.ggml.add_space_prefix", True)
            core = sentence_pieces(tokens, scores, [*control, *special.ids], unknown=unknown[0] if 2 in types else None, prefix=prefix)
        else:
            raise config.wrong("tokenizer.ggml.model", "gpt2 or llama", kind)
    except ValueError as error:
        raise error if str(error).startswith(config.where) else ValueError(f"{config.where}: {error}") from error
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"{config.where}: not a tokenizer: {str(error).splitlines()[0]}") from error
    return (core if special.bos is None else beginning_with(core, special.bos)), special


def _no_config(hyper: object) -> dict[str, Any]:
    raise NotImplementedError("a gguf file has no config.json")


ARCHITECTURES = {
    "llama": Family(
        model_type="llama",
        architectures=(),
        hyper=llama_hyper,
        config=_no_config,
        sources=LLAMA_SOURCES,
        marker="token_embd.weight",
        constants=(r"rope_freqs\.weight", r"blk\.\d+\.attn_rot_embd", r"blk\.\d+\.attn\.rope\.freqs"),
    ),
    "gpt2": Family(
        model_type="gpt2", architectures=(), hyper=gpt2_hyper, config=_no_config, sources=GPT2_SOURCES, marker="token_embd.weight"
    ),
    "gptneox": Family(
        model_type="gptneox", architectures=(), hyper=neox_hyper, config=_no_config, sources=NEOX_SOURCES, marker="token_embd.weight"
    ),
}
