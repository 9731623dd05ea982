"""Taxi (Dietterich 2000): fetch a passenger and bring them where they want to be. As gymnasium's Taxi."""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from transalg.tokenization.spaces import Discrete, Spaces
from transalg.worlds.world import RGB, World

SIDE, STATES, ACTIONS = 5, 500, 6
SOUTH, NORTH, EAST, WEST, PICK_UP, DROP_OFF = range(ACTIONS)
STOPS = ((0, 0), (0, 4), (4, 0), (4, 3))  # row and column of red, green, yellow, blue
COLOURS = ("red", "lime", "gold", "blue")
ABOARD = 4  # where the passenger is, if at none of the stops
WALLS = {(0, 1), (1, 1), (3, 0), (4, 0), (3, 2), (4, 2)}  # cells with a wall at their east side
DISCOUNT = 0.99


def encode(row: int, column: int, passenger: int, goal: int) -> int:
    """The number of a state."""
    return ((row * SIDE + column) * 5 + passenger) * 4 + goal


def decode(state: int) -> tuple[int, int, int, int]:
    """Row and column of the taxi, where the passenger is, and where they want to be."""
    return state // 100, state // 20 % 5, state // 4 % 5, state % 4


def transition(state: int, action: int) -> tuple[int, int, bool]:
    """The next state, the reward, and whether that ends the episode."""
    row, column, passenger, goal = decode(state)
    if action in (SOUTH, NORTH):
        row = min(max(row + (1 if action == SOUTH else -1), 0), SIDE - 1)
    elif action == EAST and column < SIDE - 1 and (row, column) not in WALLS:
        column += 1
    elif action == WEST and column > 0 and (row, column - 1) not in WALLS:
        column -= 1
    elif action == PICK_UP:
        if passenger == ABOARD or STOPS[passenger] != (row, column):
            return state, -10, False
        passenger = ABOARD
    elif action == DROP_OFF:
        if passenger != ABOARD or (row, column) not in STOPS:
            return state, -10, False
        passenger = STOPS.index((row, column))
        if passenger == goal:
            return encode(row, column, passenger, goal), 20, True
    return encode(row, column, passenger, goal), -1, False


@cache
def policy() -> NDArray[np.int64]:
    """The best action of every state, by value iteration."""
    table = [[transition(state, action) for action in range(ACTIONS)] for state in range(STATES)]
    following, rewards, ends = (np.array([[each[i] for each in row] for row in table]) for i in range(3))
    V = np.zeros(STATES)
    while True:
        Q = rewards + DISCOUNT * V[following] * ~ends
        if np.abs(Q.max(1) - V).max() < 1e-9:
            return np.asarray(Q.argmax(1))
        V = Q.max(1)


class Taxi(World):
    """A timestep costs 1, a wrong pick-up or drop-off 10; the ride ends with 20."""

    name = "Taxi"
    spaces = Spaces(Discrete(STATES), Discrete(ACTIONS))
    limit = 200
    state: int

    def _start(self, seed: int) -> int:
        starts = [state for state in range(STATES) if decode(state)[2] not in (ABOARD, decode(state)[3])]
        self.state = starts[int(np.random.default_rng(seed).random() * len(starts))]
        return self.state

    def _advance(self, action: NDArray[np.int64]) -> tuple[int, float, bool]:
        self.state, reward, done = transition(self.state, int(action))
        return self.state, reward, done

    def expert(self) -> int:
        return int(policy()[self.state])

    def render(self) -> RGB:
        row, column, passenger, goal = decode(self.state)
        picture = Image.new("RGB", (161, 161), "white")
        draw = ImageDraw.Draw(picture)

        def cell(i: int, j: int, margin: int) -> list[int]:
            return [32 * j + margin, 32 * i + margin, 32 * j + 32 - margin, 32 * i + 32 - margin]

        for i in range(SIDE):
            for j in range(SIDE):
                draw.rectangle(cell(i, j, 0), outline="lightgrey")
        for (i, j), colour in zip(STOPS, COLOURS, strict=True):
            draw.rectangle(cell(i, j, 2), colour)
        draw.rectangle(cell(*STOPS[goal], 1), outline="black", width=3)
        for i, j in WALLS:
            draw.line([(32 * j + 32, 32 * i), (32 * j + 32, 32 * i + 32)], "black", 3)
        draw.rounded_rectangle(cell(row, column, 6), 5, "black")
        at = (row, column) if passenger == ABOARD else STOPS[passenger]
        draw.ellipse(cell(*at, 11), "white", "black")
        return np.asarray(picture)
