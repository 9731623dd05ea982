"""Writing episode files: a folder that is complete, or none."""

import json
import shutil
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from transalg.atomic import StrPath, atomic_path, atomic_write, temporary_path
from transalg.checks import is_real
from transalg.data.episodes import ACTION, EXPLORED, FORMAT, INDEX, META, OBSERVATION, check_meta, parts, tensor_name
from transalg.tokenization.modalities import require_room
from transalg.tokenization.spaces import Array, Box, Discrete, Image, Space, Spaces, Text, flatten, to_json

FULL = 2**27  # bytes of timesteps after which a file is written


def check_new(folder: StrPath) -> None:
    """A ValueError, before any work, for a folder that has files."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path}: expected a new or an empty folder, got a file; choose another")
    if path.is_dir() and any(path.iterdir()):
        raise ValueError(f"{path}: expected a new or an empty folder, got one with files; choose another")


class Recorder:
    """Episodes to a new folder, which appears when the block ends; on an exception nothing is left.

    with Recorder("episodes/mine", name="mine", observation=Box(-1, 1, (4,)), action=Discrete(2)) as recorder:
        for observation, action in …:
            recorder.add(observation, action)
        recorder.end()  # of an episode
    """

    def __init__(
        self,
        folder: StrPath,
        *,
        name: str,
        observation: Space,
        action: Space,
        expert: float | None = None,
        random: float | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.spaces = Spaces(observation, action)
        self.meta = {"format": FORMAT, "name": name, "expert": expert, "random": random}
        self.meta |= {OBSERVATION: to_json(observation), ACTION: to_json(action)}
        check_meta(self.meta, "meta")
        require_room(self.spaces, OBSERVATION)
        self.parts = parts(self.spaces)
        self.count = 0  # episodes
        self._lines = list[dict[str, Any]]()
        self._episode = list[dict[str, Any]]()  # the timesteps of this episode
        self._score = 0.0
        self._kept = list[dict[str, Any]]()  # timesteps of the file that is not written yet
        self._size = self._files = 0

    def __enter__(self) -> "Recorder":
        check_new(self.folder)
        self._temporary = temporary_path(self.folder.absolute())
        try:
            self._temporary.parent.mkdir(parents=True, exist_ok=True)
            self._temporary.mkdir()
        except OSError as error:
            raise ValueError(f"{self.folder}: cannot be written: {error.strerror}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._close()
        except OSError as problem:
            raise ValueError(f"{self.folder}: cannot be written: {problem.strerror or problem}") from problem
        finally:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def add(self, observation: Any, action: Any, *, reward: float = 0.0, explored: bool = False) -> None:
        """A timestep. An explored action is not the expert's, and is not learned."""
        if not is_real(reward := reward.item() if isinstance(reward, np.generic) else reward) or not isfinite(reward):
            raise ValueError(f"reward: expected a number, got {reward}")
        observed = flatten(self.spaces.observation, observation, OBSERVATION, bounds=False)
        done = flatten(self.spaces.action, action, ACTION)
        step: dict[str, Any] = {tensor_name(OBSERVATION, path): part for path, part in observed.items()}
        step |= {tensor_name(ACTION, path): part for path, part in done.items()}
        stored = {name: part if isinstance(leaf := self.parts[name], Text) else _stored(leaf, part) for name, part in step.items()}
        self._episode.append(stored | {EXPLORED: bool(explored)})
        self._score += float(reward)

    def end(self, *, keep: bool = True, split: str = "train") -> None:
        """End an episode; without `keep` it is not written."""
        if not isinstance(split, str):
            raise ValueError(f"split: expected a text, got {split!r}")
        steps, score = self._episode, self._score
        self._episode, self._score = [], 0.0
        if not steps:
            raise ValueError("episode: expected at least one timestep, got none")
        if not keep:
            return
        texts = {name: _runs([step[name] for step in steps]) for name, leaf in self.parts.items() if isinstance(leaf, Text)}
        line = {"file": self._file(), "start": len(self._kept), "steps": len(steps), "return": score, "split": split}
        self._lines.append(line | ({"texts": texts} if texts else {}))
        self._kept += steps
        self._size += sum(part.nbytes for step in steps for part in step.values() if isinstance(part, np.ndarray))
        self.count += 1
        if self._size >= FULL:
            self._write()

    def _file(self) -> str:
        return f"{self._files:05}.safetensors"

    def _write(self) -> None:
        tensors: dict[str, Array] = {EXPLORED: np.array([step[EXPLORED] for step in self._kept])}
        for name, leaf in self.parts.items():
            if not isinstance(leaf, Text):
                tensors[name] = np.stack([step[name] for step in self._kept])
        try:
            with atomic_path(self._temporary / self._file()) as path:
                save_file(tensors, path)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{self.folder}: cannot be written: {error}") from error
        self._kept, self._size, self._files = [], 0, self._files + 1

    def _close(self) -> None:
        if self._episode:
            self.end()
        if not self._lines:
            raise ValueError(f"{self.folder}: expected at least one episode, got none; nothing is written")
        if self._kept:
            self._write()
        lines = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in self._lines)
        meta = json.dumps(self.meta, ensure_ascii=False, allow_nan=False, indent=2) + "\n"
        for name, text in ((INDEX, lines), (META, meta)):
            with atomic_write(self._temporary / name) as file:
                file.write(text)
        self._temporary.rename(self.folder)


def _runs(texts: list[str]) -> list[list[int | str]]:
    """Each text with the timestep from which on it is this one."""
    return [[t, text] for t, text in enumerate(texts) if t == 0 or text != texts[t - 1]]


def _stored(leaf: Box | Discrete | Image, values: Array) -> Array:
    """As few bytes as needed."""
    if isinstance(leaf, Image):
        return values.copy() if values.dtype == np.uint8 else np.rint(values * 255).astype(np.uint8)  # the caller may use its array again
    return values.astype(np.uint16 if isinstance(leaf, Discrete) else np.float32)
