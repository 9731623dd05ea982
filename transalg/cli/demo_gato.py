"""transalg demo gato: one model learns all built-in tasks; then it plays, captions and writes."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from transalg import terminal
from transalg.terminal import marked

if TYPE_CHECKING:
    from transalg.evaluation.tasks import TaskFigures
    from transalg.inference.run import Run

TASKS = ("cartpole", "pendulum", "taxi", "glyphs", "pydocs")
WEIGHTS = (0.5, 2.5, 0.5, 2.5, 2.5)  # shares of the tokens
OPTIONS: dict[str, Any] = {"task": "gato", "data": TASKS, "weights": WEIGHTS}
EPISODES = 50
PROMPT = "The "
FACES = 16  # glyphs in the picture


def demo(out: Path) -> None:
    """Train one model, and show what it can do."""
    from transalg.cli.evaluate import task_table
    from transalg.cli.pictures import write_picture
    from transalg.cli.play import play
    from transalg.evaluation.tasks import evaluate_tasks, find_task
    from transalg.inference.run import Run
    from transalg.reading import read_toml
    from transalg.runs.config import Config
    from transalg.training.curves import curves, read_metrics
    from transalg.training.start import train
    from transalg.training.watch import Watch

    console, start, run_folder = terminal.console(), time.monotonic(), out / "gato"
    config_file = run_folder / "config.toml"
    if config_file.exists() and tuple(read_toml(config_file).get("data") or ()) != TASKS:
        raise ValueError(f"{run_folder}: holds another run; give --out another folder")
    console.print("\n[bold]1. One model (Gato) learns to balance, to swing up, to drive, to read letters and to write[/]", markup=True)
    with Watch(console) as watch:
        outcome = train(Config.from_dict(OPTIONS), run_folder, overwrite=True, report=watch)
    if outcome.reason == "interrupted":
        sys.exit(130)
    run = Run.load(run_folder)
    console.print(f"\n[bold]2. It plays[/] {EPISODES} episodes of each world, and captions what it has never seen:", markup=True)
    with Watch(console) as watch:
        results = evaluate_tasks(run, episodes=EPISODES, report=watch)
    console.print(task_table(results))
    for name in TASKS[:3]:
        play(run, find_task(run, name), out / f"{name}.gif")
        play(run, find_task(run, name), out / f"{name}.png")
    console.print(f"   Pictures with P̂ of every action: {', '.join(str(out / f'{name}.gif') for name in TASKS[:3])}")
    console.print("\n[bold]3. It reads letters[/] in a face that it has not learned:", markup=True)
    _captions(run, results, out / "glyphs.png", console)
    console.print("\n[bold]4. It writes[/] (τ = 0.7):", markup=True)
    text = run.generate(PROMPT, ell_gen=60, tau=0.7, seed=1)
    assert isinstance(text, str)
    console.print(Text.assemble("   › ", (PROMPT, "cyan"), " ".join(text.split())))
    write_picture(curves({run_folder.name: read_metrics(run_folder)}, "seconds"), out / "gato-curve.png")
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    console.print(f"\n{minutes} min {seconds} s. Now yours:")
    for command in NEXT:
        console.print(f"   [bold]{marked(command.format(run=run_folder, out=out))}[/]", markup=True)


NEXT = (
    "transalg play {run} --env pendulum --out pendulum.gif",
    "transalg caption {run} --image {out}/letter.png",
    "transalg evaluate {run} --no-prompt",
    "transalg gato record CartPole --out episodes/cartpole",
)


def _captions(run: "Run", results: "list[TaskFigures]", out: Path, console: Console) -> None:
    """Some letters of the face that is held out, with their captions; and one of them as a file to try."""
    import numpy as np
    from matplotlib.figure import Figure
    from PIL import Image

    from transalg.atomic import atomic_write
    from transalg.evaluation.tasks import find_task

    task = find_task(run, "glyphs")
    assert task.episodes is not None
    examples = next([one for one in each.examples if one["split"] == "face"] for each in results if each.name == "glyphs")
    members = task.episodes.members("face").tolist()
    chosen = [i * len(members) // FACES for i in range(FACES)]
    figure = Figure(figsize=(10, 6), layout="constrained")
    for axes, i in zip(figure.subplots(4, 4).flat, chosen, strict=True):
        image = task.episodes.steps(members[i], 0, 1).observation[""][0]
        axes.imshow(image[..., 0], cmap="gray_r")  # type: ignore[index]
        axes.set_axis_off()
        right = examples[i]["prediction"] == examples[i]["target"]
        axes.set_title(examples[i]["prediction"].lower(), fontsize=6, color="black" if right else "red")
    with atomic_write(out, "wb") as file:
        figure.savefig(file, format="png", dpi=120)
    with atomic_write(out.with_name("letter.png"), "wb") as file:
        Image.fromarray(np.asarray(image)[..., 0]).save(file, format="png")
    for i in chosen[:4]:
        console.print(Text.assemble("   › ", (examples[i]["target"], "cyan"), f" → {examples[i]['prediction']}"))
    console.print(f"   More in {out}")
