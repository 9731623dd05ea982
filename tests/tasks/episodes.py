"""Small folders of episodes of every kind, and a run of a second that learns them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from transalg.data.recorder import Recorder
from transalg.runs.config import Config
from transalg.tokenization.spaces import Box, Dictionary, Discrete, Image, Spaces, Text
from transalg.worlds.record import record_world
from transalg.worlds.taxi import Taxi
from transalg.worlds.world import RGB, World

COLOURS = ("dark", "grey", "bright")
DOCUMENTS = ("a dark sea and a grey sky", "the bright sun rises", "a grey day", "the sea is bright")
SPACES = Spaces(Dictionary({"speed": Box(-1, 1, (2,)), "mission": Text()}), Dictionary({"gear": Discrete(3), "steer": Box(-2, 2, ())}))


class Car(World):
    """Two elements of an action, a discrete and a continuous one; ends after `limit` timesteps. The reward is the gear."""

    name, spaces, limit = "Car", SPACES, 3

    def _start(self, seed: int) -> Any:
        self.rng = np.random.default_rng(seed)
        return self._observed()

    def _observed(self) -> Any:
        return {"speed": self.rng.uniform(-1, 1, 2).astype(np.float32), "mission": "sea"}

    def _advance(self, action: Any) -> tuple[Any, float, bool]:
        return self._observed(), float(action["gear"]), False

    def render(self) -> RGB:
        return np.zeros((16, 16, 3), np.uint8)

    def expert(self) -> Any:
        return {"gear": 2, "steer": np.float32(1.5)}


def write(folder: Path) -> dict[str, Path]:
    """taxi: discrete values; car: a dictionary; colours: captions, some of them held out as `face`; prose."""
    record_world(Taxi(), folder / "taxi", episodes=12, noise=0.1, scored=3, valid=0.2)
    record_world(Car(), folder / "car", episodes=5, scored=3, valid=0.2)
    with Recorder(folder / "colours", name="colours", observation=Image(16, 32, 1), action=Text()) as recorder:
        for i in range(9):
            recorder.add(np.full((16, 32, 1), 100 * (i % 3) + i, np.uint8), COLOURS[i % 3])
            recorder.end(split="face" if i > 5 else "valid" if i == 5 else "train")
    with Recorder(folder / "prose", name="prose", observation=Dictionary(), action=Text()) as recorder:
        for i, document in enumerate(DOCUMENTS):
            recorder.add({}, document)
            recorder.end(split="valid" if i == 3 else "train")
    return {name: folder / name for name in ("taxi", "car", "colours", "prose")}


def options(folders: dict[str, Path], **train: Any) -> dict[str, Any]:
    chosen = {"steps": 6, "batch_tokens": 97, "threads": torch.get_num_threads(), "dtype": "float32", "log_every": 1, "save_every": 2}
    sizes = {"L": 1, "H": 2, "d_e": 10, "d_mlp": 13, "ell_max": 41, "C_r": 6, "G": 3, "N_grid": 7}
    data = [str(folder) for folder in folders.values()]
    return {"task": "gato", "data": data, "tokenizer": "char", "model": sizes, "train": chosen | {"eval_every": 3} | train}


def config(folders: dict[str, Path], **train: Any) -> Config:
    return Config.from_dict(options(folders, **train))
