"""Episode files: observations and actions in a folder that anyone can write. docs/gato.md describes the format.

meta.json          name, spaces, scores of an expert and of random actions
episodes.jsonl     a line for each episode: where its timesteps are, its return, its split, its texts
00000.safetensors  a tensor for each part of the spaces, a row for each timestep; 00001.safetensors, …
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from transalg.atomic import StrPath
from transalg.checks import is_integer, is_real
from transalg.hyper.modalities import M
from transalg.reading import parse_json, shown
from transalg.tokenization.modalities import Steps
from transalg.tokenization.spaces import Array, Box, Discrete, Image, Leaf, Spaces, Text, from_json, leaves

FORMAT = 1
META, INDEX = "meta.json", "episodes.jsonl"
EXPLORED = "explored"  # the tensor that marks exploratory actions
OBSERVATION, ACTION = "observation", "action"
FLOATS, INTEGERS = ("F16", "F32", "F64"), ("I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64")
REPAIR = "record it again"
LARGEST = 1e300  # a return beyond it is none, and neither are infinity and NaN


def tensor_name(side: str, path: str) -> str:
    """observation/camera, or observation where the space is no dictionary."""
    return f"{side}/{path}" if path else side


def parts(spaces: Spaces) -> dict[str, Leaf]:
    """Every part of the spaces by the name that files use."""
    sides = ((OBSERVATION, spaces.observation), (ACTION, spaces.action))
    return {tensor_name(side, path): leaf for side, space in sides for path, leaf in leaves(space).items()}


@dataclass(frozen=True)
class Episode:
    """Where an episode is, and what is known of it."""

    file: str
    start: int  # its first row in the file
    steps: int
    score: float | None  # its return
    split: str  # train, or what it is held out for
    texts: Mapping[str, tuple[tuple[int, str], ...]]  # of every part that is text, from which timestep on it is which


class Episodes:
    """The episodes of a folder. Tensors are memory-mapped: a timestep is read when it is used."""

    def __init__(self, folder: StrPath) -> None:
        self.folder = Path(folder)
        meta = self._meta()
        self.name: str = meta["name"]
        self.spaces = _spaces(meta, self.folder / META)
        self.expert: float | None = meta.get("expert")
        self.random: float | None = meta.get("random")
        self.parts = parts(self.spaces)
        self._files: dict[str, Any] = {}
        self.episodes = self._index()
        if not self.episodes:
            raise ValueError(f"{self.folder / INDEX}: expected at least one episode, got none; {REPAIR}")
        self._check_numbers()

    def __len__(self) -> int:
        return len(self.episodes)

    @cached_property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(episode.split for episode in self.episodes))

    def members(self, split: str) -> NDArray[np.int64]:
        """The numbers of the episodes of a split."""
        members = np.array([i for i, episode in enumerate(self.episodes) if episode.split == split], np.int64)
        if not len(members):
            raise ValueError(f"{self.folder}: expected episodes of the split {split}, got {', '.join(self.splits)}")
        return members

    def steps(self, number: int, start: int = 0, stop: int | None = None) -> Steps:
        """The timesteps of an episode from `start` up to `stop`."""
        episode = self.episodes[number]
        first, last, _ = slice(start, stop).indices(episode.steps)
        file = self._files[episode.file]
        values = dict[str, Array | list[str]]()
        for name, leaf in self.parts.items():
            if isinstance(leaf, Text):
                values[name] = _spread(episode.texts[name], first, last)
            else:
                values[name] = file.get_slice(name)[episode.start + first : episode.start + last]
        explored = file.get_slice(EXPLORED)[episode.start + first : episode.start + last]
        observed = {path: values[tensor_name(OBSERVATION, path)] for path in leaves(self.spaces.observation)}
        done = {path: values[tensor_name(ACTION, path)] for path in leaves(self.spaces.action)}
        return Steps(observed, done, explored)

    def texts(self, number: int) -> list[str]:
        """Every text of an episode, each once."""
        return list(dict.fromkeys(text for runs in self.episodes[number].texts.values() for _, text in runs))

    def _check_numbers(self) -> None:
        """A ValueError for a number that cannot be, now and not when its row comes up in training. Images have any bytes."""
        for name, leaf in self.parts.items():
            if not isinstance(leaf, Box | Discrete):
                continue
            is_action = name.partition("/")[0] == ACTION
            for file, tensors in self._files.items():
                rows = tensors.get_slice(name)[:]
                if not _wrong(leaf, rows, is_action=is_action):
                    continue
                for number, episode in enumerate(self.episodes):  # which one it is; rows of none are not used
                    of_episode = rows[episode.start : episode.start + episode.steps]
                    if episode.file == file and (wrong := _wrong(leaf, of_episode, is_action=is_action)):
                        raise ValueError(f"{self.folder / file}: {name} of episode {number + 1}: {wrong}; {REPAIR}")

    # Reading, with checks ----------------------------------------------------------------------------------------------

    def _meta(self) -> dict[str, Any]:
        path = self.folder / META
        if not self.folder.is_dir():
            raise ValueError(f"{self.folder}: expected a folder of episodes, got {'a file' if self.folder.exists() else 'none'}")
        if not path.exists():
            raise ValueError(f"{self.folder}: expected a folder of episodes, with {META}, got one without")
        meta = _object(_read(path), path)
        if meta.get("format") != FORMAT:
            raise ValueError(f"{path}: expected format {FORMAT}, got {meta.get('format')}; {REPAIR}")
        check_meta(meta, path)
        return meta

    def _index(self) -> list[Episode]:
        path = self.folder / INDEX
        lines = _read(path).removesuffix("\n").split("\n")  # not splitlines: a text may have other line ends
        return [self._episode(_object(line, f"{path}:{number}"), f"{path}:{number}") for number, line in enumerate(lines, 1) if line]

    def _episode(self, line: dict[str, Any], where: str) -> Episode:
        for key, kind in (("file", str), ("start", int), ("steps", int)):
            _has(line, key, kind, where)
        score, split, texts = line.get("return"), line.get("split", "train"), line.get("texts", {})
        if not _is_score(score):
            raise ValueError(f"{where}: expected a number or null as return, got {score!r}")
        if not isinstance(split, str) or not isinstance(texts, dict):
            raise ValueError(f"{where}: expected a text as split and an object as texts, got {split!r} and {texts!r}")
        runs = {name: _runs(texts.get(name), name, where) for name, leaf in self.parts.items() if isinstance(leaf, Text)}
        episode = Episode(line["file"], line["start"], line["steps"], score, split, runs)
        rows = self._rows(episode.file)
        if episode.start < 0 or episode.steps < 1 or episode.start + episode.steps > rows:
            wanted = f"{episode.start} to {episode.start + episode.steps}"
            raise ValueError(f"{where}: expected rows of {episode.file}, which has {rows}, got {wanted}; {REPAIR}")
        if self.spaces.document and episode.steps != 1:
            raise ValueError(f"{where}: expected one document, an episode of 1 timestep, got {episode.steps} timesteps; {REPAIR}")
        return episode

    def _rows(self, name: str) -> int:
        """How many timesteps a file has; it is opened and checked once."""
        if name not in self._files:
            self._files[name] = self._open(self.folder / name)
        return int(self._files[name].get_slice(EXPLORED).get_shape()[0])

    def _open(self, path: Path) -> Any:
        if path.parent != self.folder or not path.is_file():
            raise ValueError(f"{path}: expected a file in {self.folder}, got none; {REPAIR}")
        try:
            file: Any = safe_open(path, framework="numpy")
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path}: not a complete safetensors file: {error}; {REPAIR}") from error
        tensors = set(file.keys())
        if EXPLORED not in tensors:
            raise ValueError(f"{path}: expected the tensor {EXPLORED}, got {', '.join(sorted(tensors)) or 'none'}; {REPAIR}")
        shape = file.get_slice(EXPLORED).get_shape()
        if len(shape) != 1:
            raise ValueError(f"{path}: {EXPLORED}: expected a value for each timestep, got the shape {tuple(shape)}; {REPAIR}")
        rows = shape[0]
        for name, (dtypes, shape) in {EXPLORED: (("BOOL",), ()), **self._expected()}.items():
            if name not in tensors:
                raise ValueError(f"{path}: expected the tensor {name}, got none; {REPAIR}")
            view = file.get_slice(name)
            if tuple(view.get_shape()) != (rows, *shape):
                raise ValueError(f"{path}: {name}: expected the shape {(rows, *shape)}, got {tuple(view.get_shape())}; {REPAIR}")
            if view.get_dtype() not in dtypes:
                raise ValueError(f"{path}: {name}: expected {' or '.join(dtypes)}, got {view.get_dtype()}; {REPAIR}")
        return file

    def _expected(self) -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
        """Of every tensor the types that it may have, and its shape without timesteps."""
        expected = dict[str, tuple[tuple[str, ...], tuple[int, ...]]]()
        for name, leaf in self.parts.items():
            if isinstance(leaf, Image):
                expected[name] = ("U8",), (leaf.h, leaf.w, leaf.c)
            elif isinstance(leaf, Box | Discrete):
                expected[name] = FLOATS if isinstance(leaf, Box) else INTEGERS, leaf.shape
        return expected


def check_meta(meta: dict[str, Any], where: object) -> None:
    """A ValueError unless a folder has a name, and an expert that is one."""
    _has(meta, "name", str, where)
    for score in ("expert", "random"):
        if not _is_score(meta.get(score)):
            raise ValueError(f"{where}: expected a number or null as {score}, got {meta[score]!r}")
    expert, random = meta.get("expert"), meta.get("random")
    if expert is not None and random is not None and not expert > random:
        raise ValueError(f"{where}: expected an expert that is better than random actions, got {expert:g} and {random:g}")


def _spaces(meta: dict[str, Any], path: Path) -> Spaces:
    try:
        return Spaces(*(from_json(meta.get(side), side) for side in (OBSERVATION, ACTION)))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _is_score(value: object) -> bool:
    """A return, or none."""
    return value is None or (is_real(value) and abs(value) < LARGEST)


def _read(path: Path) -> str:
    if path.exists() and not path.is_file():  # a pipe would wait for ever, and a device may have no end
        raise ValueError(f"{path}: expected a file, got none; {REPAIR}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected UTF-8, got the byte 0x{error.object[error.start]:02x}; {REPAIR}") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error


def _object(text: str, where: object) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}; {REPAIR}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a JSON object, got {shown(value)}")
    return value


def _has(value: dict[str, Any], key: str, kind: type, where: object) -> None:
    good = is_integer(value.get(key)) if kind is int else isinstance(value.get(key), kind)
    if not good:
        raise ValueError(f"{where}: expected {'a whole number' if kind is int else 'a text'} as {key}, got {value.get(key)!r}; {REPAIR}")


def _runs(value: Any, name: str, where: str) -> tuple[tuple[int, str], ...]:
    """[[0, "go left"], [5, "go right"]]: the text from timestep 0 on, and from timestep 5 on."""
    good = isinstance(value, list) and value and all(isinstance(run, list) and len(run) == 2 for run in value)
    if not good or not all(is_integer(at) and isinstance(text, str) for at, text in value) or value[0][0] != 0:
        raise ValueError(f'{where}: expected texts of {name}, [[0, "…"], …], got {value!r}; {REPAIR}')
    if any(later[0] <= earlier[0] for earlier, later in pairwise(value)):
        raise ValueError(f"{where}: expected texts of {name} in the order of timesteps, got {[at for at, _ in value]}; {REPAIR}")
    return tuple((at, text) for at, text in value)


def _spread(runs: tuple[tuple[int, str], ...], first: int, last: int) -> list[str]:
    """The text of every timestep."""
    starts = np.array([at for at, _ in runs])
    return [runs[i][1] for i in np.searchsorted(starts, np.arange(first, last), side="right") - 1]


def _wrong(leaf: Box | Discrete, rows: Array, *, is_action: bool) -> str:
    """What cannot be among these numbers; "" if all can. Observations beyond the ends of a box count as the end; actions have to be possible."""
    if not rows.size:
        return ""
    if isinstance(leaf, Discrete):
        possible = rows.min() >= 0 and rows.max() < leaf.n
        return "" if possible else f"expected integers from 0 to {leaf.n - 1}, got {rows.min()} to {rows.max()}"
    if np.isnan(rows).any():
        return "expected numbers, got NaN"
    low, high = max(leaf.low, -M), min(leaf.high, M)  # beyond M no bin reaches
    kind = np.float16 if rows.dtype == np.float16 else np.float32  # in which a bound is rounded as the numbers are
    with np.errstate(over="ignore"):
        least, most = kind(rows.min()), kind(rows.max())
    possible = not is_action or (least >= kind(low) and most <= kind(high))
    return "" if possible else f"expected actions from {low:g} to {high:g}, got {least:g} to {most:g}"
