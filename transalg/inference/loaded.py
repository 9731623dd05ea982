"""What a trained model is made of: folders, models, a tokenizer, labels; and text as token IDs that its models take."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from transalg.cpu import quantize as quantized
from transalg.data.datasets import blocks
from transalg.inference.ensemble import common_ell_max
from transalg.inference.options import TooLong
from transalg.inference.results import CutText, NoBest
from transalg.model import Gato
from transalg.model.architectures import Model
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.runs.models import device_named, load_model
from transalg.runs.paths import load_config
from transalg.tasks import Ability, find
from transalg.tokenization import Tokenizer
from transalg.tokenization.modalities import Spaces, Vocabulary
from transalg.tokenization.spaces import from_json

Quantize = Literal["int8"] | None


@dataclass(frozen=True)
class Loaded:
    """The parts of a run, or of several runs of one vocabulary, which are an ensemble."""

    folders: tuple[Path, ...]
    task: str
    models: tuple[Model, ...]
    tokenizer: Tokenizer
    labels: tuple[str, ...]
    configs: tuple[Config, ...]
    embedding: Mapping[str, Any] = field(default_factory=dict)  # how the model was made to embed, if it says so
    episodes: tuple[dict[str, Any], ...] = ()  # of each task of gato: its name, its world, spaces and scores

    @classmethod
    def load(
        cls, *folders: str | Path, device: str = "cpu", quantize: Quantize = None, checkpoint: run_folder.Checkpoint = run_folder.BEST
    ) -> Self:
        """Load the runs in these folders to this device; with quantize="int8", with weights in 8 bits.

        Of each the best checkpoint, or the last one. Where there is no best one yet, the last one with a warning.
        """
        if not folders:
            raise ValueError("expected the folder of a run")
        runs = [cls._one(Path(folder), device, checkpoint) for folder in folders]
        first = runs[0]
        for other in runs[1:]:
            if (other.task, other.labels, other.tokenizer.digest()) != (first.task, first.labels, first.tokenizer.digest()):
                raise ValueError(f"{other.folder}: expected the task, the vocabulary and the classes of {first.folder}, got others")
        models = [quantized(each.model, quantize) if quantize else each.model for each in runs]
        configs = tuple(each.configs[0] for each in runs)
        return cls(
            tuple(each.folder for each in runs),
            first.task,
            tuple(models),
            first.tokenizer,
            first.labels,
            configs,
            first.embedding,
            first.episodes,
        )

    @classmethod
    def _one(cls, folder: Path, device: str, checkpoint: run_folder.Checkpoint) -> Self:
        if run_folder.find_checkpoint(folder, checkpoint) != checkpoint:
            warnings.warn(f"{folder}: there is no best checkpoint before the first validation; this is the last one", NoBest, stacklevel=4)
        model, metadata = load_model(folder, device_named(device), checkpoint)
        tokenizer = run_folder.load_tokenizer(folder, model.hyper)
        config = load_config(folder / run_folder.CONFIG)
        if config.task != metadata.task:
            raise ValueError(f"{folder / run_folder.CONFIG}: task: expected {metadata.task}, as in the checkpoint, got {config.task}")
        episodes = tuple(metadata.episodes or ())
        return cls((folder,), metadata.task, (model,), tokenizer, metadata.labels, (config,), metadata.embedding or {}, episodes)

    @property
    def folder(self) -> Path:
        """The folder of the first run."""
        return self.folders[0]

    @property
    def model(self) -> Model:
        """The model of the first run."""
        return self.models[0]

    @property
    def config(self) -> Config:
        """The configuration of the first run."""
        return self.configs[0]

    @property
    def ell_max(self) -> int:
        """ℓ_max, the longest sequence that all models take."""
        return common_ell_max(self.models)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of all modalities, for a model that has them."""
        if not isinstance(self.model, Gato):
            raise ValueError(f"{self.folder}: expected a model of all modalities, got one for {self.task}")
        return Vocabulary.of(self.tokenizer, self.model.hyper.C)

    def spaces(self, task: str) -> Spaces:
        """What a task observes and does."""
        for each in self.episodes:
            if task in (each["name"], each["world"]):
                return Spaces(from_json(each["observation"]), from_json(each["action"]))
        raise ValueError(f"{task}: expected one of the tasks of {self.folder}, {', '.join(each['name'] for each in self.episodes)}")

    @property
    def heads(self) -> dict[str, range]:
        """The classes of each data set, for a model of several."""
        return blocks(self.labels) if find(self.task).has_heads else {}

    def head(self, name: str | None) -> tuple[range, tuple[str, ...]]:
        """The classes of a head and their labels; all classes if the model has no heads. A ValueError for a name that is none."""
        heads = self.heads
        if not heads:
            if name is not None:
                raise ValueError(f"--head: expected none, for {self.folder} is a model for {self.task}, got {name!r}")
            return range(len(self.labels)), self.labels
        if name is None and len(heads) == 1:
            (name,) = heads
        if name not in heads:
            raise ValueError(f"--head: expected one of the heads of {self.folder}, {', '.join(heads)}; got {name or 'none'}")
        return heads[name], tuple(self.labels[c].partition("/")[2] for c in heads[name])

    def can(self, what: Ability) -> None:
        """A ValueError if a model of this task cannot do this."""
        all_abilities, abilities = find(self.task).abilities, find(self.task).abilities_of(self.model.hyper)
        if what not in abilities:
            kind = f"a model for {self.task}" + (" without a head" if what in all_abilities else "")
            raise ValueError(f"{self.folder}: {kind} cannot {what}; it can {', '.join(abilities)}")

    def refusal(self, ability: Ability, text: str, *, too_long: TooLong = "cut", eos: bool = True) -> str | None:
        """Why this cannot be done with a text; None if it can be. A `fill` needs a mask, a `score` is never of a text that is cut."""
        task = find(self.task)
        scored = ability == "score"
        limit = task.limits(self.ell_max)["x"] if scored and task.has_context else self.ell_max
        try:
            if ability == "fill":
                self._check_masks(text)
            ids = self.encode(text, "text", special=ability == "fill", eos=eos or task.bidirectional)
            if (too_long == "error" or (scored and (task.bidirectional or task.has_context))) and len(ids) > limit:
                return f"{len(ids):,} tokens with bos and eos in {_short(text)}; this model takes at most ℓ_max = {self.ell_max:,}"
        except ValueError as error:
            return str(error).removeprefix("text: ")
        return None

    def _check_masks(self, text: str) -> None:
        mask, end = self.tokenizer.mask_token, self.ell_max - len(self.tokenizer.with_ends([], bos=False))
        ids = self.encode(text, "text", special=True)
        if mask not in ids:
            raise ValueError(f"text: expected a <mask> to fill in {_short(text)}")
        if mask in ids[end:]:
            raise ValueError(f"text: expected every <mask> in the first ℓ_max = {self.ell_max:,} tokens, eos included, of {_short(text)}")

    def encode(self, text: str, symbol: str, *, special: bool = False, eos: bool = True, context: bool = False) -> list[int]:
        """bos … eos of a text, or bos … without `eos`. Unless it is empty, the vocabulary must have some of its tokens. A context z may lack bos."""
        return self._encode_many([text], symbol, special=special, eos=eos, context=context)[0]

    def _encode_many(self, texts: Sequence[str], symbol: str, *, special: bool, eos: bool = True, context: bool) -> list[list[int]]:
        for text in texts:
            if not isinstance(text, str):
                raise ValueError(f"{symbol}: expected a text, got {type(text).__name__}")
        rows = self.tokenizer.encode_many(texts, ends=False, special=special)
        for text, ids in zip(texts, rows, strict=True):
            if text and not self._any_known(ids):
                raise ValueError(f"{symbol}: nothing of {_short(text)} is in the vocabulary of {self.folder}")
        return [self.tokenizer.with_ends(ids, eos=eos, context=context) for ids in rows]

    def encode_all(
        self, texts: Sequence[str], symbol: str, *, special: bool = False, too_long: TooLong, context: bool = False
    ) -> list[list[int]]:
        """bos … eos of every text. One of more than ℓ_max tokens is cut to ℓ_max, eos last, with one warning for all; or it is an error."""
        if too_long not in ("cut", "error"):
            raise ValueError(f"too_long: expected cut or error, got {too_long}")
        rows, cut, end = list[list[int]](), 0, self.tokenizer.with_ends([], bos=False)
        for text, ids in zip(texts, self._encode_many(texts, symbol, special=special, context=context), strict=True):
            if len(ids) > self.ell_max:
                if too_long == "error":
                    raise ValueError(
                        f"{symbol}: {len(ids):,} tokens with bos and eos in {_short(text)}; this model takes at most ℓ_max = {self.ell_max:,}"
                    )
                ids, cut = ids[: self.ell_max - len(end)] + end, cut + 1
            rows.append(ids)
        if cut:
            warnings.warn(f"{cut:,} of {len(texts):,} texts cut to ℓ_max = {self.ell_max:,} tokens", CutText, stacklevel=3)
        return rows

    def known(self, text: str, special: bool = False) -> bool:
        """Whether the vocabulary has any token of a text."""
        return self._any_known(self.tokenizer.encode(text, ends=False, special=special))

    def _any_known(self, ids: Sequence[int]) -> bool:
        unknown = self.tokenizer.unknown_token
        return any(token != unknown for token in ids)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
