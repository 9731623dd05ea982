"""Training against published recipes: how fast, how large.

    python -m benchmarks.training                 # all; or some of: shakespeare optimiser denormals tokenising corpus start

The data is read from ../shared/data; what is missing is skipped with a message. Runs go to a temporary folder unless --keep FOLDER is given.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch

from benchmarks.commandline import DATA, SHAPE, final_loss, main, metrics, missing, transalg

# Tiny Shakespeare ------------------------------------------------------------------------------------------------------


def nanogpt(text: str, steps: int, seed: int) -> tuple[list[float], float]:
    """nanoGPT's recipe for this size on CPUs, on this package's model: seconds up to each step, and the loss on all of the validation text.

    AdamW, 1e-3 to 1e-4 along a cosine, 100 steps of warm-up, β 0.9 and 0.99, weight decay 0.1 of matrices and embeddings, gradients cut at 1,
    12 random places of 64 characters a step, no dropout, no biases in norms or products, weights tied.
    """
    import math

    import torch

    from transalg.hyper import DHyper
    from transalg.model import DTransformer, log_loss
    from transalg.training.memory import keep_memory

    keep_memory()
    torch.manual_seed(seed)
    characters = sorted(set(text))
    data = torch.tensor([characters.index(one) for one in text])
    cut = int(0.9 * len(data))
    train, valid = data[:cut], data[cut:]
    hyper = DHyper(N_V=len(characters), ell_max=64, L=4, H=4, d_e=128, d_mlp=512, tied=True, init_std=0.02, init_residual=True)
    model = DTransformer(hyper)
    matrices = [each for each in model.parameters() if each.ndim >= 2]
    others = [each for each in model.parameters() if each.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    seconds = [0.0]
    for step in range(steps):
        start = time.perf_counter()
        eta = 1e-3 * (step + 1) / 101 if step < 100 else 1e-4 + 0.5 * 9e-4 * (1 + math.cos(math.pi * (step - 100) / (steps - 100)))
        for group in optimiser.param_groups:
            group["lr"] = eta
        places = torch.randint(len(train) - 65, (12,))
        rows = train[places[:, None] + torch.arange(65)]
        X, _ = model.features(rows[:, :-1])
        log_loss(X, model.unembedding, rows[:, 1:].flatten(), weight=1 / 768).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        seconds.append(seconds[-1] + time.perf_counter() - start)
    model.eval()
    count = (len(valid) - 1) // 64
    with torch.no_grad():
        total = sum(
            float(log_loss(model.features(valid[i : i + 64][None])[0], model.unembedding, valid[i + 1 : i + 65]))
            for i in range(0, count * 64, 64)
        )
    return seconds, total / (count * 64)


FEWER = 300  # steps that are enough for the loss of nanoGPT's recipe


def shakespeare(folder: Path) -> None:
    path = DATA / "lm" / "tinyshakespeare.txt"
    if missing(path):
        return
    print(
        "Tiny Shakespeare, characters, 4 layers, 4 heads, 128 wide, context 64: the loss of nanoGPT's recipe in at most a quarter of its time"
    )
    for seed in range(3):
        code = (
            "import json, sys\nfrom benchmarks.training import nanogpt\n"
            f"print(json.dumps(nanogpt(open({str(path)!r}).read(), 2000, {seed})))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds, loss = json.loads(done.stdout)
        run = folder / f"shakespeare-{seed}"
        transalg(
            "train",
            "lm",
            "--data",
            path,
            "--out",
            run,
            *SHAPE,
            *f"--train.steps {FEWER} --train.eval-every {FEWER}".split(),
            "--train.seed",
            seed,
        )
        last = metrics(run)[-1]
        print(
            f"  seed {seed}: nanoGPT's recipe {loss:.4f} in {seconds[-1]:.0f} s; ours {final_loss(run):.4f} in {last['seconds']:.0f} s,",
            end=" ",
        )
        print(f"{last['seconds'] / seconds[-1]:.2f} of the time", flush=True)


def optimiser(folder: Path) -> None:
    """The share of a step's time that Muon takes, at 6 layers x 384 x 2,048 tokens."""
    from transalg.hyper import DHyper
    from transalg.model import DTransformer
    from transalg.optimisation.optimisers import optimisers
    from transalg.tasks.losses import D_loss

    print("Muon's share of a step, 6 layers, 384 wide, 8 x 256 tokens; target: at most 12 %")
    hyper = DHyper(N_V=65, ell_max=256, L=6, H=6, d_e=384, d_mlp=1536, tied=True, init_std=0.02)
    model, x = DTransformer(hyper), torch.randint(hyper.N_V - 3, (8, 256))
    sides = {dtype: (optimisers(model, "muon", 1e-4, bfloat16=dtype == "bfloat16"), list[float](), list[float]()) for dtype in DTYPES}
    for i in range(9):
        for dtype, (muon, steps, shares) in sides.items():
            start = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16) if dtype == "bfloat16" else nullcontext():
                loss = D_loss(model, x)
            loss.backward()
            middle = time.perf_counter()
            for each in muon:
                each.step()
            end = time.perf_counter()
            model.zero_grad()
            if i:
                steps.append(end - start)
                shares.append((end - middle) / (end - start))
    for dtype, (_, steps, shares) in sides.items():
        print(f"  {dtype}: {statistics.median(shares):.1%} of {statistics.median(steps) * 1000:.0f} ms", flush=True)


