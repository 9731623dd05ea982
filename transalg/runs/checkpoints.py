"""What a run keeps on disk: safetensors with what belongs to them as JSON in the header, whole or not at all."""

import json
import os
import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from transalg.data.store import umask
from transalg.model.parameters import is_sharded

# torch.distributed.checkpoint takes 1.5 s to import: only what is sharded waits for it.

Tensors = dict[str, Tensor]
Facts = dict[str, Any]
KEY = "transalg"  # of the JSON in a header
MODEL, OPTIMISER = "model.", "optimiser."  # what a name begins with


def save(path: Path, tensors: Tensors, facts: Facts) -> None:
    """Write one file in the place of another: to a file beside it first, and only when that is on disk, under its name."""
    part = path.with_name(f".{path.name}.part")
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, part, {"format": "pt", KEY: json.dumps(facts)})
        os.chmod(part, 0o666 & ~umask())
        to_disk(part)
        os.replace(part, path)
        to_disk(path.parent)
    except (OSError, SafetensorError) as error:
        part.unlink(missing_ok=True)
        raise ValueError(f"{path}: cannot be written: {_reason(error)}; what was there before is still there") from error


def write(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        to_disk(part)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ValueError(f"{path}: cannot be written: {_reason(error)}") from error


def load(path: Path, *, header: bool = False) -> tuple[Tensors, Facts]:
    """The tensors of a file, and what belongs to them; only that, if it is the header that is wanted."""
    try:
        with safe_open(path, "pt") as file:
            facts: Facts = json.loads((file.metadata() or {})[KEY])
            return {} if header else {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118
    except FileNotFoundError as error:
        raise ValueError(f"{path}: there is no such file") from error
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: not a whole checkpoint of transalg: {_reason(error)}") from error


def facts(path: Path) -> Facts:
    """What belongs to the tensors of a file."""
    return load(path, header=True)[1]


def save_sharded(folder: Path, tensors: Tensors, facts: Facts) -> None:
    """Every process writes its own part of every tensor, into a folder that has its name only when all are done."""
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
        raise ValueError(f"{folder}: cannot be written: {', '.join(sorted(reasons))}; what was there before is still there") from error
    if first:
        files = {path.name: path.stat().st_size for path in sorted(part.glob("*.safetensors"))}
        (part / "facts.json").write_text(json.dumps({**facts, "files": files}))
        to_disk(part / "facts.json")
        old = folder.with_name(f".{folder.name}.old")
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    dist.barrier()


def sharded(folder: Path) -> Path | None:
    """The folder of a sharded checkpoint, under its own name or, if a process died between two renamings, under that of the one before."""
    return next((path for path in (folder, folder.with_name(f".{folder.name}.old")) if (path / "facts.json").exists()), None)


def facts_sharded(folder: Path) -> Facts:
    """What belongs to a sharded checkpoint, if all its files are there."""
    try:
        facts: Facts = json.loads((folder / "facts.json").read_text())
        there = {path.name: path.stat().st_size for path in folder.glob("*.safetensors")}
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: not a whole checkpoint of transalg: {_reason(error)}") from error
    if facts.get("files") != there:
        raise ValueError(f"{folder}: not a whole checkpoint of transalg: expected the files {facts.get('files')}, got {there}")
    return facts


def load_sharded(folder: Path, tensors: Tensors) -> None:
    """Fill tensors, sharded in whatever way or not at all, from what any number of processes wrote."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load as load_shards

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        try:
            load_shards(tensors, storage_reader=HuggingFaceStorageReader(str(folder)))
        except CheckpointException as error:
            reasons = {_reason(failure[0]) for failure in error.failures.values()}
            raise ValueError(f"{folder}: not a whole checkpoint of transalg: {', '.join(sorted(reasons))}") from error


def names_sharded(folder: Path) -> dict[str, Any]:
    """What tensors a sharded checkpoint has: name, size and dtype."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    return dict(HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata)


def state(model: nn.Module, optimisers: Iterable[torch.optim.Optimizer]) -> Tensors:
    """All tensors of a run: the parameters, and what the optimisers know of each."""
    parameters = _parameters(model)
    names = {parameter: name for name, parameter in parameters.items()}
    found: Tensors = {MODEL + name: parameter.detach() for name, parameter in parameters.items()}
    for optimiser in optimisers:
        for parameter, known in optimiser.state.items():
            found |= {f"{OPTIMISER}{names[parameter]}.{key}": value for key, value in known.items()}
    return found


@torch.no_grad()
def restore(model: nn.Module, optimisers: Iterable[torch.optim.Optimizer], tensors: Tensors) -> None:
    """Put all tensors of a run back, whole ones into a model that may be sharded."""
    parameters = _parameters(model)
    of = {parameter: optimiser for optimiser in optimisers for group in optimiser.param_groups for parameter in group["params"]}
    if {name for name in tensors if name.startswith(MODEL)} != {MODEL + name for name in parameters}:
        raise ValueError("the checkpoint has other parameters than the model")
    for key, value in tensors.items():
        if key.startswith(MODEL):
            parameter = parameters[key.removeprefix(MODEL)]
            parameter.copy_(_like(value, parameter))
        else:
            name, _, symbol = key.removeprefix(OPTIMISER).rpartition(".")
            parameter = parameters[name]
            of[parameter].state[parameter][symbol] = _like(value, parameter) if value.ndim else value.to(parameter.device)


@torch.no_grad()
def restore_sharded(model: nn.Module, optimisers: Iterable[torch.optim.Optimizer], folder: Path) -> None:
    """The same from a sharded checkpoint, into a model that may be sharded in another way or not at all."""
    parameters = _parameters(model)
    of = {parameter: optimiser for optimiser in optimisers for group in optimiser.param_groups for parameter in group["params"]}
    tensors: Tensors = {MODEL + name: parameter.detach() for name, parameter in parameters.items()}
    for key, saved in names_sharded(folder).items():
        if key.startswith(OPTIMISER):
            name, _, symbol = key.removeprefix(OPTIMISER).rpartition(".")
            parameter, dtype = parameters[name], saved.properties.dtype
            alike = saved.size and saved.size == parameter.shape
            value = (
                torch.empty_like(parameter, dtype=dtype, requires_grad=False)
                if alike
                else torch.empty(saved.size, dtype=dtype, device=parameter.device)
            )
            of[parameter].state[parameter][symbol] = tensors[key] = value
    load_sharded(folder, tensors)


def _parameters(model: nn.Module) -> dict[str, Any]:
    """By name, and sharded if they are so: behind a forward pass `named_parameters` of a sharded model has whole ones."""
    return model.state_dict(keep_vars=True)


def _like(value: Tensor, parameter: Tensor) -> Tensor:
    """On the device of a parameter, and sharded as it is."""
    value = value.to(parameter.device)
    if not is_sharded(parameter):
        return value
    from torch.distributed.tensor import distribute_tensor

    sharded: Tensor = distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)  # type: ignore[attr-defined]
    return sharded


def to_disk(path: Path) -> None:
    """Not only to the system's memory."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return "its header has no facts"
    return str(error).splitlines()[0].removeprefix("Error while serializing: ") if str(error) else type(error).__name__
