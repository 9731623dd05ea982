"""Checkpoints: tensors as safetensors, with metadata as JSON in the header; one file, or a folder of shards. Nothing is pickled."""

import json
import shutil
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from transalg.atomic import atomic_path, atomic_write, sync_to_disk
from transalg.model.parameters import is_sharded
from transalg.runs.metadata import Metadata, NewerFormat

if TYPE_CHECKING:  # takes 1.5 s to import: only sharded checkpoints wait for it
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

Tensors = dict[str, Tensor]
KEY = "transalg"  # of the metadata in a header
MODEL, OPTIMISER = "model.", "optimiser."  # prefixes of names
SHARDED_METADATA = "facts.json"
UNCHANGED = "the previous checkpoint is unchanged"


def save(path: Path, tensors: Tensors, metadata: Metadata) -> None:
    """Write one file, atomically."""
    try:
        with atomic_path(path) as temporary:
            _save_file(temporary, tensors, metadata)
    except ValueError as error:
        raise ValueError(f"{error}; {UNCHANGED}") from error


def _save_file(path: Path, tensors: Tensors, metadata: Metadata) -> None:
    header = {"format": "pt", KEY: metadata.to_json()}
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, header)
    except SafetensorError as error:
        raise OSError(_reason(error)) from error


def save_one_by_one(
    path: Path, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, tensors: Iterable[tuple[str, Tensor]], metadata: Metadata
) -> None:
    """Write one file, atomically, from tensors that come in the order of these shapes: one of them is in memory at a time."""
    write_safetensors(path, shapes, dtype, tensors, {KEY: metadata.to_json()})


def write_safetensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, tensors: Iterable[tuple[str, Tensor]], metadata: dict[str, str]
) -> None:
    """The same with any metadata. The layout: the length of the header, the header, and the numbers of one tensor after another."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **metadata}}
    start, size = 0, dtype.itemsize
    for name, shape in shapes.items():
        end = start + size * prod(shape)
        header[name] = {"dtype": {torch.float32: "F32", torch.float64: "F64"}[dtype], "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_write(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for (expected, shape), (name, tensor) in zip(shapes.items(), tensors, strict=True):
            assert name == expected and tuple(tensor.shape) == shape
            file.write(tensor.detach().to(dtype).contiguous().view(-1).view(torch.uint8).numpy().data)


def load(path: Path) -> tuple[Tensors, Metadata]:
    """The tensors of a file, and their metadata."""
    return _read(path, with_tensors=True)


def load_metadata(path: Path) -> Metadata:
    """The metadata of a file, from its header alone."""
    return _read(path, with_tensors=False)[1]


def _read(path: Path, *, with_tensors: bool) -> tuple[Tensors, Metadata]:
    try:
        with safe_open(path, "pt") as file:
            metadata = Metadata.from_json((file.metadata() or {})[KEY])
            return {name: file.get_tensor(name) for name in file.keys()} if with_tensors else {}, metadata  # noqa: SIM118
    except FileNotFoundError as error:
        raise ValueError(f"{path}: there is no such file") from error
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise _unreadable(path, error) from error


def save_sharded(folder: Path, tensors: Tensors, metadata: Metadata) -> None:
    """Every process writes its shard of every tensor, into a folder that gets its name only when all are done."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save as save_shards

    part, first = folder.with_name(f".{folder.name}.part"), dist.get_rank() == 0
    if first:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    dist.barrier()
    try:
        save_shards(tensors, storage_writer=HuggingFaceStorageWriter(str(part), save_distributed=True))
    except CheckpointException as error:
        reasons = {_reason(failure[0]) for failure in error.failures.values()}
        raise ValueError(f"{folder}: cannot be written: {', '.join(sorted(reasons))}; {UNCHANGED}") from error
    if first:
        files = {path.name: path.stat().st_size for path in sorted(part.glob("*.safetensors"))}
        (part / SHARDED_METADATA).write_text(replace(metadata, files=files).to_json(), encoding="utf-8")
        sync_to_disk(part / SHARDED_METADATA)
        old = folder.with_name(f".{folder.name}.old")
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    dist.barrier()


def find_sharded(folder: Path) -> Path | None:
    """The folder of a sharded checkpoint; or the one before it, if a process died between two renamings."""
    return next((path for path in (folder, folder.with_name(f".{folder.name}.old")) if (path / SHARDED_METADATA).exists()), None)


