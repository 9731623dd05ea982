"""CartPole (Barto, Sutton & Anderson 1983): push a cart left or right so that its pole stays up. As gymnasium's CartPole-v1."""

from math import cos, pi, sin

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from transalg.tokenization.spaces import Box, Discrete, Spaces
from transalg.worlds.world import RGB, World

GRAVITY, CART, POLE, HALF, FORCE, DT = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02  # masses of cart and pole, half of the pole's length
FARTHEST, STEEPEST = 2.4, 12 * pi / 180  # where an episode ends
GAINS = np.array([0.1, 0.3, 1.0, 0.5])  # of x, ẋ, θ, θ̇


class CartPole(World):
    """The state is x, ẋ, θ, θ̇. Each timestep has the reward 1."""

    name = "CartPole"
    spaces = Spaces(Box(shape=(4,)), Discrete(2))
    limit = 500
    state: NDArray[np.float64]

    def _start(self, seed: int) -> NDArray[np.float32]:
        self.state = np.random.default_rng(seed).uniform(-0.05, 0.05, 4)
        return self.state.astype(np.float32)

    def _advance(self, action: NDArray[np.int64]) -> tuple[NDArray[np.float32], float, bool]:
        x, x_dot, theta, theta_dot = self.state.tolist()
        total = CART + POLE
        push = ((FORCE if action == 1 else -FORCE) + POLE * HALF * theta_dot**2 * sin(theta)) / total
        theta_acc = (GRAVITY * sin(theta) - cos(theta) * push) / (HALF * (4 / 3 - POLE * cos(theta) ** 2 / total))
        x_acc = push - POLE * HALF * theta_acc * cos(theta) / total
        self.state = np.array([x + DT * x_dot, x_dot + DT * x_acc, theta + DT * theta_dot, theta_dot + DT * theta_acc])
        return self.state.astype(np.float32), 1.0, bool(abs(self.state[0]) > FARTHEST or abs(self.state[2]) > STEEPEST)

    def expert(self) -> int:
        """A linear controller."""
        return int(GAINS @ self.state > 0)

    def render(self) -> RGB:
        x, _, theta, _ = self.state.tolist()
        picture = Image.new("RGB", (240, 160), "white")
        draw = ImageDraw.Draw(picture)
        middle, ground, length = 120 + 40 * x, 130, 80
        draw.line([(0, ground), (240, ground)], "black")
        draw.rectangle([middle - 20, ground - 12, middle + 20, ground + 12], "black")
        top = (middle + length * sin(theta), ground - 6 - length * cos(theta))
        draw.line([(middle, ground - 6), top], (202, 152, 101), 8)
        return np.asarray(picture)
