"""An expert for Pong (ALE/Pong-v5): it moves its paddle along with the ball that comes. It goes by what three frames and its last action show."""

from math import ceil
from typing import Any

BALL_X, BALL_Y, PADDLE_Y = 49, 54, 51  # places in the console's memory
NOOP, UP, DOWN = 0, 2, 3
PUSH = (0, 0, -1, 1, -1, 1)  # of every action; two press the button too, which makes a shot fast, and the next one hard to return
KEPT, NOW, LATER = 0.26, 8.8, 8.2  # of its last move, of a push and of the push before, in the paddle's next move: fitted to a game
COLUMN = 188  # where the paddle meets the ball
TOP, BOTTOM = 44, 207  # where the ball bounces
MIDDLE = 120  # where the paddle waits while the ball goes away
SOON = 4  # timesteps: the paddle goes to where the ball will be then, if it does not arrive before
OFFSET = 4  # so much above the ball's place, the paddle sends it back at an angle and seldom misses it
REST = 2  # a push has to bring the paddle so much nearer
AHEAD = 6  # timesteps after which the paddle stands still
SERVED = 20  # a ball that moves farther in a timestep is a new one


class PongExpert:
    """Of no push, up and down, the one after which the paddle, left alone, will be nearest to where the ball will be soon."""

    def __init__(self, env: Any) -> None:
        self.env = env.unwrapped
        self.before: tuple[int, int, int] | None = None

    def __call__(self, last: int | None) -> int:
        memory = self.env.ale.getRAM()
        ball_x, ball_y, paddle = (int(memory[place]) for place in (BALL_X, BALL_Y, PADDLE_Y))
        x, y, paddle_before = self.before or (ball_x, ball_y, paddle)
        self.before = ball_x, ball_y, paddle
        target, time = MIDDLE, AHEAD
        if ball_y and y and 0 < ball_x - x < SERVED:
            left = max(0.0, (COLUMN - ball_x) / (ball_x - x))
            target, time = bounced(ball_y + min(SOON, left) * (ball_y - y)) - OFFSET, min(AHEAD, max(1, ceil(left)))

        def distance(action: int) -> float:
            place = arrived(paddle, paddle - paddle_before, PUSH[last or NOOP], PUSH[action], time)
            return abs(place - target) + REST * (action != NOOP)

        return min((NOOP, UP, DOWN), key=distance)


def bounced(y: float) -> float:
    """A row beyond an edge of the field, as far inside of it, however often the ball bounces.

    >>> bounced(40), bounced(100), bounced(210), bounced(100 - 10 * 326)
    (48, 100, 204, 100)
    """
    beyond = (y - TOP) % (2 * (BOTTOM - TOP))
    return TOP + min(beyond, 2 * (BOTTOM - TOP) - beyond)


def arrived(paddle: float, move: float, pushed: int, push: int, time: int) -> float:
    """Where the paddle is after so many timesteps, if it is pushed once; it goes on for a while."""
    for _ in range(time):
        move = KEPT * move + NOW * push + LATER * pushed
        pushed, push = push, 0
        paddle += move
    return paddle
