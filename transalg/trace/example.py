"""A small example for every algorithm: a text, its characters as the vocabulary (§4), and a random or given θ; or a trained model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from transalg import formal
from transalg.formal.domains import Scope, parameters
from transalg.formal.domains import tokens as token_ids
from transalg.formal.notation import bidirectional, columns, unidirectional
from transalg.formal.theta import DTheta, EDTheta, ETheta, TransformerTheta
from transalg.formal.tree import Theta
from transalg.formal.variants import RelativeAttention, RelativeMHAttention
from transalg.trace.export import visible
from transalg.trace.record import Axes, Trace, run
from transalg.trace.setting import Settings, Sizes
from transalg.trace.source import Algorithm, find

KINDS: dict[int, type[TransformerTheta]] = {8: EDTheta, 9: ETheta, 11: EDTheta, 12: ETheta, 15: EDTheta}
TRANSFORMERS = {11: "EDTransformer", 12: "ETransformer", 13: "DTransformer", 14: "DTransformer", 15: "EDTransformer"}  # by keyword
LARGEST = 9999  # a vocabulary beyond it is no small example


@dataclass(frozen=True)
class Data:
    """The sequences x and z as token IDs, and how each token is written."""

    vocabulary: list[str]
    x: list[int]
    z: list[int]
    prompt: list[int]  # x without eos_token

    def written(self, ids: Sequence[int]) -> list[str]:
        return [self.vocabulary[v] if 0 <= v < len(self.vocabulary) else str(v) for v in ids]


@dataclass(frozen=True)
class Model:
    """A trained model: its θ and the formal algorithm that it computes."""

    theta: TransformerTheta
    acting: Any  # θ with what the departures from the paper make of it, W_u = W_eᵀ say
    transformer: Callable[..., Any]  # from sequences and θ, departures and all
    function: str  # the formal function which that calls
    components: dict[str, Any]  # by keyword: layer_norm, MHAttention, eps, …
    about: str  # which one it is
    classes: Sequence[str] = ()

    @property
    def relative(self) -> bool:
        return self.components.get("MHAttention") is RelativeMHAttention


@dataclass(frozen=True)
class Example:
    """A call of a formal algorithm, ready to be traced."""

    algorithm: Algorithm
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    theta: TransformerTheta
    given: dict[str, Any]  # what it is called with, by the paper's symbol: token IDs, or a word on it
    axes: Axes = field(default_factory=dict)
    vocabulary: Sequence[str] = ()

    def trace(self, depth: int | None = 0) -> Trace:
        trace = run(self.function, *self.args, depth=depth, axes=self.axes, vocabulary=self.vocabulary, **self.kwargs)
        trace.given = self.given
        return trace


def example(
    algorithm: Algorithm,
    text: str,
    context: str | None = None,
    *,
    tokens: Sequence[int] | None = None,
    context_tokens: Sequence[int] | None = None,
    theta_file: Path | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008  frozen
    settings: Settings = Settings(),  # noqa: B008
    seed: int = 0,
) -> Example:
    """The algorithm's call on x, the text or tokens, and z, the context (x again unless given)."""
    number = numbered(algorithm)
    kind = KINDS.get(number, DTheta)
    theta = load_theta(theta_file, kind) if theta_file else None
    room = theta.N_V - 3 if theta else None
    data = read_text(text, context, room, theta_file) if tokens is None else read_tokens(tokens, context_tokens, room)
    generator = torch.Generator().manual_seed(seed)
    if theta is None:
        longest = max(len(data.x), len(data.z), 1) + (settings.ell_gen if number in (14, 15) else 0)
        theta = random_theta(kind, len(data.vocabulary), longest, sizes, generator)
    args, kwargs, given, axes = _call(number, data, theta, settings, generator, crossed=context is not None or context_tokens is not None)
    return Example(algorithm, getattr(formal, algorithm.name), args, kwargs, theta, given, axes, data.vocabulary)


def trained_example(
    algorithm: Algorithm,
    model: Model,
    data: Data,
    *,
    crossed: bool = False,
    settings: Settings = Settings(),  # noqa: B008  frozen
    seed: int = 0,
) -> Example:
    """The algorithm's call on a trained model's θ, with the components that the model has in the place of the paper's."""
    number = numbered(algorithm)
    function: Callable[..., Any] = getattr(formal, algorithm.name)
    more: dict[str, Any] = {}
    if number in (4, 5) and model.relative:
        function = RelativeAttention if number == 4 else RelativeMHAttention
    elif number == 6:
        function, more = model.components["layer_norm"], {"eps": model.components["eps"]}
    elif number in (8, 9, 10):
        function = model.transformer
    elif number in TRANSFORMERS:
        more = {TRANSFORMERS[number]: model.transformer}
    theta = model.theta if number >= 8 else model.acting
    generator = torch.Generator().manual_seed(seed)
    args, kwargs, given, axes = _call(number, data, theta, settings, generator, crossed)
    name = model.function if number in (8, 9, 10) else function.__name__
    axes = axes | ({"N_C": model.classes} if model.classes else {})
    return Example(find(name), function, args, kwargs | more, model.theta, given | {"θ": model.about}, axes, data.vocabulary)


def numbered(algorithm: Algorithm) -> int:
    """The number of an algorithm of the paper."""
    if algorithm.number is None:
        raise ValueError(f"{algorithm.name} is no algorithm of the paper: expected a number from 1 to 15 or its name")
    return algorithm.number