DTYPES = ("float32", "bfloat16")


def denormals(folder: Path) -> None:
    """The backward pass of a model with sharp attention whose loss looks at few tokens, as Gato's does, with numbers below 1.2e-38 and without."""
    from transalg.hyper import DHyper
    from transalg.model import DTransformer, log_loss

    print("Backward pass, 3 layers, 128 wide, 8 x 256 tokens, a loss at every 27th token, attention of a sharpness")
    for sharpness in (1, 4, 16):
        hyper = DHyper(N_V=1024, ell_max=256, L=3, H=4, d_e=128, d_mlp=512, positions="rotary", tied=True, init_std=0.02)
        model, x = DTransformer(hyper, generator=torch.Generator().manual_seed(0)), torch.randint(1000, (8, 256))
        with torch.no_grad():
            for layer in model.layers:
                layer.W.W_qkv[:256].normal_(std=0.09 * sharpness, generator=torch.Generator().manual_seed(1))
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for i in range(14):
            torch.set_flush_denormal(bool(i % 2))
            X, _ = model.features(x)
            loss = log_loss(X[::27], model.unembedding, x.flatten()[::27])
            start = time.perf_counter()
            loss.backward()
            seconds[bool(i % 2)].append(time.perf_counter() - start)
            model.zero_grad()
        torch.set_flush_denormal(False)
        kept, flushed = (statistics.median(seconds[on][1:]) * 1000 for on in (False, True))
        print(f"  {sharpness:>2}: {kept:.0f} ms, flushed {flushed:.0f} ms", flush=True)


# Tokenising, corpora, start --------------------------------------------------------------------------------------------


def corpus_text(path: Path, megabytes: int) -> None:
    """Text of so many megabytes: the prose of Python's reference, its paragraphs in random order again and again."""
    from transalg.data.builtin import pydocs

    paragraphs = [part for document in pydocs() for part in document.split("\n\n") if part.strip()]
    draw, written = random.Random(0), 0
    with path.open("w", encoding="utf-8") as file:
        while written < megabytes * 10**6:
            written += file.write("\n\n".join(draw.choices(paragraphs, k=1000)) + "\n\n")


