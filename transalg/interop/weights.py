"""The tensors of a checkpoint by name, read when they are needed: safetensors, one file or shards with an index, or a pickle."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from transalg.interop.names import Shape
from transalg.interop.settings import read_json

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
INDEX = ".index.json"
_DTYPES = {torch.float64: "F64", torch.float32: "F32"}
UPCAST = (torch.float16, torch.bfloat16)  # become float32, which has all of their numbers


class Weights:
    """Names, shapes and tensors, memory-mapped: a tensor takes memory only while somebody uses it."""

    def __init__(self, files: Mapping[str, Any], where: str) -> None:
        self._files, self.where = files, where

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def shape(self, name: str) -> Shape:
        file = self._files[name]
        return tuple(file.shape if isinstance(file, Tensor) else file.get_slice(name).get_shape())

    def dtype(self, name: str) -> str:
        """As safetensors call it: F32, BF16, …"""
        file = self._files[name]
        return _DTYPES.get(file.dtype, str(file.dtype)) if isinstance(file, Tensor) else str(file.get_slice(name).get_dtype())

    def tensor(self, name: str) -> Tensor:
        """Real numbers of at least 32 bits."""
        file = self._files[name]
        try:
            tensor: Tensor = file if isinstance(file, Tensor) else file.get_tensor(name)
        except (SafetensorError, ValueError, RuntimeError) as error:
            raise ValueError(f"{self.where}: {name}: cannot be read: {str(error).splitlines()[0]}") from error
        if not tensor.is_floating_point():
            raise ValueError(f"{self.where}: {name}: expected real numbers, got {str(tensor.dtype).removeprefix('torch.')}")
        return tensor.float() if tensor.dtype in UPCAST else tensor


def open_weights(folder: Path, stack: ExitStack, *, allow_pickle: bool = False) -> Weights:
    """The weights in a folder; the files stay open until the stack closes."""
    if (folder / SAFETENSORS).exists():
        return Weights(_safetensors(folder / SAFETENSORS, stack), str(folder / SAFETENSORS))
    if (index := folder / (SAFETENSORS + INDEX)).exists():
        return Weights(_shards(index, stack), str(index))
    pickles = [folder / PICKLE] if (folder / PICKLE).exists() else []
    if (index := folder / (PICKLE + INDEX)).exists():
        pickles = [_inside(index, name) for name in sorted(set(_weight_map(index).values()))]
    if not pickles:
        raise ValueError(f"{folder}: expected {SAFETENSORS}, or shards with {SAFETENSORS}{INDEX}, or {PICKLE}; got none of them")
    if not allow_pickle:
        raise ValueError(f"{pickles[0]}: a pickle, which can contain more than tensors; --allow-pickle reads it, and takes tensors alone")
    tensors: dict[str, Tensor] = {}
    for path in pickles:
        tensors |= _pickle(path)
    return Weights(tensors, str(pickles[0]))


def _safetensors(path: Path, stack: ExitStack) -> dict[str, Any]:
    try:
        file = stack.enter_context(safe_open(path, "pt"))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise ValueError(f"{path}: not a complete safetensors file: {reason}") from error
    return dict.fromkeys(file.keys(), file)


def _shards(index: Path, stack: ExitStack) -> dict[str, Any]:
    weight_map = _weight_map(index)
    files = {name: _safetensors(_inside(index, name), stack) for name in sorted(set(weight_map.values()))}
    for name, file in weight_map.items():
        if name not in files[file]:
            raise ValueError(f"{index}: {name}: expected it in {file}, which has no such tensor")
    return {name: files[file][name] for name, file in weight_map.items()}


def _weight_map(index: Path) -> dict[str, str]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or not all(isinstance(name, str) for name in weight_map.values()):
        raise ValueError(f"{index}: weight_map: expected the file of every tensor, got something else")
    return weight_map


def _inside(index: Path, name: str) -> Path:
    """A file beside the index; never one elsewhere."""
    if Path(name).name != name or name in ("", ".."):
        raise ValueError(f"{index}: weight_map: expected files in the same folder, got {name!r}")
    return index.with_name(name)


def _pickle(path: Path) -> dict[str, Tensor]:
    try:
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError:  # files of before torch 1.6 cannot be mapped
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # an unpickler fails in many ways
        raise ValueError(f"{path}: not a pickle of tensors alone: {str(error).splitlines()[0]}") from error
    if not isinstance(loaded, dict) or not all(isinstance(one, Tensor) for one in loaded.values()):
        raise ValueError(f"{path}: expected tensors by name, got something else")
    return dict(loaded)
