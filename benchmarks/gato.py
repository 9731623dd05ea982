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


STRETCHES = ["--noise", 0.3, "--stretch", 6, "--least", 0.5]
RECORDED = {  # episodes, and how they are recorded
    "BabyAI-GoToLocal-v0": (60_000, STRETCHES),
    "BabyAI-PickupLoc-v0": (90_000, STRETCHES),
    "ALE/Pong-v5": (120, ["--noise", 0.3, "--stretch", 5, "--least", 0]),
}
SHARES = (0.3, 3.5, 0.4, 3, 6, 4.5, 9, 7.5)  # of the tokens; TASKS, then RECORDED
EIGHT_STEPS = 31_000
LARGER = ["--model.L", 4, "--model.d-e", 192, "--model.ell-max", 384]


def eight(folder: Path) -> None:
    episodes = [folder / name.rpartition("/")[2] for name in RECORDED]
    for (name, (count, flags)), out in zip(RECORDED.items(), episodes, strict=True):
        if not out.is_dir():
            transalg("gato", "record", name, "--out", out, "--episodes", count, *flags)
    run = trained(folder / "eight", "--data", *TASKS, *episodes, "--weights", *SHARES, "--train.steps", EIGHT_STEPS, *LARGER)
    for flags in ([], ["--no-prompt"], ["--no-images"]):
        print(f"  {' '.join(flags) or 'as it is'}")
        evaluated(run, *flags)
    prose = TASKS.index("pydocs")
    steps = round(EIGHT_STEPS * SHARES[prose] / sum(SHARES))
    flags = ["--train.steps", steps, *LARGER, "--tokenizer", run / "tokenizer.json"]
    evaluated(trained(folder / "eight-prose", "--data", "pydocs", *flags))


if __name__ == "__main__":
    main(__doc__, {"one": one, "single": single, "eight": eight})
