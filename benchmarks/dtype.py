"""Training steps in float32 and with bfloat16 autocast, taking turns: the medians decide what `--train.dtype auto` chooses on CPUs.

python -m benchmarks.dtype                  # all shapes; or some of them by number: 0 1 2
"""

import sys
import time
from contextlib import nullcontext
from statistics import median

import torch

from transalg.hyper import DHyper, Hyper, preset
from transalg.model import DTransformer
from transalg.tasks.losses import D_loss
from transalg.training.memory import keep_memory

SMALL = {"H": 4, "tied": True, "init_std": 0.02}
SHAPES: list[tuple[str, Hyper, int, int, int]] = [  # a name, a model, rows, tokens of a row, rounds
    ("L=4, d_e=128", DHyper(N_V=65, ell_max=64, L=4, d_e=128, d_mlp=512, **SMALL), 12, 64, 25),
    ("L=4, d_e=128", DHyper(N_V=65, ell_max=128, L=4, d_e=128, d_mlp=512, **SMALL), 32, 128, 11),
    ("L=4, d_e=192", DHyper(N_V=65, ell_max=128, L=4, d_e=192, d_mlp=768, **SMALL), 12, 128, 11),
    ("L=4, d_e=256", DHyper(N_V=65, ell_max=128, L=4, d_e=256, d_mlp=1024, **SMALL), 12, 128, 11),
    ("L=6, d_e=384", DHyper(N_V=65, ell_max=256, L=6, d_e=384, d_mlp=1536, **SMALL), 8, 256, 5),
    ("L=4, d_e=768", DHyper(N_V=8192, ell_max=256, L=4, d_e=768, d_mlp=3072, **SMALL), 2, 256, 5),
    ("GPT-2, 124M", preset("gpt2", ell_max=512), 1, 512, 3),
]


def main() -> None:
    keep_memory()
    features = [name for name in ("avx512_bf16", "amx_tile") if getattr(torch.cpu, f"_is_{name}_supported")()]
    print(f"{torch.get_num_threads()} thread(s), torch {torch.__version__}, {', '.join(features) or 'no bfloat16 instructions'}")
    for name, hyper, rows, ell, rounds in [SHAPES[int(i)] for i in sys.argv[1:]] or SHAPES:
        torch.manual_seed(0)
        model = DTransformer(hyper)
        optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
        x = torch.randint(hyper.N_V - 3, (rows, ell))
        seconds: dict[str, list[float]] = {"float32": [], "bfloat16": []}
        for i in range(rounds + 1):
            for dtype, times in seconds.items():
                start = time.perf_counter()
                with torch.autocast("cpu", torch.bfloat16) if dtype == "bfloat16" else nullcontext():
                    loss = D_loss(model, x)
                loss.backward()
                optimiser.step()
                optimiser.zero_grad()
                if i:
                    times.append(time.perf_counter() - start)
        medians = {dtype: median(times) for dtype, times in seconds.items()}
        speeds = ", ".join(f"{dtype} {rows * ell / value:,.0f} tokens/s" for dtype, value in medians.items())
        print(f"{name}, {rows} x {ell}: {speeds}, ratio {medians['float32'] / medians['bfloat16']:.2f}", flush=True)


if __name__ == "__main__":
    main()
