"""transalg caption: a generalist says what an image shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from transalg.cli.bounds import Seed, Tau
from transalg.cli.using import CheckpointName, Device, Flag, MaybeText, json_line, load_runs
from transalg.limits import limits
from transalg.terminal import shown

if TYPE_CHECKING:
    from transalg.tokenization.spaces import Array, Image


@dataclass(frozen=True, kw_only=True)
class Caption:
    """Say what images show: transalg caption RUN --image letter.png.

    An image of another size than the task's is resized, and its colours become grey where the task's images are grey. The built-in glyphs are
    white on black; --invert turns dark letters on a light ground into such.
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run of gato."""
    image: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE [FILE ...]")]
    """The images."""
    task: MaybeText = None
    """Which of the run's tasks with captions, if there are several."""
    tau: Tau = 0.0
    """Temperature: 0 always takes the most probable token."""
    ell_gen: Annotated[int, limits("[1, 1000000]")] = 64
    """Maximum number of tokens."""
    seed: Seed = 0
    """Of the sampling."""
    invert: Flag = False
    """Make black white and white black first."""
    json: Flag = False
    """Print JSON lines."""
    device: Device = "cpu"
    checkpoint: CheckpointName = "best"

    def run(self) -> None:
        if not self.image:
            raise ValueError("--image: expected a file, got none")
        run = load_runs(self.folder, device=self.device, checkpoint=self.checkpoint)
        run.can("caption")

        from transalg.tokenization.spaces import Image

        task = run.captioned(self.task)
        space = run.spaces(task).observation
        assert isinstance(space, Image)
        images = [read_image(path, space, self.invert) for path in self.image]
        texts = run.caption(images, task, ell_gen=self.ell_gen, tau=self.tau, seed=self.seed)
        for path, text in zip(self.image, texts, strict=True):
            if self.json:
                print(json_line({"image": str(path), "text": text}), end="")
            else:
                print(shown(text if len(texts) == 1 else f"{path}: {text}"))


def read_image(path: Path, space: "Image", invert: bool = False) -> "Array":
    """The pixels of a file as a space has them."""
    import numpy as np
    from PIL import Image as Pictures
    from PIL import UnidentifiedImageError

    try:
        with Pictures.open(path) as picture:
            ground = Pictures.new("RGBA", picture.size, "white" if invert else "black")  # behind what is transparent
            flat = Pictures.alpha_composite(ground, picture.convert("RGBA"))
            fitted = flat.convert("L" if space.c == 1 else "RGB").resize((space.w, space.h))
    except (UnidentifiedImageError, OSError, SyntaxError, Pictures.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or "it is no image that Pillow knows"
        raise ValueError(f"{path}: cannot be read: {reason}") from error
    pixels = np.asarray(fitted).reshape(space.h, space.w, space.c)
    return 255 - pixels if invert else pixels


CaptionVerb = Annotated[Caption, tyro.conf.subcommand("caption")]
