"""Checkpoints: tensors as safetensors, with metadata as JSON in the header; one file, or a folder of shards. Nothing is pickled."""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from transalg.atomic import atomic_path, atomic_write, discard, sync_to_disk, temporary_path
from transalg.model.parameters import is_sharded, local_part
from transalg.reading import read_text, shown
from transalg.runs.metadata import Metadata, NewerFormat
from transalg.runs.tensors import DTYPES, MODEL, OPTIMISER, Kind, compare, model_kinds, optimiser_kinds, require_finite

Tensors = dict[str, Tensor]
KEY = "transalg"  # of the metadata in a header
SHARDED_METADATA = "facts.json"
LONGEST = 300  # characters of a reason that a library gives
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
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}, _metadata(file)  # noqa: SIM118


def load_metadata(path: Path) -> Metadata:
    """The metadata of a file, from its header alone."""
    with _opened(path) as file:
        return _metadata(file)


def load_model(place: Path) -> tuple[Tensors, Metadata]:
    """The parameters of a file, or of a folder of shards, by name, and their metadata; a ValueError unless they are those of such a model."""
    if place.is_dir():
        metadata, kinds = load_sharded_metadata(place), sharded_kinds(place)
        names = _model_names(kinds, metadata, place)
        tensors = {name: _unknown(kinds[stored].shape, kinds[stored].dtype) for name, stored in names.items()}
        load_sharded(place, {names[name]: tensor for name, tensor in tensors.items()})
    else:
        with _opened(place) as file:
            metadata = _metadata(file)
            names = _model_names({name: _kind(file, name) for name in file.keys()}, metadata, place)  # noqa: SIM118
            tensors = {name: file.get_tensor(stored) for name, stored in names.items()}
    require_finite(tensors, place)
    return tensors, metadata


def _model_names(kinds: Mapping[str, Kind], metadata: Metadata, where: Path) -> dict[str, str]:
    """The parameters, and the names that they are stored under."""
    stored = [name for name in kinds if not name.startswith(OPTIMISER)]
    names = {name.removeprefix(MODEL): name for name in stored}
    if len(names) != len(stored):
        raise ValueError(f"{where}: some tensors come twice, with {MODEL} before the name and without; restore the file from a copy")
    found = {name: kinds[stored] for name, stored in names.items()}
    compare(found, model_kinds(metadata.hyper, found, where), where, "its model")
    return names


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A safetensors file, open. What goes wrong is a ValueError with its name."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("expected a file")  # a pipe would wait for ever
        with safe_open(path, "pt") as file:
            yield file
    except FileNotFoundError as error:
        raise ValueError(f"{path}: there is no such file") from error
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise _unreadable(path, error) from error


def _metadata(file: Any) -> Metadata:
    return Metadata.from_json((file.metadata() or {})[KEY])


def _kind(file: Any, name: str) -> Kind:
    part = file.get_slice(name)
    return Kind(tuple(part.get_shape()), DTYPES.get(part.get_dtype(), part.get_dtype()))


def _unknown(shape: tuple[int, ...], dtype: torch.dtype | str) -> Tensor:
    """A tensor to be filled: what is not filled is NaN, and will be noticed."""
    assert isinstance(dtype, torch.dtype)
    return torch.full(shape, torch.nan, dtype=dtype)


