"""An expert for Pong (ALE/Pong-v5): it tries its strokes in a copy of the emulator, and plays the best one."""

from typing import Any

BALL_X, BALL_Y, PADDLE_Y = 49, 54, 51  # places in the console's memory
NOOP, UP, DOWN = 0, 2, 3
OFFSETS = (-3, -1, 1, 4, 7, 10, 13, 16)  # where the ball may meet the paddle
NEAR = 70  # the column from which on a ball that comes is played
DEAD = 4  # rows within which the paddle rests
MIDDLE = 128
LONGEST = 90  # timesteps that are looked ahead
FRAMES = 4  # of a timestep


class PongExpert:
    """Follow the ball so that it meets the paddle at an offset. Which one is decided each time that the ball comes,
    and again where another action than the expert's was done."""

    def __init__(self, env: Any) -> None:
        self.env = env.unwrapped
        self.offset, self.x, self.planned = OFFSETS[4], 0, False
        self.action: int | None = None  # the one that it chose last

    def __call__(self, last: int | None) -> int:
        before, self.x = self.x, self._memory()[0]
        if self.x <= before or last != self.action:  # the ball goes away, or another action was done
            self.planned = False
        if self.x > before and self.x > NEAR and not self.planned:
            self.planned, self.offset = True, self._plan()
        self.action = self._follow(self.offset)
        return self.action

    def _memory(self) -> tuple[int, int, int]:
        memory = self.env.ale.getRAM()
        return int(memory[BALL_X]), int(memory[BALL_Y]), int(memory[PADDLE_Y])

    def _follow(self, offset: int) -> int:
        _, ball, paddle = self._memory()
        distance = ball - paddle - offset if ball else MIDDLE - paddle
        return UP if distance < -DEAD else DOWN if distance > DEAD else NOOP

    def _plan(self) -> int:
        """The offset that scores soonest, or else keeps the ball in play longest."""
        state = self.env.clone_state(include_rng=True)
        values = []
        for offset in OFFSETS:
            self.env.restore_state(state)
            values.append(self._look_ahead(offset))
        self.env.restore_state(state)
        return OFFSETS[values.index(max(values))]

    def _look_ahead(self, offset: int) -> tuple[float, int]:
        """The point that is won or lost, and how soon that is good; until the ball comes back."""
        last, away = self._memory()[0], False
        for steps in range(LONGEST):
            action = self.env._action_set[self._follow(offset)]
            reward = sum(self.env.ale.act(action, 1.0) for _ in range(FRAMES))
            if reward:
                return reward, -steps if reward > 0 else steps
            x = self._memory()[0]
            if away and x > last:
                return 0.0, steps
            away, last = away or x < last, x
        return 0.0, LONGEST
