"""Damage to the tensors of a safetensors file: dropped, renamed, of another shape or type, exchanged, no numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

SPARSE = ("one NaN", "one infinity", "huge")


@dataclass(frozen=True)
class Changed:
    """A change of one tensor."""

    file: str
    tensor: str
    act: str

    def __str__(self) -> str:
        return f"{self.file}: {self.tensor}: {self.act}"

    def __call__(self, work: Path) -> None:
        path = work / self.file
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        tensors = load_file(path)
        if self.act == "drop":
            del tensors[self.tensor]
        elif self.act == "rename":
            tensors[f"{self.tensor}_"] = tensors.pop(self.tensor)
        elif self.act == "beside":
            tensors[f"{self.tensor}.more"] = tensors[self.tensor].clone()
        elif self.act == "exchange":
            names = sorted(tensors)
            other = names[(names.index(self.tensor) + 1) % len(names)]
            tensors[self.tensor], tensors[other] = tensors[other], tensors[self.tensor]
        elif self.act == "alone":
            tensors = {self.tensor: tensors[self.tensor]}
        else:
            tensors[self.tensor] = SHAPES[self.act](tensors[self.tensor]).contiguous()
        save_file(tensors, path, metadata)


def _one(value: float) -> Callable[[Tensor], Tensor]:
    def change(tensor: Tensor) -> Tensor:
        changed = tensor.clone().flatten()
        changed[:1] = value if tensor.is_floating_point() else 1
        return changed.view(tensor.shape)

    return change


def _to(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor.to(dtype)


SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "transpose": lambda tensor: tensor.T if tensor.ndim == 2 else tensor[None],
    "flatten": lambda tensor: tensor.flatten() if tensor.ndim > 1 else tensor[:, None] if tensor.ndim else tensor.view(1),
    "one row": lambda tensor: tensor[:1] if tensor.ndim else tensor.view(1, 1),
    "a number": lambda tensor: tensor.flatten()[0].clone(),
    "one row more": lambda tensor: torch.cat([tensor, tensor[:1]]) if tensor.ndim else tensor.view(1).repeat(2),
    "nothing": lambda tensor: tensor.flatten()[:0],
    "one NaN": _one(float("nan")),
    "one infinity": _one(float("inf")),
    "huge": lambda tensor: torch.full_like(tensor, 3e38 if tensor.is_floating_point() else 1),
    "zeros": torch.zeros_like,
    "negative": lambda tensor: -tensor.abs() - 1 if tensor.is_floating_point() else tensor,
    **{
        str(dtype).removeprefix("torch."): _to(dtype)
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool)
    },
}
ACTS = ("drop", "rename", "beside", "exchange", "alone", *SHAPES)


def changes(folder: Path, file: str, draw: Random, tensors: int, each: int) -> Iterator[Changed]:
    """Some tensors, and some changes of each; over all of them, every change."""
    with safe_open(folder / file, "pt") as opened:
        names = sorted(opened.keys())
    acts = list(ACTS)
    draw.shuffle(acts)
    for i, name in enumerate(draw.sample(names, min(tensors, len(names)))):
        for j in range(each):
            yield Changed(file, name, acts[(i * each + j) % len(acts)])
