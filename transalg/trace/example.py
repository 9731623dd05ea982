"""A small example for every algorithm: a text, its characters as the vocabulary (§4), and a random or given θ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from transalg import formal
from transalg.formal.notation import bidirectional, columns, unidirectional
from transalg.formal.theta import DTheta, EDTheta, ETheta, TransformerTheta
from transalg.trace.record import Axes, Trace, run
from transalg.trace.setting import Settings, Sizes
from transalg.trace.source import Algorithm

THETAS: dict[int, type[TransformerTheta]] = {8: EDTheta, 9: ETheta, 11: EDTheta, 12: ETheta, 15: EDTheta}


@dataclass(frozen=True)
class Example:
    """A call of a formal algorithm, ready to be traced."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    axes: Axes = field(default_factory=dict)
    vocabulary: Sequence[str] = ()
    theta: TransformerTheta | None = None

    def trace(self, depth: int = 0) -> Trace:
        return run(
            self.function, *self.args, depth=depth, axes=self.axes, vocabulary=self.vocabulary, **self.kwargs
        )


def example(
    algorithm: Algorithm,
    text: str,
    context: str | None = None,
    *,
    tokens: Sequence[int] | None = None,
    theta_file: Path | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008  frozen
    settings: Settings = Settings(),  # noqa: B008
    seed: int = 0,
) -> Example:
    """The algorithm's call on a text: x is the text, z the context (the text again unless given)."""
    number = algorithm.number
    if number is None:
        raise ValueError(
            f"{algorithm.name} is no algorithm of the paper: expected a number from 1 to 15 or its name"
        )
    generator = torch.Generator().manual_seed(seed)
    given = load_theta(theta_file, THETAS.get(number, DTheta)) if theta_file else None
    alphabet = (
        sorted({*text, *(context or "")})
        if tokens is None
        else [str(i) for i in range(max(tokens, default=0) + 1)]
    )
    if given is not None:
        if tokens is None and len(alphabet) > given.N_V - 3:
            raise ValueError(
                f"the text has {len(alphabet)} different characters, but θ in {theta_file} has N_V = {given.N_V}, "
                f"room for {given.N_V - 3} and the special tokens; give token IDs with --tokens"
            )
        alphabet = [*alphabet, *(str(i) for i in range(len(alphabet), given.N_V - 3))][: given.N_V - 3]
    vocabulary = [*alphabet, "mask", "bos", "eos"]
    bos, eos = len(vocabulary) - 2, len(vocabulary) - 1
    body = [alphabet.index(character) for character in text] if tokens is None else list(tokens)
    x = [bos, *body, eos] if tokens is None else body
    z = x if context is None else [bos, *(alphabet.index(character) for character in context), eos]
    ell_max = max(len(x), len(z), 1) + settings.ell_gen
    common = {
        "N_V": len(vocabulary),
        "ell_max": ell_max,
        "H": sizes.H,
        "d_e": sizes.d_e,
        "d_mlp": sizes.d_mlp,
    }
    theta: Any = given
    if theta is None:
        kind = THETAS.get(number, DTheta)
        own = {EDTheta: {"L_enc": sizes.L, "L_dec": sizes.L}, ETheta: {"L": sizes.L, "d_f": sizes.d_f}}.get(
            kind, {"L": sizes.L}
        )
        theta = kind.init(**common, **own, generator=generator)  # type: ignore[attr-defined]

    def embed(ids: Sequence[int]) -> torch.Tensor:
        return columns(theta.W_e[:, v] + theta.W_p[:, t] for t, v in enumerate(ids))

    def written(ids: Sequence[int]) -> list[str]:
        return [vocabulary[v] for v in ids]

    if number in range(1, 8):
        for ids in (x, z):  # what Algorithm 10 would refuse: an unknown token, an empty or overlong sequence
            formal.DTransformer(torch.tensor(ids, dtype=torch.long), theta)
    prompt = x[:-1] if tokens is None else x
    calls: dict[int, Callable[[], tuple[tuple[Any, ...], dict[str, Any], Axes]]] = {
        1: lambda: ((x[min(1, len(x) - 1)], theta.W_e), {}, {}),
        2: lambda: ((len(x) - 1, theta.W_p), {}, {}),
        3: lambda: ((embed(x)[:, -1], embed(z), theta.layers[0].W.W_qkv[0]), {}, {"T": written(z)}),
        4: lambda: (
            (
                embed(x),
                embed(z),
                theta.layers[0].W.W_qkv[0],
                unidirectional(len(x)) if context is None else bidirectional(len(z), len(x)),
            ),
            {},
            {"ℓ_x": written(x), "ℓ_z": written(z)},
        ),
        5: lambda: (
            (
                embed(x),
                embed(z),
                theta.layers[0].W,
                unidirectional(len(x)) if context is None else bidirectional(len(z), len(x)),
            ),
            {},
            {"ℓ_x": written(x), "ℓ_z": written(z)},
        ),
        6: lambda: ((embed(x)[:, -1], theta.layers[0].gamma1, theta.layers[0].beta1), {}, {}),
        7: lambda: ((embed(x)[:, -1], theta.W_u), {}, {"N_V": vocabulary}),
        8: lambda: ((z, x, theta), {}, {}),
        9: lambda: ((x, theta), {}, {}),
        10: lambda: ((x, theta), {}, {}),
        11: lambda: (([z], [x], theta, settings.N_epochs, settings.eta), {}, {"ℓ": written(x)}),
        12: lambda: (
            ([x], theta, settings.N_epochs, settings.eta, settings.p_mask, generator),
            {},
            {"ℓ": written(x)},
        ),
        13: lambda: (([x], theta, settings.N_epochs, settings.eta), {}, {"ℓ": written(x)}),
        14: lambda: ((prompt, theta, settings.ell_gen, settings.tau, generator), {}, {}),
        15: lambda: ((z, theta, settings.tau, generator), {"ell_gen": settings.ell_gen}, {}),
    }
    args, kwargs, axes = calls[number]()
    return Example(getattr(formal, algorithm.name), args, kwargs, axes, vocabulary, theta)


def load_theta(path: Path, kind: type[TransformerTheta]) -> TransformerTheta:
    """θ from a safetensors file whose tensors carry the paper's names, as `Theta.named` gives them."""
    try:
        return kind.from_named(load_file(path))
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: expected a safetensors file of θ: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def save_theta(theta: TransformerTheta, path: Path) -> None:
    save_file({name: part.contiguous() for name, part in theta.named().items()}, path)
