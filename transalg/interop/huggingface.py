"""Hugging Face's folders: config.json, weights, a tokenizer; for encoders what sentence-transformers says about pooling."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from transalg.hyper import ClassifierHyper, EDHyper, EHyper, Hyper
from transalg.interop.bert import labels
from transalg.interop.card import card
from transalg.interop.checkpoint import Checkpoint
from transalg.interop.export import Exported, write_json, write_tokenizer
from transalg.interop.families import FAMILIES, family_of
from transalg.interop.family import Family
from transalg.interop.fitting import fit
from transalg.interop.matching import match
from transalg.interop.names import joined, taken_apart
from transalg.interop.settings import Settings, read_json
from transalg.interop.vocabulary import read_vocabulary, special_tokens
from transalg.interop.weights import Weights, open_weights
from transalg.reading import read_json as read_any_json
from transalg.runs.checkpoints import write_safetensors

SYSTEMS = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma": "Gemma", "gpt_neox": "GPTNeoX"}
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first", "pooling_mode_max_tokens": "max"}


def _system(family: Family, hyper: Hyper) -> str:
    """The published system whose difference from the paper's algorithm is this model's; GPT-NeoX has parallel sub-layers."""
    return "" if family.model_type == "gpt_neox" and not getattr(hyper, "parallel", False) else SYSTEMS.get(family.model_type, "")


def read(folder: Path, stack: ExitStack, *, tokenizer: str | None = None, allow_pickle: bool = False) -> Checkpoint:
    """The checkpoint in a folder; its files stay open until the stack closes."""
    if not (folder / "config.json").exists():
        raise ValueError(f"{folder}: expected a folder with config.json, as transformers saves it; there is none")
    config = Settings(read_json(folder / "config.json"), str(folder / "config.json"))
    weights = open_weights(folder, stack, allow_pickle=allow_pickle)
    family = family_of(config, list(weights))
    config = Settings(dict(config.values) | {"model_type": family.model_type}, config.where)
    try:
        hyper = family.hyper(config)
    except ValueError as error:
        raise error if str(error).startswith(config.where) else ValueError(f"{config.where}: {error}") from error
    if isinstance(hyper, EDHyper) and "final_logits_bias" not in weights:
        hyper = hyper.replace(output_bias=False)
    matched = match(family, hyper, weights)
    core = read_vocabulary(folder, hyper.N_V, tokenizer)
    generation = folder / "generation_config.json"
    special = special_tokens(
        core,
        folder,
        config,
        Settings(read_json(generation) if generation.exists() else {}, str(generation)),
        hyper.N_V,
        pairs=isinstance(hyper, EDHyper),
        continues=not isinstance(hyper, EHyper),
    )
    hyper = hyper.replace(special=special)
    return Checkpoint(
        hyper=hyper,
        tensors=joined(hyper, family.sources, matched.tensor),
        dtype=_dtype(weights),
        core=core,
        labels=labels(config) if isinstance(hyper, ClassifierHyper) else (),
        embedding=_embedding(folder) if _bare(hyper) else None,
        left_out=matched.left_out,
    )


def _bare(hyper: Hyper) -> bool:
    return isinstance(hyper, EHyper) and hyper.head == "none"


def _dtype(weights: Weights) -> torch.dtype:
    """Of the run: float64 if all tensors are, otherwise float32."""
    return torch.float64 if all(weights.dtype(name) == "F64" for name in weights) else torch.float32


def _embedding(folder: Path) -> dict[str, Any] | None:
    """Pooling and norm of sentence-transformers, if the folder has them."""
    path = folder / "modules.json"
    if not path.exists():
        return None
    modules = read_any_json(path)
    try:
        kinds = [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in modules]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a list of modules as sentence-transformers writes it") from error
    result: dict[str, Any] = {"normalize": False}
    for kind, name in kinds:
        if kind == "Pooling":
            result["pooling"] = _pooling(folder / Path(name).name / "config.json")
        elif kind == "Normalize":
            result["normalize"] = True
        elif kind != "Transformer":
            raise ValueError(f"{path}: expected Transformer, Pooling and Normalize, got {kind}: this module is not supported")
    return result


def _pooling(path: Path) -> str:
    modes = [name for name, chosen in read_json(path).items() if name.startswith("pooling_mode") and chosen is True]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ValueError(f"{path}: expected one of {', '.join(POOLINGS)}, got {', '.join(modes) or 'none'}")
    return POOLINGS[modes[0]]


# Out -------------------------------------------------------------------------------------------------------------------


def write(run: Exported, folder: Path, numbers: str = "float32") -> str:
    """A folder that transformers' Auto classes load; the name of the class. Numbers are those of the run."""
    family = family_for(run.hyper)
    hyper = family.hyper(their_settings(family, run.hyper))
    if isinstance(run.hyper, EDHyper) and not run.hyper.output_bias:
        hyper = hyper.replace(output_bias=False)
    tensors = list(taken_apart(hyper, family.sources, run.tensors))
    tensors += [(copy, dict(tensors)[name]) for copy, name in (*family.repeated.items(), *family.second_names.items())]
    dtype = torch.float64 if all(tensor.dtype == torch.float64 for _, tensor in tensors) else torch.float32
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors}
    write_safetensors(folder / "model.safetensors", shapes, dtype, tensors, {})
    write_json(folder / "config.json", _config(run, family, str(dtype).removeprefix("torch.")))
    write_json(folder / "generation_config.json", _generation(run))
    write_tokenizer(run, folder)
    if run.metadata.embedding is not None:
        _write_modules(run, folder)
    (folder / "README.md").write_text(card(run, _system(family, run.hyper)), encoding="utf-8")
    return family.architectures[0]