def save_sharded(folder: Path, tensors: Tensors, metadata: Metadata) -> None:
    """Every process writes its shard of every tensor, into a folder that gets its name only when all are done."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save as save_shards

    first, chosen = dist.get_rank() == 0, [temporary_path(folder)]
    dist.broadcast_object_list(chosen)  # a name that nobody can have made a link of
    part = chosen[0]
    if first:
        part.mkdir(parents=True)
    dist.barrier()
    try:
        save_shards(tensors, storage_writer=HuggingFaceStorageWriter(str(part), save_distributed=True))
    except CheckpointException as error:
        reasons = {_reason(failure[0]) for failure in error.failures.values()}
        if first:
            discard(part)
        raise ValueError(f"{folder}: cannot be written: {', '.join(sorted(reasons))}; {UNCHANGED}") from error
    if first:
        files = {path.name: path.stat().st_size for path in sorted(part.glob("*.safetensors"))}
        (part / SHARDED_METADATA).write_text(replace(metadata, files=files).to_json(), encoding="utf-8")
        sync_to_disk(part / SHARDED_METADATA)
        old = folder.with_name(f".{folder.name}.old")
        if folder.exists():
            discard(old)
            folder.rename(old)
        part.rename(folder)
        discard(old)
    dist.barrier()


def find_sharded(folder: Path) -> Path | None:
    """The folder of a sharded checkpoint; or the one before it, if a process died between two renamings."""
    return next((path for path in (folder, folder.with_name(f".{folder.name}.old")) if (path / SHARDED_METADATA).exists()), None)


def load_sharded_metadata(folder: Path) -> Metadata:
    """The metadata of a sharded checkpoint, if it is complete."""
    path = folder / SHARDED_METADATA
    text = read_text(path)
    try:
        metadata = Metadata.from_json(text)
    except ValueError as error:
        raise _unreadable(path, error) from error
    try:
        files = {each.name: each.stat().st_size for each in folder.glob("*.safetensors")}
    except OSError as error:
        raise _unreadable(folder, error) from error
    if metadata.files != files:
        wrong = sorted(name for name in {*files, *(metadata.files or {})} if files.get(name) != (metadata.files or {}).get(name))
        listed = f"{SHARDED_METADATA} lists" if metadata.files is not None else f"{SHARDED_METADATA} lists no"
        raise _unreadable(folder, ValueError(f"expected the files and sizes that {listed} files, got others{_among(wrong)}"))
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
        except Exception as error:  # whatever the library meets in a damaged file
            raise _unreadable(folder, error) from error


def sharded_kinds(folder: Path) -> dict[str, Kind]:
    """Shape and dtype of every tensor of a sharded checkpoint, by name."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    try:
        stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    except Exception as error:  # as above
        raise _unreadable(folder, error) from error
    return {name: Kind(tuple(each.size), each.properties.dtype) for name, each in stored.items() if isinstance(each, TensorStorageMetadata)}


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
def restore(model: nn.Module, optimisers: Sequence[Optimizer], tensors: Tensors, where: Path) -> None:
    """Put all tensors of a run back, full ones into a model that may be sharded. A ValueError, before any is, unless they are its own."""
    parameters, owners = _parameters(model), _owners(optimisers)
    found = {name: Kind(tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    _compare_all(found, parameters, optimisers, where)
    require_finite(tensors, where)
    for key, value in tensors.items():
        if key.startswith(MODEL):
            parameter = parameters[key.removeprefix(MODEL)]
            parameter.copy_(_sharded_like(value, parameter))
        else:
            name, _, symbol = key.removeprefix(OPTIMISER).rpartition(".")
            parameter = parameters[name]
            owners[parameter].state[parameter][symbol] = _sharded_like(value, parameter) if value.ndim else value.to(parameter.device)


@torch.no_grad()
def restore_sharded(model: nn.Module, optimisers: Sequence[Optimizer], folder: Path) -> None:
    """The same from a sharded checkpoint, into a model that may be sharded in another way or not at all."""
    parameters, owners = _parameters(model), _owners(optimisers)
    found = sharded_kinds(folder)
    _compare_all(found if optimisers else {name: found[name] for name in found if name.startswith(MODEL)}, parameters, optimisers, folder)
    tensors: Tensors = {MODEL + name: parameter.detach() for name, parameter in parameters.items()}
    for key, saved in found.items():
        if key.startswith(OPTIMISER) and optimisers:
            name, _, symbol = key.removeprefix(OPTIMISER).rpartition(".")
            parameter = parameters[name]
            assert isinstance(saved.dtype, torch.dtype)
            value = (
                torch.empty_like(parameter, dtype=saved.dtype, requires_grad=False)
                if saved.shape
                else torch.empty(saved.shape, dtype=saved.dtype, device=parameter.device)
            )
            owners[parameter].state[parameter][symbol] = tensors[key] = value
    for tensor in tensors.values():
        tensor.fill_(torch.nan)  # what no shard has is noticed so
    load_sharded(folder, tensors)
    require_finite({name: local_part(tensor) for name, tensor in tensors.items()}, folder)


def _compare_all(found: Mapping[str, Kind], parameters: Tensors, optimisers: Sequence[Optimizer], where: Path) -> None:
    """The tensors of the model, and those of the optimisers, one after the other: a message speaks of one of them."""
    of_model = {MODEL + name: Kind(tuple(parameter.shape), parameter.dtype) for name, parameter in parameters.items()}
    compare({name: kind for name, kind in found.items() if not name.startswith(OPTIMISER)}, of_model, where, "the run's model")
    of_optimiser = {name: kind for name, kind in found.items() if name.startswith(OPTIMISER)}
    compare(of_optimiser, optimiser_kinds(parameters, optimisers, of_optimiser), where, "the optimiser that config.toml names")


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


def _among(names: list[str]) -> str:
    return f", {', '.join(map(shown, names[:3]))} among them" if names else ""


def _unreadable(path: Path, error: Exception) -> ValueError:
    if isinstance(error, NewerFormat):
        return ValueError(f"{path}: {error}")
    return ValueError(f"{path}: not a complete checkpoint of transalg: {_reason(error)}")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, KeyError):
        return "its header has no metadata"
    line = str(error).splitlines()[0].removeprefix("Error while serializing: ") if str(error) else type(error).__name__
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
