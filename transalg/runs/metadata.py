"""What stands beside the tensors of a checkpoint, as JSON: one schema for all of it. A file of a newer version is refused in words."""

import json
from dataclasses import dataclass, fields
from typing import Any

from transalg.checks import is_integer
from transalg.hyper import Hyper, from_dict
from transalg.reading import parse_json, shown
from transalg.runs import state
from transalg.runs.schema import Check, count, flag, items, mapping, number, one_of, optional, record, require, text
from transalg.tasks import TASKS
from transalg.tokenization.spaces import from_json as space

LAYERS = 100_000  # more than any file has
FORMAT = 1  # of what is written; every format from 1 to this one can be read


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """Of the best model: when it was reached. Of the last checkpoint: the state of training. Of a sharded one: its files."""

    task: str
    hyper: Hyper
    labels: tuple[str, ...] = ()  # the names of the classes
    data: str = ""  # the digest of the training data
    embedding: dict[str, Any] | None = None  # how an encoder was made to embed: `pooling`, and whether to `normalize`
    step: int | None = None
    val_loss: float | None = None
    episodes: list[dict[str, Any]] | None = None  # of each task of gato: name, world, spaces, scores of the expert and of random actions
    state: dict[str, Any] | None = None  # see `transalg.runs.state`
    files: dict[str, int] | None = None  # name → size

    def to_json(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        present = {name: value for name, value in values.items() if value is not None}
        return json.dumps({"format": FORMAT} | present | {"hyper": self.hyper.to_dict(), "labels": list(self.labels)})

    @classmethod
    def from_json(cls, written: str) -> "Metadata":
        """A ValueError names the field that cannot be read here, and says why."""
        data = parse_json(written)
        require(isinstance(data, dict), "metadata", data, "an object")
        number = data.get("format")
        if not is_integer(number) or number < 1:
            raise ValueError(f"format: expected a whole number from 1 to {FORMAT}, got {shown(number)}")
        if number > FORMAT:
            raise NewerFormat(f"written by a newer transalg (format {shown(number)}; this one reads up to {FORMAT}): upgrade transalg")
        for name in ("task", "hyper", "labels"):
            if name not in data:
                raise ValueError(f"{name}: is missing in the metadata")
        for name, check in FIELDS.items():
            if name in data:
                check(name, data[name])
        hyper = _hyper(data["task"], data["hyper"])
        if (N_C := hyper.sizes().get("N_C")) is not None and len(data["labels"]) != N_C:
            raise ValueError(f"labels: expected N_C = {N_C} names, got {len(data['labels'])}")
        values = {name: value for name, value in data.items() if name in FIELDS}
        return cls(**values | {"hyper": hyper, "labels": tuple(data["labels"])})


class NewerFormat(ValueError):
    """A file that only a newer version can read."""


def _hyper(task: str, values: dict[str, Any]) -> Hyper:
    for name in ("L", "L_enc", "L_dec"):  # before anything counts them
        layers = values.get(name)
        require(not is_integer(layers) or layers <= LAYERS, f"hyper.{name}", layers, f"at most {LAYERS:,} layers")
    try:
        hyper = from_dict(values)
    except ValueError as error:
        raise ValueError(f"hyper.{error}") from error
    expected = TASKS[task].hyper_class
    if type(hyper) is not expected:
        raise ValueError(f"hyper.kind: expected {expected.__name__} for the task {task}, got {type(hyper).__name__}")
    return hyper


def _file_size(name: str, value: Any) -> None:
    count(name, value)
    file = name.partition(".")[2]
    require("/" not in file and "\\" not in file, name, file, "the name of a file in the folder")


def _space(name: str, value: Any) -> None:
    space(value, name)


_EPISODES = record(
    {"name": text, "world": text, "observation": _space, "action": _space, "expert": optional(number), "random": optional(number)},
    closed=False,
)
FIELDS: dict[str, Check] = {
    "task": lambda name, value: one_of(*TASKS)(name, value),  # whoever imports the package may have added some
    "hyper": mapping(lambda name, value: None),
    "labels": items(text),
    "data": text,
    "embedding": optional(record({"pooling": one_of("mean", "first", "max"), "normalize": flag}, may_lack=("pooling", "normalize"))),
    "step": optional(count),
    "val_loss": optional(number),
    "episodes": optional(items(_EPISODES)),
    "state": optional(state.check),
    "files": optional(mapping(_file_size)),
}
