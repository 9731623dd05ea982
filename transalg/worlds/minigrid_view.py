"""What an agent of MiniGrid sees, as a picture. Needs minigrid, of the extra `gato`."""

from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.core.world_object import WorldObj

from transalg.tokenization.spaces import Array

UP = 3  # the agent looks up in its own view


class View(gymnasium.ObservationWrapper[Any, Any, Any]):
    """The picture of minigrid's RGBImgPartialObsWrapper, put together from tiles that are drawn once, without a second look at the world."""

    def __init__(self, env: "gymnasium.Env[Any, Any]", tile: int) -> None:
        super().__init__(env)
        self.tile = tile
        spaces = env.observation_space
        parts = spaces.spaces if isinstance(spaces, gymnasium.spaces.Dict) else {}
        cells = parts["image"].shape if "image" in parts else None
        if cells is None or len(cells) != 3:
            raise ValueError(
                f"{env.spec.id if env.spec else env}: expected minigrid's own observations, with an image of cells, got {spaces}"
            )
        image = gymnasium.spaces.Box(0, 255, (cells[1] * tile, cells[0] * tile, 3), np.uint8)
        self.observation_space = gymnasium.spaces.Dict({**parts, "image": image})

    def observation(self, observation: Any) -> Any:
        return {**observation, "image": picture(observation["image"], self.tile)}


def picture(cells: Array, tile: int) -> Array:
    """Of a view's cells, column by column: type, colour and state of what is there. The agent stands in the middle of the last row."""
    width, height = cells.shape[:2]
    agent = width // 2, height - 1
    columns = [[_drawn(*map(int, cells[i, j]), (i, j) == agent, tile) for j in range(height)] for i in range(width)]
    return np.concatenate([np.concatenate(column) for column in columns], axis=1)


@lru_cache(maxsize=1024)
def _drawn(kind: int, color: int, state: int, agent: bool, tile: int) -> Array:
    """A cell that is seen is light. With an agent, it is what the agent carries."""
    seen = kind != OBJECT_TO_IDX["unseen"]
    return np.asarray(Grid.render_tile(WorldObj.decode(kind, color, state), UP if agent else None, seen, tile)).astype(np.uint8)
