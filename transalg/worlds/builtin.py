"""Built-in tasks of episodes by name, which need no files: recorded once, into a folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transalg.data.files import Progress, no_progress
from transalg.worlds.make import make
from transalg.worlds.record import ANSWERS, record_answers, record_world

VERSION = 3  # of what is recorded: another one is another folder


@dataclass(frozen=True)
class Builtin:
    """Demonstrations of a world with some random actions among them, or answers: captions, prose."""

    name: str
    doc: str
    world: str = ""  # none: answers
    episodes: int = 0
    noise: float = 0.0
    stretch: float = 1.0

    @property
    def work(self) -> int:
        """How many episodes there are to be recorded, those for the scores included; 0 if that takes no time."""
        return self.episodes + 2 * make(self.world).scored if self.world else 0

    def record(self, folder: Path, progress: Progress = no_progress) -> None:
        if self.world:
            record_world(make(self.world), folder, episodes=self.episodes, noise=self.noise, stretch=self.stretch, progress=progress)
        else:
            record_answers(ANSWERS[self.name], folder)


BUILTIN = {
    one.name: one
    for one in (
        Builtin("cartpole", "keep a pole upright on a cart: values → a discrete action", "CartPole", 100, 0.1),
        Builtin("pendulum", "swing a pendulum up: values → a continuous action", "Pendulum", 600, 0.2, 8),
        Builtin("taxi", "fetch and bring a passenger: a discrete state → a discrete action", "Taxi", 2000, 0.1),
        Builtin("glyphs", ANSWERS["glyphs"].doc),
        Builtin("pydocs", ANSWERS["pydocs"].doc),
    )
}


def episode_folder(name: str, cache: Path, record: Callable[[Builtin, Path], None]) -> Path:
    """The folder of this name; or of a built-in task, in the cache, recorded if it is not there yet."""
    if Path(name).is_dir():
        return Path(name)
    if name not in BUILTIN:
        what = "a file" if Path(name).exists() else "none"
        raise ValueError(f"{name}: expected a folder of episodes or a built-in task, {', '.join(BUILTIN)}; got {what}")
    folder = cache / "episodes" / f"{name}-{VERSION}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        record(BUILTIN[name], folder)
    return folder