def load_sharded_metadata(folder: Path) -> Metadata:
    """The metadata of a sharded checkpoint, if it is complete."""
    try:
        metadata = Metadata.from_json((folder / SHARDED_METADATA).read_text(encoding="utf-8"))
        files = {path.name: path.stat().st_size for path in folder.glob("*.safetensors")}
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(folder, error) from error
    if metadata.files != files:
        raise _unreadable(folder, ValueError(f"expected the files {metadata.files}, got {files}"))
    return metadata


def load_sharded(folder: Path, tensors: Tensors) -> None:
    """Fill tensors, sharded in any way or not at all, from what any number of processes wrote."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load as load_shards

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        try:
            load_shards(tensors, storage_reader=HuggingFaceStorageReader(str(folder)))
        except CheckpointException as error:
            reasons = {_reason(failure[0]) for failure in error.failures.values()}
            raise _unreadable(folder, ValueError(", ".join(sorted(reasons)))) from error


def sharded_sizes(folder: Path) -> "dict[str, TensorStorageMetadata]":
    """Size and dtype of every tensor of a sharded checkpoint, by name."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    return {name: each for name, each in stored.items() if isinstance(each, TensorStorageMetadata)}


def state(model: nn.Module, optimisers: Iterable[Optimizer]) -> Tensors:
    """All tensors of a run: the parameters, and the optimisers' state of each."""
    parameters = _parameters(model)
    names = {parameter: name for name, parameter in parameters.items()}
    tensors: Tensors = {MODEL + name: parameter.detach() for name, parameter in parameters.items()}
    for optimiser in optimisers:
        for parameter, values in optimiser.state.items():
            tensors |= {f"{OPTIMISER}{names[parameter]}.{key}": value for key, value in values.items()}
    return tensors


@torch.no_grad()
def restore(model: nn.Module, optimisers: Iterable[Optimizer], tensors: Tensors) -> None:
    """Put all tensors of a run back, full ones into a model that may be sharded."""
    parameters, owners = _parameters(model), _owners(optimisers)
    if {name for name in tensors if name.startswith(MODEL)} != {MODEL + name for name in parameters}:
        raise ValueError("the checkpoint has other parameters than the model")
    for key, value in tensors.items():
        if key.startswith(MODEL):
            parameter = parameters[key.removeprefix(MODEL)]
            parameter.copy_(_sharded_like(value, parameter))
        else:
            name, _, symbol = key.removeprefix(OPTIMISER).rpartition(".")
            parameter = parameters[name]
            owners[parameter].state[parameter][symbol] = _sharded_like(value, parameter) if value.ndim else value.to(parameter.device)


@torch.no_grad()
def restore_sharded(model: nn.Module, optimisers: Iterable[Optimizer], folder: Path) -> None:
    """The same from a sharded checkpoint, into a model that may be sharded in another way or not at all."""
    parameters, owners = _parameters(model), _owners(optimisers)
    tensors: Tensors = {MODEL + name: parameter.detach() for name, parameter in parameters.items()}
    for key, saved in sharded_sizes(folder).items():
        if key.startswith(OPTIMISER):
            name, _, symbol = key.removeprefix(OPTIMISER).rpartition(".")
            parameter, dtype = parameters[name], saved.properties.dtype
            alike = saved.size and saved.size == parameter.shape
            value = (
                torch.empty_like(parameter, dtype=dtype, requires_grad=False)
                if alike
                else torch.empty(saved.size, dtype=dtype, device=parameter.device)
            )
            owners[parameter].state[parameter][symbol] = tensors[key] = value
    load_sharded(folder, tensors)


def _owners(optimisers: Iterable[Optimizer]) -> dict[Tensor, Optimizer]:
    return {parameter: optimiser for optimiser in optimisers for group in optimiser.param_groups for parameter in group["params"]}


def _parameters(model: nn.Module) -> Tensors:
    """By name, and sharded if they are so: after a forward pass `named_parameters` of a sharded model has full ones."""
    return model.state_dict(keep_vars=True)


def _sharded_like(value: Tensor, parameter: Tensor) -> Tensor:
    """On the device of a parameter, and sharded as it is."""
    value = value.to(parameter.device)
    if not is_sharded(parameter):
        return value
    from torch.distributed.tensor import distribute_tensor

    sharded: Tensor = distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)  # type: ignore[attr-defined]
    return sharded


def _unreadable(path: Path, error: Exception) -> ValueError:
    if isinstance(error, NewerFormat):
        return ValueError(f"{path}: {error}")
    return ValueError(f"{path}: not a complete checkpoint of transalg: {_reason(error)}")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return "its header has no metadata"
    return str(error).splitlines()[0].removeprefix("Error while serializing: ") if str(error) else type(error).__name__