def tokenising(folder: Path) -> None:
    from benchmarks.sidebyside import ratio, rounds
    from transalg.data.sources import Source
    from transalg.data.store import store
    from transalg.tokenization import train

    print("Tokenising 20 MB with byte pairs, to memory-mapped files, against the library alone; target: at least 0.8")
    path = folder / "20.txt"
    corpus_text(path, 20)
    text = path.read_text()
    tokenizer = train("bpe", [text[:2_000_000]], 8192)
    lines = [line + "\n" for line in text.split("\n")]
    pieces = ["".join(lines[i : i + 1000]) for i in range(0, len(lines), 1000)]
    count = iter(range(10**6))

    def library() -> None:
        for i in range(0, len(pieces), 64):
            [encoding.ids for encoding in tokenizer.core.encode_batch_fast(pieces[i : i + 64], add_special_tokens=False)]

    seconds = rounds(
        {"ours": lambda: store(Source(str(path), "documents"), tokenizer, folder / f"cache-{next(count)}"), "library": library}, 3
    )
    print(f"  {ratio(seconds, 'ours', 'library'):.2f} × the library's speed ({20 / min(seconds['ours']):.1f} MB/s)")


def corpus(folder: Path) -> None:
    print("A corpus of 1 GB and one of a tenth of it: peak memory of training 20 steps, and the time to tokenise")
    for megabytes in (100, 1000):
        path = folder / f"{megabytes}.txt"
        corpus_text(path, megabytes)
        code = (
            "import json, sys, time\nsys.argv = ['transalg', *json.loads(sys.argv[1])]\nfrom transalg.cli import main\nmain()\n"
            "status = open('/proc/self/status').read()\n"
            "print(*[line.split()[1] for key in ('VmHWM', 'RssAnon') for line in status.splitlines() if line.startswith(key)])"
        )
        options = [
            "train",
            "lm",
            "--data",
            str(path),
            "--out",
            str(folder / f"corpus-{megabytes}"),
            "--tokenizer",
            "char",
            "--train.steps",
            "20",
        ]
        options += ["--split", "0.001", "--train.eval-every", "20"]
        for what in ("tokenised first", "token files there"):
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", code, json.dumps([*options, "--overwrite"])], capture_output=True, text=True, check=True
            )
            peak, anonymous = (int(part) / 1024 for part in done.stdout.split()[-2:])
            print(
                f"  {megabytes} MB, {what}: peak {peak:,.0f} MiB, at the end {anonymous:,.0f} MiB of its own; {time.perf_counter() - start:.0f} s",
                flush=True,
            )


def start(folder: Path) -> None:
    print("From the command to the first step; target: at most 10 s")
    for name, options in (
        ("lm on Tiny Shakespeare", ["lm", "--data", str(DATA / "lm" / "tinyshakespeare.txt"), *SHAPE]),
        ("seq2seq on dates", ["seq2seq", "--data", "dates"]),
        ("classify on stdlib", ["classify", "--data", "stdlib"]),
    ):
        if options[2].endswith(".txt") and missing(Path(options[2])):
            continue
        begun = time.perf_counter()
        run = folder / f"start-{options[0]}"
        command = [
            sys.executable,
            "-m",
            "transalg",
            "train",
            *options,
            "--out",
            str(run),
            "--train.steps",
            "100000",
            "--train.log-every",
            "1",
        ]
        process = subprocess.Popen([*command, "--train.eval-every", "100000"], stdout=subprocess.DEVNULL)
        while not (run / "metrics.jsonl").exists():
            if process.poll() is not None:
                raise RuntimeError("the run ended before its first step")
            time.sleep(0.02)
        print(f"  {name}: {time.perf_counter() - begun:.1f} s")
        process.terminate()
        process.wait()


BENCHMARKS = {
    "shakespeare": shakespeare,
    "optimiser": optimiser,
    "denormals": denormals,
    "tokenising": tokenising,
    "corpus": corpus,
    "start": start,
}


if __name__ == "__main__":
    main(__doc__, BENCHMARKS)
