"""A run as others read it: what every format is made from, and the tokenizer beside it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors
from torch import Tensor

from transalg.hyper import EDHyper, EHyper, Hyper
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.runs.metadata import Metadata
from transalg.runs.paths import load_config
from transalg.tokenization import Tokenizer

PADS = ("[PAD]", "<pad>", "<|pad|>")  # what others call it


@dataclass(frozen=True)
class Exported:
    """The parts of a run."""

    folder: Path
    metadata: Metadata
    config: Config
    tokenizer: Tokenizer
    tensors: dict[str, Tensor]

    @property
    def hyper(self) -> Hyper:
        return self.metadata.hyper


def open_run(folder: Path, checkpoint: run_folder.Checkpoint = run_folder.BEST) -> Exported:
    metadata = run_folder.model_metadata(folder, checkpoint)
    tokenizer = run_folder.load_tokenizer(folder, metadata.hyper)
    config = load_config(folder / run_folder.CONFIG)
    return Exported(folder, metadata, config, tokenizer, run_folder.model_tensors(folder, checkpoint))


def with_ends(run: Exported) -> tokenizers.Tokenizer:
    """The tokenizer, adding to a text what a model of this kind reads: bos … eos; bos … of a text to be continued; z of a pair."""
    core, special = tokenizers.Tokenizer.from_str(run.tokenizer.core.to_str()), run.hyper.special_tokens
    bos = special.bos if special.context_bos or not isinstance(run.hyper, EDHyper) else None
    eos = special.eos if isinstance(run.hyper, EDHyper | EHyper) else None
    ends = {name: str(core.id_to_token(one)) for name, one in (("bos", bos), ("eos", eos)) if one is not None}
    if ends:
        single = " ".join([*([ends["bos"]] if "bos" in ends else []), "$A", *([ends["eos"]] if "eos" in ends else [])])
        tokens = [(token, core.token_to_id(token)) for token in dict.fromkeys(ends.values())]
        core.post_processor = processors.TemplateProcessing(single=single, special_tokens=tokens)
    elif type(core.post_processor).__name__ != "ByteLevel":
        core.post_processor = processors.Sequence([])
    return core


def write_tokenizer(run: Exported, folder: Path) -> None:
    """tokenizer.json, and what AutoTokenizer reads beside it."""
    core, special = with_ends(run), run.hyper.special_tokens
    core.save(str(folder / "tokenizer.json"))
    names = {"mask_token": special.mask, "bos_token": special.bos, "eos_token": special.eos}
    if isinstance(run.hyper, EHyper):
        names |= {"cls_token": special.bos, "sep_token": special.eos}
    names["pad_token"] = _pad(core, run)
    settings: dict[str, Any] = {name: core.id_to_token(one) for name, one in names.items() if one is not None}
    write_json(folder / "special_tokens_map.json", settings)
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": run.hyper.ell_max, "clean_up_tokenization_spaces": False}
    write_json(folder / "tokenizer_config.json", settings)


def _pad(core: tokenizers.Tokenizer, run: Exported) -> int | None:
    """A token to fill a batch with, which masks hide: the one that is never written, one that is called so, or eos."""
    special = run.hyper.special_tokens
    called = [one for one in map(core.token_to_id, PADS) if one is not None]
    return [*special.never, *called, special.eos][0]


def write_json(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
