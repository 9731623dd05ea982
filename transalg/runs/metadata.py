"""What stands beside the tensors of a checkpoint, as JSON. Its version is read: a file of a newer version is refused in words."""

import json
from dataclasses import dataclass, fields
from typing import Any

from transalg.checks import is_integer
from transalg.hyper import Hyper, from_dict

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
    state: dict[str, Any] | None = None  # see `transalg.training.loop.State`
    files: dict[str, int] | None = None  # name → size

    def to_json(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        present = {name: value for name, value in values.items() if value is not None}
        return json.dumps({"format": FORMAT} | present | {"hyper": self.hyper.to_dict(), "labels": list(self.labels)})

    @classmethod
    def from_json(cls, text: str) -> "Metadata":
        """A ValueError says why a text is not metadata that can be read here."""
        data = json.loads(text)
        if not isinstance(data, dict) or not is_integer(data.get("format")) or data["format"] < 1:
            raise ValueError("its metadata has no format")
        if data["format"] > FORMAT:
            raise NewerFormat(f"written by a newer transalg (format {data['format']}; this one reads up to {FORMAT}): upgrade transalg")
        missing = [name for name in ("task", "hyper", "labels") if name not in data]
        if missing:
            raise ValueError(f"its metadata has no {missing[0]}")
        known = {each.name for each in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        return cls(**values | {"hyper": from_dict(data["hyper"]), "labels": tuple(data["labels"])})


class NewerFormat(ValueError):
    """A file that only a newer version can read."""
