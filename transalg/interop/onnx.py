"""A run as onnx graphs, of any batch and length; decoders take and give keys and values. Needs the extra `export`."""

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from transalg.hyper import DHyper, EDHyper, GatoHyper, Hyper
from transalg.interop.export import Exported, write_tokenizer
from transalg.interop.fitting import fit
from transalg.interop.onnx_modules import DecoderGraph, EncoderGraph, SourceGraph, TargetGraph
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer, build

BATCH, LENGTH, PAST = 2, 3, 5  # of the example that is traced; all three are free in the graph
IDS = ("input_ids", "attention_mask")
CACHE = ("past_keys", "past_values")
FREE: Any = torch.export.Dim.DYNAMIC  # a size that the graph leaves open


def write(run: Exported, folder: Path, numbers: str = "float32") -> str:
    """model.onnx; or encoder.onnx and decoder.onnx of an encoder–decoder."""
    try:
        import onnxscript  # noqa: F401  # torch writes graphs with it
    except ImportError as error:
        raise ValueError("onnx needs the packages onnx and onnxscript; pip install 'transalg[export]'") from error
    hyper = run.hyper
    known: Hyper | None = hyper.replace(positions="learned") if hyper.positions == "relative" else hyper
    known = None if isinstance(hyper, GatoHyper) else known
    fit(hyper, "onnx", ["onnx"], lambda name: "what can be written", lambda name: known)
    model = build(hyper, device="meta")
    model.load_state_dict({name: tensor.float() for name, tensor in run.tensors.items()}, assign=True)
    model.eval().requires_grad_(False)
    write_tokenizer(run, folder)
    for name, (graph, arguments, free, outputs) in _graphs(model).items():
        _write(folder / f"{name}.onnx", graph, arguments, free, outputs)
    return "onnx, " + ", ".join(sorted(path.name for path in folder.glob("*.onnx")))


Graph = tuple[nn.Module, dict[str, Tensor], dict[str, dict[int, Any]], list[str]]  # its arguments, their free sizes, its outputs


def _graphs(model: nn.Module) -> dict[str, Graph]:
    """The graphs of a model by the names of their files. No two arguments are one tensor, for a graph would take them for one input."""
    whole = torch.ones(BATCH, LENGTH, dtype=torch.long)
    both = {0: FREE, 1: FREE}
    if isinstance(model, DTransformer):
        past = torch.ones(BATCH, PAST + LENGTH, dtype=torch.long)
        arguments = {"input_ids": whole, "attention_mask": past, **_cache(model.hyper, model.hyper.L)}
        free = {"input_ids": both, "attention_mask": {0: FREE, 1: FREE}, **_free_cache()}
        return {"model": (DecoderGraph(model), arguments, free, ["logits", "keys", "values"])}
    if isinstance(model, ETransformer | Classifier):
        names = (*IDS, "token_type_ids") if model.hyper.segments else IDS
        arguments = {name: torch.zeros_like(whole) if name == "token_type_ids" else whole.clone() for name in names}
        bare = isinstance(model, ETransformer) and model.hyper.head == "none"
        return {"model": (EncoderGraph(model), arguments, dict.fromkeys(names, both), ["last_hidden_state" if bare else "logits"])}
    assert isinstance(model, EDTransformer)
    Z, source = torch.zeros(BATCH, PAST + 2, model.hyper.d_e), {0: FREE, 1: FREE}
    arguments = {"input_ids": whole, "encoder_hidden_states": Z, "encoder_attention_mask": torch.ones(BATCH, PAST + 2, dtype=torch.long)}
    free = {"input_ids": both, "encoder_hidden_states": source, "encoder_attention_mask": source, **_free_cache()}
    arguments |= _cache(model.hyper, model.hyper.L_dec)
    return {
        "encoder": (SourceGraph(model), {name: whole.clone() for name in IDS}, dict.fromkeys(IDS, both), ["encoder_hidden_states"]),
        "decoder": (TargetGraph(model), arguments, free, ["logits", "keys", "values"]),
    }


def _free_cache() -> dict[str, dict[int, Any]]:
    return {name: {1: FREE, 3: FREE} for name in CACHE}


def _cache(hyper: DHyper | EDHyper, layers: int) -> dict[str, Tensor]:
    heads = hyper.heads
    shapes = [(layers, BATCH, heads.H_kv, PAST, width) for width in (heads.d_attn, heads.d_mid)]
    return {name: torch.zeros(shape) for name, shape in zip(CACHE, shapes, strict=True)}


def _write(path: Path, graph: nn.Module, arguments: dict[str, Tensor], free: dict[str, dict[int, Any]], outputs: list[str]) -> None:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        disabled = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            program = torch.onnx.export(
                graph,
                (),
                kwargs=arguments,
                dynamic_shapes=free,
                input_names=list(arguments),
                output_names=outputs,
                dynamo=True,
                verbose=False,
            )
        finally:
            logging.disable(disabled)
        assert program is not None
        program.save(str(path))


def empty_cache(hyper: DHyper | EDHyper, batch: int) -> dict[str, Tensor]:
    """past_keys and past_values before the first token."""
    layers = hyper.L_dec if isinstance(hyper, EDHyper) else hyper.L
    return {name: part[:, :1, :, :0].expand(-1, batch, -1, -1, -1).contiguous() for name, part in _cache(hyper, layers).items()}
