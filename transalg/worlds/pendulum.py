"""Pendulum: swing a pole up with a weak motor, and keep it there. As gymnasium's Pendulum-v1."""

from math import cos, pi, sin

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from transalg.tokenization.spaces import Box, Spaces
from transalg.worlds.world import RGB, World

GRAVITY, DT, FASTEST, STRONGEST = 10.0, 0.05, 8.0, 2.0  # mass and length are 1
SWING = 3.0  # torque by energy that is missing
P, D = 10.0, 2.0  # torque by angle, by speed, near the top
NEAR = 0.9  # cos θ from which on the controller holds the pole
NOTCH = 0.5  # the expert's torques are multiples of it: as good, and easier to imitate


class Pendulum(World):
    """The state is θ, 0 at the top, and θ̇. The reward is −θ² − 0.1 θ̇² − 0.001 u²."""

    name = "Pendulum"
    spaces = Spaces(Box(-FASTEST, FASTEST, (3,)), Box(-STRONGEST, STRONGEST, (1,)))
    limit = 200
    state: NDArray[np.float64]

    def _start(self, seed: int) -> NDArray[np.float32]:
        self.state = np.random.default_rng(seed).uniform([-pi, -1], [pi, 1])
        return self._observation()

    def _advance(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool]:
        theta, speed = self.state.tolist()
        u = float(action[0])
        cost = _upright(theta) ** 2 + 0.1 * speed**2 + 0.001 * u**2
        speed = min(max(speed + DT * (1.5 * GRAVITY * sin(theta) + 3 * u), -FASTEST), FASTEST)
        self.state = np.array([theta + DT * speed, speed])
        return self._observation(), -cost, False

    def _observation(self) -> NDArray[np.float32]:
        theta, speed = self.state
        return np.array([cos(theta), sin(theta), speed], np.float32)

    def expert(self) -> NDArray[np.float32]:
        """Pump energy until the pole can reach the top; there, a proportional–derivative controller."""
        theta, speed = self.state.tolist()
        if cos(theta) > NEAR:
            u = -P * _upright(theta) - D * speed
        else:
            missing = GRAVITY / 2 * (1 - cos(theta)) - speed**2 / 6
            u = SWING * missing * (1 if speed >= 0 else -1)
        return np.array([NOTCH * round(min(max(u, -STRONGEST), STRONGEST) / NOTCH)], np.float32)

    def render(self) -> RGB:
        theta = float(self.state[0])
        picture = Image.new("RGB", (160, 160), "white")
        draw = ImageDraw.Draw(picture)
        draw.line([(80, 80), (80 + 60 * sin(theta), 80 - 60 * cos(theta))], (204, 77, 77), 12)
        draw.ellipse([75, 75, 85, 85], "black")
        return np.asarray(picture)


def _upright(theta: float) -> float:
    """The angle from the top, in [−π, π)."""
    return (theta + pi) % (2 * pi) - pi