def read_text(text: str, context: str | None, room: int | None, theta_file: Path | None = None) -> Data:
    """Characters between bos_token and eos_token; the vocabulary is the characters there are."""
    alphabet = sorted({*text, *(context or "")})
    if room is not None and len(alphabet) > room:
        raise ValueError(
            f"the text has {len(alphabet)} different characters, but θ in {theta_file} has N_V = {room + 3}, room for {room} and the special tokens; "
            "give token IDs with --tokens"
        )
    alphabet += [str(v) for v in range(len(alphabet), room or 0)]
    bos, eos = len(alphabet) + 1, len(alphabet) + 2
    x, z = ([bos, *map(alphabet.index, one), eos] for one in (text, text if context is None else context))
    return Data([*alphabet, "mask", "bos", "eos"], x, z, x[:-1])


def read_tokens(tokens: Sequence[int], context: Sequence[int] | None, room: int | None) -> Data:
    """Token IDs as they are; the vocabulary is θ's, or just large enough."""
    largest = max([*tokens, *(context or ())], default=0)
    if room is None and largest > LARGEST:
        raise ValueError(f"--tokens: expected IDs up to {LARGEST} for a random θ, got {largest}")
    alphabet = [str(v) for v in range(largest + 1 if room is None else room)]
    return Data(
        [*alphabet, "mask", "bos", "eos"],
        list(tokens),
        list(tokens if context is None else context),
        list(tokens),
    )


def random_theta(kind: type[TransformerTheta], N_V: int, ell_max: int, sizes: Sizes, generator: torch.Generator) -> TransformerTheta:
    depth = {"L_enc": sizes.L, "L_dec": sizes.L} if kind is EDTheta else {"L": sizes.L}
    extra = {"d_f": sizes.d_f} if kind is ETheta else {}
    theta: TransformerTheta = kind.init(  # type: ignore[attr-defined]
        N_V=N_V,
        ell_max=ell_max,
        H=sizes.H,
        d_e=sizes.d_e,
        d_mlp=sizes.d_mlp,
        **depth,
        **extra,
        generator=generator,
    )
    return theta


def _call(number: int, data: Data, theta: Any, settings: Settings, generator: torch.Generator, crossed: bool) -> tuple[Any, ...]:
    """(arguments, keywords, what is given, what stands along the inputs' axes) of an algorithm."""
    x, z = data.x, data.z
    training = settings.N_epochs, settings.eta
    if number >= 8:
        along = {"ℓ": data.written(x)}
        return {
            8: ((z, x, theta), {}, {"z": z, "x": x}, {}),
            9: ((x, theta), {}, {"x": x}, {}),
            10: ((x, theta), {}, {"x": x}, {}),
            11: (([z], [x], theta, *training), {}, {"z_1": z, "x_1": x}, along),
            12: (([x], theta, *training, settings.p_mask, generator), {}, {"x_1": x}, along),
            13: (([x], theta, *training), {}, {"x_1": x}, along),
            14: (
                (data.prompt, theta, settings.ell_gen, settings.tau, generator),
                {},
                {"x": data.prompt, "τ": f"{settings.tau:g}"},
                {},
            ),
            15: (
                (z, theta, settings.tau, generator),
                {"ell_gen": settings.ell_gen},
                {"z": z, "τ": f"{settings.tau:g}"},
                {},
            ),
        }[number]
    scope = Scope({"theta": theta})  # refuse what Algorithm 10 would: an unknown token, an empty or overlong sequence
    parameters(type(theta))("theta", theta, scope)
    for ids in (x, z):
        token_ids("x", ids, scope)
    X, Z = (columns(theta.W_e[:, v] + theta.W_p[:, t] for t, v in enumerate(ids)) for ids in (x, z))

    def spelt(ids: Sequence[int]) -> str:
        return " ".join(map(visible, data.written(ids)))

    layer, last = (theta.enc if isinstance(theta, EDTheta) else theta.layers)[0], f"the embedding of the last token, {spelt(x[-1:])}"
    W = theta.dec[0].W_ed if crossed and isinstance(theta, EDTheta) else layer.W
    causal = isinstance(theta, DTheta) and not crossed
    Mask, said = (unidirectional(len(x)), "[t_z,t_x] = ⟦t_z ≤ t_x⟧") if causal else (bidirectional(len(z), len(x)), " ≡ 1")
    attention = {
        "X": f"the embeddings of {spelt(x)}",
        "Z": f"those of {spelt(z)}",
        "Mask": said,
    }
    along = {"ℓ_x": data.written(x), "ℓ_z": data.written(z), "T": data.written(z), "N_V": data.vocabulary}
    first = min(1, len(x) - 1)
    return {
        1: ((x[first], theta.W_e), {}, {"v": [x[first]]}, along),
        2: ((len(x) - 1, theta.W_p), {}, {"ℓ": f"{len(x)}, the position of the last token"}, along),
        3: (
            (X[:, -1], Z, W.W_qkv[0]),
            {},
            {"e": last, "E": attention["Z"].replace("those", "the embeddings")},
            along,
        ),
        4: ((X, Z, W.W_qkv[0], Mask), {}, attention, along),
        5: ((X, Z, W, Mask), {}, attention, along),
        6: ((X[:, -1], layer.gamma1, layer.beta1), {}, {"e": last}, along),
        7: ((X[:, -1], getattr(theta, "W_u", None)), {}, {"e": last}, along),
    }[number]


def load_theta(path: Path, kind: type[TransformerTheta]) -> TransformerTheta:
    """θ from a safetensors file whose tensors carry the paper's names, as `Theta.named` gives them."""
    try:
        named = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: expected a safetensors file of θ: {error}") from error
    try:
        return kind.from_named(named)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def save_theta(theta: Theta, path: Path) -> None:
    named = {name: part.clone(memory_format=torch.contiguous_format) for name, part in theta.named().items()}
    try:
        save_file(named, path)
    except SafetensorError as error:
        raise ValueError(f"{path}: cannot be written: {error}") from error
