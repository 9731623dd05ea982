"""transalg play: a generalist acts, as a picture or a moving one."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from transalg import terminal
from transalg.cli.bounds import MaybeCount, MaybeTau, Seed
from transalg.cli.using import CheckpointName, Device, Flag, MaybeFile, check_output, json_line, load_runs

if TYPE_CHECKING:
    from transalg.evaluation.tasks import LearnedTask
    from transalg.inference.agent import Decision
    from transalg.inference.run import Run

MOVING, STILL = ".gif", ".png"
SPARE = 16  # frames that are kept for each that a PNG shows, at most


@dataclass(frozen=True, kw_only=True)
class Play:
    """Let Gato act in one of its worlds: transalg play RUN --env cartpole --out cartpole.gif.

    A GIF shows the first timesteps, a PNG some of all side by side; beside each is P̂ of the action, on its range 𝒜_i.
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run of gato."""
    env: Annotated[str, tyro.conf.arg(metavar="NAME")]
    """One of the run's tasks, or its world."""
    out: MaybeFile = None
    """The picture to write, .gif or .png."""
    seed: Seed = 0
    """Of the episode."""
    tau: MaybeTau = None
    """Temperature of the actions; 0 takes the most probable one. By default 0, or 0.75 where only a part of the world is seen (MiniGrid)."""
    no_prompt: Flag = False
    """Without a demonstration."""
    frames: MaybeCount = None
    """How many timesteps the picture shows: 8 in a PNG, 200 in a GIF unless given."""
    json: Flag = False
    """Print one JSON object."""
    device: Device = "cpu"
    checkpoint: CheckpointName = "best"

    def run(self) -> None:
        check_moving(self.out)
        run = load_runs(self.folder, device=self.device, checkpoint=self.checkpoint)
        run.can("play")

        from transalg.evaluation.tasks import find_task
        from transalg.training.watch import Watch

        with Watch(terminal.console(stderr=True)) as watch:
            task = find_task(run, self.env, watch, data=not self.no_prompt)
        score, steps = play(run, task, self.out, seed=self.seed, tau=self.tau, prompt=not self.no_prompt, frames=self.frames)
        percent = None
        if task.expert is not None and task.random is not None:
            from transalg.worlds.rollout import normalised

            percent = 100 * normalised(score, task.expert, task.random)
        if self.json:
            print(json_line({"env": task.name, "return": score, "% of expert": percent, "timesteps": steps}), end="")
            return
        of_expert = "" if percent is None else f", {percent:.1f} % of the expert"
        written = f"; wrote {self.out}" if self.out else ""
        terminal.console(soft_wrap=True).print(f"{task.world}: return {score:.4g}{of_expert}, {steps:,} timesteps{written}")


def check_moving(path: Path | None) -> None:
    """A ValueError, before any work, if there cannot be such a picture."""
    check_output(path)
    if path is not None and path.suffix.lower() not in (MOVING, STILL):
        raise ValueError(f"{path}: expected a name that ends in {MOVING} or {STILL}")


def play(
    run: "Run",
    task: "LearnedTask",
    out: Path | None,
    *,
    seed: int = 0,
    tau: float | None = None,
    prompt: bool = True,
    frames: int | None = None,
) -> tuple[float, int]:
    """The return and the length of an episode, and a picture of it."""
    from transalg.checks import integer
    from transalg.cli.frames import frame, strip, write_moving
    from transalg.evaluation.tasks import demonstrations, world_of

    if task.spaces.answers:
        raise ValueError(f"--env: expected a task with actions, got {task.name}, which is text; transalg caption, transalg generate")
    vocabulary = run.vocabulary
    moving = out is not None and out.suffix.lower() == MOVING
    most = integer("frames", frames if frames is not None else 200 if moving else 8, 1)
    pictures, steps, every = list["Picture"](), 0, 1

    def watch(decision: "Decision") -> None:
        nonlocal steps, every
        if out is not None and (len(pictures) < most if moving else steps % every == 0):
            pictures.append(frame(decision, steps + 1))
        steps += 1
        if not moving and len(pictures) == SPARE * most:  # of a long episode every second one, every fourth one, … is enough to choose from
            del pictures[1::2]
            every *= 2

    shown = demonstrations(task, 1, seed, run.ell_max // 2, vocabulary) if prompt else [None]
    (score,) = run.play([world_of(task)], seeds=[seed], prompts=shown, tau=tau, watch=watch)
    if out is not None and moving:
        write_moving(pictures, out)
    elif out is not None:
        strip([pictures[i] for i in spread(len(pictures), most)], out)
    return score, steps


def spread(count: int, most: int) -> list[int]:
    """At most so many of `count` places, from the first to the last.

    >>> spread(7, 3), spread(3, 8), spread(3, 1)
    ([0, 3, 6], [0, 1, 2], [0])
    """
    chosen = min(most, count)
    return [i * (count - 1) // max(1, chosen - 1) for i in range(chosen)]


if TYPE_CHECKING:
    from PIL.Image import Image as Picture

PlayVerb = Annotated[Play, tyro.conf.subcommand("play")]
