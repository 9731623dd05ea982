"""How well one Gato acts, captions and writes; what its prompts and images are worth; and what models of a single task reach.

    python -m benchmarks.gato                     # all; or some of: one single eight

`one` is the model of `transalg demo gato`: five tasks, one set of weights. `single`, after it, has a model of the same size for each task, with as many
steps as the task has a share of the one model's. `eight` is one model of these five, two levels of BabyAI and Pong, which need
pip install 'transalg[gato,atari]'. With --keep FOLDER, episodes and runs that are there are used again.
"""

import time
from pathlib import Path

from benchmarks.commandline import main, metrics, transalg
from transalg.cli.demo_gato import TASKS, WEIGHTS
from transalg.tasks import TASKS as EVERY

STEPS = EVERY["gato"].steps
EPISODES = 100


def trained(run: Path, *flags: object) -> Path:
    if not (run / "done").exists():
        start = time.monotonic()
        transalg("train", "gato", *flags, "--out", run, "--overwrite")
        (run / "done").write_text(f"{time.monotonic() - start:.0f}", encoding="utf-8")
    last = [line for line in metrics(run) if "loss" in line][-1]
    print(f"{run.name}: {last['step']:,} steps, {last['tokens'] / 1e6:.1f} M tokens, {last['seconds']:.0f} s of training", flush=True)
    return run


def evaluated(run: Path, *flags: object) -> None:
    print(transalg("evaluate", run, "--episodes", EPISODES, *flags).partition("\n")[2], flush=True)


def one(folder: Path) -> None:
    run = trained(folder / "one", "--data", *TASKS, "--weights", *WEIGHTS)
    for flags in ([], ["--no-prompt"], ["--no-images"]):
        print(f"  {' '.join(flags) or 'as it is'}")
        evaluated(run, *flags)


def single(folder: Path) -> None:
    for task, weight in zip(TASKS, WEIGHTS, strict=True):
        steps = round(STEPS * weight / sum(WEIGHTS))
        of_one = ["--tokenizer", folder / "one" / "tokenizer.json"]  # so that perplexities are of the same tokens
        evaluated(trained(folder / f"only-{task}", "--data", task, "--train.steps", steps, *of_one))


RECORDED = {"BabyAI-GoToLocal-v0": 40_000, "BabyAI-PickupLoc-v0": 40_000, "ALE/Pong-v5": 40}  # episodes
PHASES = (  # steps, L, ell_max, shares of the tokens; each starts from the model of the one before, and new layers do little at first
    (9_250, 3, 128, (0.5, 3.0, 0.5, 3.0, 2.5, 4.0, 5.0, 4.0)),
    (13_000, 3, 256, (0.5, 2.0, 0.3, 2.5, 2.5, 4.0, 7.0, 5.0)),
    (28_000, 3, 256, (0.5, 3.0, 0.3, 2.5, 1.0, 4.0, 9.0, 4.0)),
    (2_700, 6, 256, (0.3, 2.0, 0.2, 3.0, 1.0, 4.0, 9.0, 3.0)),
    (12_500, 6, 256, (0.3, 1.5, 0.2, 2.5, 2.0, 4.0, 9.0, 6.0)),
)


def eight(folder: Path) -> None:
    episodes = [folder / name.rpartition("/")[2] for name in RECORDED]
    for (name, count), out in zip(RECORDED.items(), episodes, strict=True):
        if not out.is_dir():
            transalg("gato", "record", name, "--out", out, "--episodes", count, "--noise", 0.1)
    run: Path | None = None
    for number, (steps, L, ell_max, weights) in enumerate(PHASES, 1):
        start = [] if run is None else ["--init", run]
        flags = ["--model.L", L, "--model.ell-max", ell_max, "--train.steps", steps, *start]
        run = trained(folder / f"eight-{number}", "--data", *TASKS, *episodes, "--weights", *weights, *flags)
    assert run is not None
    for flags in ([], ["--no-prompt"], ["--no-images"]):
        print(f"  {' '.join(flags) or 'as it is'}")
        evaluated(run, *flags)


if __name__ == "__main__":
    main(__doc__, {"one": one, "single": single, "eight": eight})
