"""The state of training that a last checkpoint keeps, and what it may be."""

from dataclasses import dataclass, field
from typing import Any

from transalg.data.batches import DataPosition
from transalg.runs.schema import Check, count, items, mapping, number, optional, record, require


@dataclass
class State:
    """The progress of a run."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0  # of training, without validation
    place: DataPosition = field(default_factory=DataPosition)
    best: dict[str, float] | None = None  # the figures of the best validation
    best_step: int = 0
    waited: int = 0  # validations without an improvement since
    losses: list[float] = field(default_factory=list)  # of the steps since the last line of metrics

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "State":
        """From what `check` lets through."""
        best = data.get("best")
        if isinstance(best, float):  # runs of 0.1.0 have the loss alone
            best = {"val_loss": best}
        return cls(**data | {"place": DataPosition(**data["place"]), "best": best})


def _seconds(name: str, value: Any) -> None:
    number(name, value)
    require(value >= 0, name, value, "a number of 0 or more")


def _best(name: str, value: Any) -> None:
    if isinstance(value, float):  # runs of 0.1.0
        number(name, value)
        return
    mapping(number)(name, value)
    require("val_loss" in value, name, value, "val_loss among the figures")


def check(name: str, value: Any) -> None:
    """A ValueError unless this is the state of a run after its first step, each part of it consistent with the others."""
    _FIELDS(name, value)
    require(value["step"] >= 1, f"{name}.step", value["step"], "a step that was done, 1 or more")
    best_step = value.get("best_step", 0)
    require(best_step <= value["step"], f"{name}.best_step", best_step, f"at most step = {value['step']}")


_FIELDS: Check = record(
    {
        "step": count,
        "tokens": count,
        "seconds": _seconds,
        "place": record({"epoch": count, "batch": count}),
        "best": optional(_best),
        "best_step": count,
        "waited": count,
        "losses": items(number),
    },
    may_lack=("best", "best_step", "waited", "losses"),  # an earlier version had fewer
)