def family_for(hyper: Hyper) -> Family:
    """The first family that computes what this model computes."""

    def understood(family: Family) -> Hyper | None:
        try:
            other = family.hyper(their_settings(family, hyper))
        except (AttributeError, KeyError):  # a model of another kind
            return None
        return other.replace(output_bias=False) if isinstance(other, EDHyper) and not getattr(hyper, "output_bias", True) else other

    return fit(hyper, "huggingface", FAMILIES, lambda family: family.architectures[0], understood)


def their_settings(family: Family, hyper: Hyper) -> Settings:
    return Settings(family.config(hyper) | {"model_type": family.model_type})


def _config(run: Exported, family: Family, dtype: str) -> dict[str, Any]:
    special = run.hyper.special_tokens
    values = {"model_type": family.model_type, "architectures": [family.architectures[0]], "dtype": dtype} | family.config(run.hyper)
    values |= {"bos_token_id": special.bos, "eos_token_id": special.eos, "pad_token_id": special.never[0] if special.never else None}
    if isinstance(run.hyper, EDHyper):
        values |= {"decoder_start_token_id": special.bos, "forced_eos_token_id": None}
    if run.metadata.labels:
        values["id2label"] = {str(i): label for i, label in enumerate(run.metadata.labels)}
        values["label2id"] = {label: i for i, label in enumerate(run.metadata.labels)}
    return values


def _generation(run: Exported) -> dict[str, Any]:
    special = run.hyper.special_tokens
    values: dict[str, Any] = {"bos_token_id": special.bos, "eos_token_id": special.eos, "max_length": run.hyper.ell_max}
    values |= {"decoder_start_token_id": special.bos} if isinstance(run.hyper, EDHyper) else {}
    values |= {"bad_words_ids": [[one] for one in special.never], "pad_token_id": special.never[0]} if special.never else {}
    return {name: value for name, value in values.items() if value is not None}


def _write_modules(run: Exported, folder: Path) -> None:
    """What sentence-transformers reads."""
    embedding = run.metadata.embedding or {}
    modes = {name: pooling == embedding.get("pooling", "mean") for name, pooling in POOLINGS.items()}
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": run.hyper.d_e} | modes)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), *([("2_Normalize", "Normalize")] if embedding.get("normalize") else [])]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (path, kind) in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": run.hyper.ell_max, "do_lower_case": False})
