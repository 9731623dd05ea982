"""BabyAI's own bot: as the expert, and as one that has misunderstood its mission. Needs minigrid, of the extra `gato`."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from transalg.worlds.world import ExpertLostError

SEARCHES = 100  # for a way, in one plan: the bot is lost if it makes more, and would go on for ever


class Bot:
    """BabyAI's bot, which says what to do next from what was done last."""

    def __init__(self, env: Any) -> None:
        from minigrid.utils.baby_ai_bot import BabyAIBot

        self.bot = BabyAIBot(env)
        self.search, self.bot._shortest_path = self.bot._shortest_path, self._search
        self.searches = 0  # for this plan

    def _search(self, *options: Any, **named: Any) -> Any:
        self.searches += 1
        if self.searches > SEARCHES:
            raise RuntimeError("no end of searches")
        return self.search(*options, **named)

    def __call__(self, last: int | None) -> int:
        self.searches = 0
        try:
            return int(self.bot.replan(last))
        except Exception as error:  # the bot raises what it likes
            raise ExpertLostError(f"BabyAIBot: expected a plan, got {type(error).__name__}") from error


def mistaken(env: Any, rng: np.random.Generator) -> Iterator[int] | None:
    """What a bot does that picks up another object than the mission means; None if there is no other, or if the agent carries one."""
    from minigrid.envs.babyai.core.verifier import ObjDesc, PickupInstr

    world = env.unwrapped
    meant, others = {id(thing) for thing in _meant(world.instrs)}, []
    for place, thing in enumerate(world.grid.grid):  # row by row
        if thing is not None and thing.can_pickup() and id(thing) not in meant:
            others.append((thing, (place % world.grid.width, place // world.grid.width)))
    if not others or world.carrying is not None:
        return None
    thing, place = others[int(rng.integers(len(others)))]
    wrong, right = PickupInstr(ObjDesc(thing.type, thing.color)), world.instrs
    wrong.desc.obj_set, wrong.desc.obj_poss = [thing], [place]  # this one, and none of its like
    try:
        world.instrs = wrong  # which the bot reads once
        bot = Bot(env)
    finally:
        world.instrs = right
    return _until_carried(bot, world, thing)


def _until_carried(bot: Bot, world: Any, thing: Any) -> Iterator[int]:
    last = None
    with suppress(ExpertLostError):
        while world.carrying is not thing:
            last = bot(last)
            yield last


def _meant(instruction: Any) -> list[Any]:
    """The objects that an instruction, or a part of it, speaks of."""
    from minigrid.envs.babyai.core.verifier import Instr, ObjDesc

    objects = list[Any]()
    for part in vars(instruction).values():
        objects += part.obj_set if isinstance(part, ObjDesc) else _meant(part) if isinstance(part, Instr) else []
    return objects
