"""Worlds by name: ours, or any of gymnasium's."""

import re

from transalg.worlds.cartpole import CartPole
from transalg.worlds.pendulum import Pendulum
from transalg.worlds.taxi import Taxi
from transalg.worlds.world import World

WORLDS: dict[str, type[World]] = {world.name: world for world in (CartPole, Pendulum, Taxi)}


def make(name: str) -> World:
    """CartPole, Pendulum, Taxi, or an environment of gymnasium: CliffWalking-v1. With ALE/Breakout-v5@80x80, images are resized."""
    if name in WORLDS:
        return WORLDS[name]()
    try:
        from transalg.worlds.adapter import GymnasiumWorld
    except ImportError as error:
        ours = ", ".join(WORLDS)
        raise ValueError(f"{name}: expected one of {ours}, or gymnasium's environments with pip install 'transalg[gato]'") from error
    env, at, size = name.partition("@")
    if not at:
        return GymnasiumWorld(env)
    sides = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", size)
    if not sides:
        raise ValueError(f"{name}: expected a height and a width after @, 80x80 say, got {size!r}")
    return GymnasiumWorld(env, size=(int(sides[1]), int(sides[2])))
