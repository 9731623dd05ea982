"""What bfloat16 does to the loss of training, on any CPU: float32 arithmetic whose operands and results are rounded as autocast rounds them.

    python -m benchmarks.rounding                  # 4 layers x 128; or --wide: 4 layers x 256
    python -m benchmarks.rounding --seeds 3 --parts none all

Products of bfloat16 units add in float32, so that rounding before and after them is what they do. `optimiser` rounds in Muon's Newton–Schulz steps,
`layers` around the maps, and so the activations between them, the attention and the turning of rotary positions, in both directions, `loss` around the last map.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor

import transalg
from benchmarks.commandline import DATA, final_loss, missing
from transalg.model import loss as losses
from transalg.model import positions
from transalg.optimisation import muon

SIZES = {False: {"d_e": 128, "ell_max": 64}, True: {"d_e": 256, "ell_max": 128}}


def rounded(x: Tensor) -> Tensor:
    return x.bfloat16().float()


class Rounded(torch.autograd.Function):
    """x, rounded; its gradient, rounded."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return rounded(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return rounded(gradients[0])


def around(function: Callable[..., Tensor], operands: int) -> Callable[..., Tensor]:
    """The function with its first operands and its result rounded, and their gradients."""

    def run(*given: Any, **options: Any) -> Tensor:
        first = [Rounded.apply(each) if isinstance(each, Tensor) else each for each in given[:operands]]  # type: ignore[no-untyped-call]
        result: Tensor = Rounded.apply(function(*first, *given[operands:], **options))  # type: ignore[no-untyped-call]
        return result

    return run


def newton_schulz(G: Tensor, coefficients: muon.Coefficients = muon.COEFFICIENTS, *, bfloat16: bool = False) -> Tensor:
    """`muon.orthogonalised` with every product rounded."""
    products = {name: around(getattr(torch, name), 3 if name == "baddbmm" else 2) for name in ("bmm", "baddbmm")}
    with patch.object(Tensor, "__matmul__", lambda x, y: products["bmm"](x, y)), patch.object(torch, "baddbmm", products["baddbmm"]):
        return rounded(exact(rounded(G), coefficients))


exact, run_loss = muon.orthogonalised, losses._run


def last_map(X: Tensor, W_u: Tensor, *rest: Any) -> Tensor:
    result = run_loss(rounded(X), rounded(W_u), *rest)
    for gradient in rest[-1] or ():
        if gradient is not None:
            gradient.copy_(rounded(gradient))
    return result


PARTS: dict[str, list[tuple[object, str, Callable[..., Tensor]]]] = {
    "none": [],
    "optimiser": [(muon, "orthogonalised", newton_schulz)],
    "layers": [
        (F, "linear", around(F.linear, 3)),
        (F, "scaled_dot_product_attention", around(F.scaled_dot_product_attention, 3)),
        (positions, "turned", around(positions.turned, 3)),
    ],
    "loss": [(losses, "_run", last_map)],
}
PARTS["all"] = [change for changes in PARTS.values() for change in changes]


@contextmanager
def changed(part: str) -> Iterator[None]:
    with ExitStack() as changes:
        for owner, name, function in PARTS[part]:
            changes.enter_context(patch.object(owner, name, function))
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", choices=[*PARTS, []], default=["none", "all"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--wide", action="store_true")
    options = parser.parse_args()
    text = DATA / "lm" / "tinyshakespeare.txt"
    if missing(text):
        return
    sizes = {"L": 4, "H": 4, **SIZES[options.wide]}
    for part in options.parts or PARTS:
        figures = []
        for seed in range(options.seeds):
            training = {"steps": 300, "eval_every": 300, "batch_size": 12, "threads": 1, "dtype": "float32", "seed": seed}
            with tempfile.TemporaryDirectory() as folder, changed(part):
                run = Path(folder) / "run"
                transalg.train("lm", text, out=run, model=sizes, train=training, progress=False)
                figures.append(final_loss(run))
        print(f"{part}: {', '.join(f'{one:.4f}' for one in figures)}", flush=True)


if __name__ == "__main__":
    main()
