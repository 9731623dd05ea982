"""transalg gato: episodes for a model that acts, captions and writes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from transalg import terminal
from transalg.cli.bounds import MaybeCount, MaybeShare, Seed, Share
from transalg.cli.using import json_line
from transalg.limits import limits


@dataclass(frozen=True, kw_only=True)
class Record:
    """Record an expert: transalg gato record CartPole --out episodes/cartpole --episodes 100 --noise 0.1.

    CartPole, Pendulum and Taxi are built in, and so are glyphs (pictures of letters with their names) and pydocs (prose). Any environment of
    gymnasium that has an expert needs pip install 'transalg[gato]': BabyAI-GoToLocal-v0 and its like; ALE/Pong-v5 needs 'transalg[atari]'.
    NAME@80x80 resizes images.
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """The name of a world, of built-in data, or of an environment of gymnasium."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
    """The folder to write; a new one."""
    episodes: MaybeCount = None
    """How many episodes to write, 100 unless given; of glyphs and pydocs always all."""
    seed: Seed = 0
    """Of the episodes and of random actions."""
    noise: MaybeShare = None
    """The share of actions that explore among the expert's in long episodes, 0 unless given. They are marked, and not learned. In BabyAI half
    of the stretches go to pick up an object that is not meant, and end there; the others, and those of other worlds, are random."""
    stretch: Annotated[float | None, limits("[1, 1000000]", float)] = None
    """How many actions long a stretch of exploring is in the mean, 1 unless given: a longer one leads farther from where the expert goes."""
    least: Annotated[float | None, limits("[0, 1]", float)] = None
    """The share of the expert's score that an episode has to reach, 0.8 unless given; others are left out."""
    valid: Share = 0.05
    """The share of the episodes that is held out, as the split valid."""
    scored: MaybeCount = None
    """Episodes of the expert, and of random actions, that say what 100 % and 0 % are; 100 unless given, 5 for Pong."""
    json: Annotated[bool, tyro.conf.arg(help_behavior_hint="")] = False
    """Print what was recorded as one JSON object."""

    @property
    def _keep(self) -> float:
        from transalg.worlds.record import GOOD

        return GOOD if self.least is None else self.least

    def run(self) -> None:
        from dataclasses import asdict

        from transalg.training.watch import Watch
        from transalg.worlds.make import make
        from transalg.worlds.record import ANSWERS, Recorded, record_answers, record_world

        watch = Watch(terminal.console(stderr=True, soft_wrap=True))
        result: Recorded
        if self.env in ANSWERS:
            for option, value in (
                ("episodes", self.episodes),
                ("noise", self.noise),
                ("stretch", self.stretch),
                ("least", self.least),
                ("scored", self.scored),
            ):
                if value is not None:
                    raise ValueError(f"--{option}: expected a world with actions, got {self.env}")
            result = record_answers(ANSWERS[self.env], self.out, valid=self.valid)
        else:
            episodes = 100 if self.episodes is None else self.episodes
            world = make(self.env)
            scored = world.scored if self.scored is None else self.scored
            with watch.work("Recording", episodes + 2 * scored) as progress:
                result = record_world(
                    world,
                    self.out,
                    episodes=episodes,
                    seed=self.seed,
                    noise=self.noise or 0.0,
                    stretch=1.0 if self.stretch is None else self.stretch,
                    scored=scored,
                    keep=self._keep,
                    valid=self.valid,
                    progress=progress,
                )
        if self.json:
            print(json_line(asdict(result)), end="")
            return
        console = terminal.console(soft_wrap=True)
        console.print(f"Wrote {self.out}: {result.episodes:,} episodes of {result.name}, {result.timesteps:,} timesteps")
        if result.mean is not None:
            console.print(f"Mean return {result.mean:.4g}; the expert's {result.expert:.4g}, of random actions {result.random:.4g}")
        if result.dropped:
            console.print(f"Left out {result.dropped:,} episodes below {100 * self._keep:.4g} % of the expert")


@dataclass(frozen=True, kw_only=True)
class Show:
    """Check a folder of episodes and say what is in it: transalg gato show episodes/cartpole."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """A folder that `transalg gato record` made, or anyone else."""

    def run(self) -> None:
        from transalg.data.episodes import Episodes

        episodes = Episodes(self.folder)
        console = terminal.console(soft_wrap=True)
        console.print(f"{self.folder}: {len(episodes):,} episodes of {episodes.name}")
        for split in episodes.splits:
            members = [episodes.episodes[i] for i in episodes.members(split)]
            returns = [episode.score for episode in members if episode.score is not None]
            mean = f", mean return {sum(returns) / len(returns):.4g}" if returns else ""
            console.print(f"  {split}: {len(members):,} episodes, {sum(episode.steps for episode in members):,} timesteps{mean}")
        for name, part in episodes.parts.items():
            console.print(f"  {name}: {part}")
        if episodes.expert is not None and episodes.random is not None:
            console.print(f"  expert {episodes.expert:.4g}, random actions {episodes.random:.4g}")


Action = Annotated[Record, tyro.conf.subcommand("record")] | Annotated[Show, tyro.conf.subcommand("show")]


@dataclass(frozen=True)
class Gato:
    """Episodes for Gato: record what an expert does, captions, or prose (record), and check a folder of them (show)."""

    action: Action

    def run(self) -> None:
        self.action.run()


GatoVerb = Annotated[Gato, tyro.conf.subcommand("gato")]
