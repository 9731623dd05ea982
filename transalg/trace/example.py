"""A small example for every algorithm: a text, its characters as the vocabulary (§4), and a θ, random or from a file; or a trained model."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from transalg import formal
from transalg.atomic import atomic_path
from transalg.formal.components import MultiHead, Norm
from transalg.formal.decoders import LlamaTheta, Qwen3Theta
from transalg.formal.domains import Scope, parameters
from transalg.formal.domains import tokens as token_ids
from transalg.formal.embedding import embed
from transalg.formal.heads import GroupedMHAttention
from transalg.formal.mask import bidirectional, unidirectional
from transalg.formal.positions import rotary_frequencies, rotate, without_positions
from transalg.formal.theta import SPECIAL, DTheta, EDTheta, EncoderTheta, ETheta, TransformerTheta
from transalg.formal.tree import Theta
from transalg.reading import parse_json
from transalg.trace.export import summary, visible
from transalg.trace.record import Axes, Inputs, Trace, function_of, run
from transalg.trace.setting import Settings, Sizes
from transalg.trace.source import Algorithm, find

KINDS: dict[int, type[TransformerTheta]] = {8: EDTheta, 9: ETheta, 11: EDTheta, 12: ETheta, 15: EDTheta}
SYSTEMS: dict[str, type[DTheta]] = {  # those of formal/decoders.py
    "Llama": LlamaTheta,
    "Mistral": LlamaTheta,
    "Qwen2": LlamaTheta,
    "Qwen3": Qwen3Theta,
    "Gemma": LlamaTheta,
    "GPTNeoX": DTheta,
}
UNITS: dict[str, type[DTheta]] = {  # what these are made of
    "rotate": DTheta,
    "RotaryAttention": DTheta,
    "GroupedMHAttention": LlamaTheta,
    "NormedAttention": Qwen3Theta,
    "GatedMLP": LlamaTheta,
}
TRANSFORMERS = {11: "EDTransformer", 12: "ETransformer", 13: "DTransformer", 14: "DTransformer", 15: "EDTransformer"}  # by keyword
LARGEST = 9999  # a vocabulary beyond it is no small example
ELL_GEN, TAU = 4, 0.5  # unless given; with τ = 1, q would be p
ETAS = [0.1 / 2**k for k in range(20)]  # to try, where η is not given


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
    acting: TransformerTheta  # θ with what the departures from the paper make of it, W_u = W_eᵀ say
    transformer: Callable[..., Tensor]  # from sequences and θ, departures and all
    function: str  # the formal function which that calls
    layer_norm: Norm
    eps: float
    MHAttention: MultiHead
    about: str  # which one it is
    classes: Sequence[str] = ()

    @property
    def Attention(self) -> Callable[..., object]:
        """What its MHAttention calls for every head."""
        heads = (formal.MHAttention, GroupedMHAttention)
        if self.MHAttention in heads:
            return formal.Attention
        if isinstance(self.MHAttention, partial) and self.MHAttention.func in heads:
            head: Callable[..., object] = self.MHAttention.keywords.get("Attention", formal.Attention)
            return head
        raise ValueError(f"{name_of(self.MHAttention)}: expected MHAttention with another Attention, got a function of its own")


@dataclass(frozen=True)
class Call:
    """The arguments of an algorithm, and what to say of them."""

    args: tuple[object, ...]
    inputs: Inputs
    axes: Axes = field(default_factory=dict)  # what stands along the dimensions of the inputs
    kwargs: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Example:
    """A call of a formal algorithm, ready to be traced."""

    algorithm: Algorithm
    function: Callable[..., object]
    call: Call
    theta: TransformerTheta
    vocabulary: Sequence[str] = ()

    def trace(self, depth: int | None = 0) -> Trace:
        call = self.call
        trace = run(self.function, *call.args, depth=depth, axes=call.axes, vocabulary=self.vocabulary, **call.kwargs)
        trace.inputs = call.inputs
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
    variants = SYSTEMS | UNITS
    number = 0 if algorithm.name in variants else numbered(algorithm)
    if number in (11, 12, 13) and settings.eta is None:
        options = {"tokens": tokens, "context_tokens": context_tokens, "theta_file": theta_file, "sizes": sizes, "seed": seed}
        return descending(lambda eta: example(algorithm, text, context, settings=replace(settings, eta=eta), **options))  # type: ignore[arg-type]
    kind = variants.get(algorithm.name) or KINDS.get(number, DTheta)
    theta = load_theta(theta_file, kind) if theta_file else None
    data = read_text(text, context, theta, theta_file) if tokens is None else read_tokens(tokens, context_tokens, theta)
    generator = torch.Generator().manual_seed(seed)
    if theta is None:
        longest = max(len(data.x), len(data.z), 1) + (_ell_gen(settings) if number in (14, 15) else 0)
        theta = random_theta(kind, len(data.vocabulary), longest, sizes, generator)
        if algorithm.name == "Gemma":  # its scales are 1 + γ
            theta = kind.from_named({name: 0 * part if "gamma" in name else part for name, part in theta.named().items()})
    crossed = context is not None or context_tokens is not None
    if number:
        call = _call(number, data, theta, settings, generator, crossed)
    else:
        call = _variant_call(algorithm.name, data, theta, settings, crossed)
    return Example(algorithm, function_of(algorithm), call, theta, data.vocabulary)


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
    if number in (11, 12, 13) and settings.eta is None:
        options = {"crossed": crossed, "seed": seed}
        return descending(lambda eta: trained_example(algorithm, model, data, settings=replace(settings, eta=eta), **options))  # type: ignore[arg-type]
    function: Callable[..., object] = function_of(algorithm)
    more: dict[str, object] = {"stop": model.theta.eos_token} if number == 14 else {}  # as `transalg generate` does
    if number in (4, 5):
        function = model.Attention if number == 4 else model.MHAttention
    elif number == 6:
        function, more = model.layer_norm, {"eps": model.eps}
    elif number in (8, 9, 10):
        function = model.transformer
    elif number in TRANSFORMERS:
        more |= {TRANSFORMERS[number]: model.transformer}
    theta = model.theta if number >= 8 else model.acting
    generator = torch.Generator().manual_seed(seed)
    call = _call(number, data, theta, settings, generator, crossed)
    name = model.function if number in (8, 9, 10) else name_of(function)
    axes = call.axes | ({"N_C": model.classes} if model.classes else {})
    call = Call(call.args, call.inputs | {"θ": model.about}, axes, call.kwargs | more)
    return Example(find(name), function, call, model.theta, data.vocabulary)


def descending(make: Callable[[float], Example]) -> Example:
    """The example with the largest η that lowers the loss at every step: the loss is a sum over tokens, so η depends on their number."""
    found = next((eta for eta in ETAS if _descends(make(eta).trace())), None)
    eta, why = (found, "with which every step lowers the loss") if found is not None else (ETAS[-1], "the smallest that was tried")
    of = make(eta)  # anew, with random numbers from their beginning
    return replace(of, call=replace(of.call, inputs=of.call.inputs | {"η": f"{eta:.3g}, {why}"}))


def _descends(trace: Trace) -> bool:
    """Whether the loss after every step is below the one before it; a step of nothing, for no token is masked, counts too."""
    before = [float(step.value) for step in trace.steps if step.symbol == "loss(θ)"]  # type: ignore[arg-type]
    steps = [step.inner for step in trace.steps if step.inner and isinstance(step.inner[0].value, Theta)]
    after = [(summary(gradient.value)["norm"], float(loss.value)) for gradient, loss in steps]  # type: ignore[arg-type]
    return all(norm == 0 or now < then for then, (norm, now) in zip(before, after, strict=True))


def _ell_gen(settings: Settings) -> int:
    return ELL_GEN if settings.ell_gen is None else settings.ell_gen


def name_of(function: Callable[..., object]) -> str:
    return name_of(function.func) if isinstance(function, partial) else function.__name__


def numbered(algorithm: Algorithm) -> int:
    """The number of an algorithm of the paper."""
    if algorithm.number is None:
        others = ", ".join((*SYSTEMS, *UNITS, "Gato and its parts"))
        raise ValueError(
            f"{algorithm.name} is no algorithm of the paper: expected a number from 1 to 15 or its name; without --run also {others}"
        )
    return algorithm.number


def read_text(text: str, context: str | None, theta: TransformerTheta | None, theta_file: Path | None = None) -> Data:
    """Characters between bos_token and eos_token, as far as θ has them; the vocabulary is their characters."""
    alphabet = sorted({*text, *(context or "")})
    N_V = theta.N_V if theta else len(alphabet) + len(SPECIAL)
    special = _special(theta, N_V)
    ordinary = [v for v in range(N_V) if v not in special.values()]
    if len(alphabet) > len(ordinary):
        raise ValueError(
            f"the text has {len(alphabet)} different characters, but θ in {theta_file} has N_V = {N_V}, room for {len(ordinary)} and the special "
            "tokens; give token IDs with --tokens"
        )
    ids = dict(zip(alphabet, ordinary, strict=False))
    bos, eos = ([special[name]] if name in special else [] for name in ("bos", "eos"))
    x, z = ([*bos, *(ids[character] for character in one)] for one in (text, text if context is None else context))
    return Data(_vocabulary(N_V, ids | special), x + eos, z + eos, x)


def read_tokens(tokens: Sequence[int], context: Sequence[int] | None, theta: TransformerTheta | None) -> Data:
    """Token IDs as they are; the vocabulary is θ's, or just large enough."""
    largest = max([*tokens, *(context or ())], default=0)
    if theta is None and largest > LARGEST:
        raise ValueError(f"--tokens: expected IDs up to {LARGEST} for a random θ, got {largest}")
    N_V = theta.N_V if theta else largest + 1 + len(SPECIAL)
    x, z = list(tokens), list(tokens if context is None else context)
    return Data(_vocabulary(N_V, _special(theta, N_V)), x, z, list(x))


def _special(theta: TransformerTheta | None, N_V: int) -> dict[str, int]:
    """mask, bos and eos: θ's, or the last three."""
    tokens = theta.special_tokens if theta else dict(zip(SPECIAL, range(N_V - len(SPECIAL), N_V), strict=True))
    return {name.removesuffix("_token"): v for name, v in tokens.items()}


def _vocabulary(N_V: int, ids: Mapping[str, int]) -> list[str]:
    """How every token is written: by its name, or else by its ID."""
    names = {v: name for name, v in ids.items()}
    return [names.get(v, str(v)) for v in range(N_V)]


def random_theta(
    kind: type[TransformerTheta], N_V: int, ell_max: int, sizes: Sizes, generator: torch.Generator, **more: int
) -> TransformerTheta:
    chosen = {"N_V": N_V, "ell_max": ell_max, "L_enc": sizes.L, "L_dec": sizes.L} | vars(sizes) | more
    needed = {symbol: chosen[symbol] for symbol in kind.symbols() if symbol in chosen}
    return kind.init(generator=generator, **needed)


def _call(number: int, data: Data, theta: TransformerTheta, settings: Settings, generator: torch.Generator, crossed: bool) -> Call:
    if number < 8:
        return _component_call(number, data, theta, crossed)
    x, z, prompt = data.x, data.z, data.prompt
    training = settings.N_epochs, settings.eta
    tau, ell_gen = TAU if settings.tau is None else settings.tau, _ell_gen(settings)
    rate: Inputs = {} if settings.eta is None else {"η": f"{settings.eta:.3g}"}
    alone: Inputs = {"x_1": x}
    pair: Inputs = {"z_1": z, "x_1": x}
    along: Axes = {"ℓ": data.written(x)}
    return {
        8: Call((z, x, theta), {"z": z, "x": x}),
        9: Call((x, theta), {"x": x}),
        10: Call((x, theta), {"x": x}),
        11: Call(([z], [x], theta, *training), pair | rate, along),
        12: Call(([x], theta, *training, settings.p_mask, generator), alone | rate, along),
        13: Call(([x], theta, *training), alone | rate, along),
        14: Call((prompt, theta, ell_gen, tau, generator), {"x": prompt, "τ": f"{tau:g}"}),
        15: Call((z, theta, tau, generator), {"z": z, "τ": f"{tau:g}"}, kwargs={"ell_gen": ell_gen}),
    }[number]


def _component_call(number: int, data: Data, theta: TransformerTheta, crossed: bool) -> Call:
    """Algorithms 1–7, on the embeddings of the tokens and the first layer of θ."""
    scope = Scope({"theta": theta})  # refuse what Algorithm 10 would: an unknown token, an empty or overlong sequence
    parameters(type(theta), wider_layers=True)("theta", theta, scope)
    (x, X), (z, Z) = ((ids, embed(token_ids("x", ids, scope), theta)) for ids in (data.x, data.z))

    def spelt(ids: Sequence[int]) -> str:
        return " ".join(map(visible, data.written(ids)))

    assert isinstance(theta, EDTheta | DTheta | EncoderTheta)
    layer = theta.enc[0] if isinstance(theta, EDTheta) else theta.layers[0]
    W = theta.dec[0].W_ed if crossed and isinstance(theta, EDTheta) else layer.W
    causal = isinstance(theta, DTheta) and not crossed
    Mask, said = (unidirectional(len(x)), "[t_z,t_x] = ⟦t_z ≤ t_x⟧") if causal else (bidirectional(len(z), len(x)), " ≡ 1")
    last: Inputs = {"e": f"the embedding of the last token, {spelt(x[-1:])}"}
    attention: Inputs = {"X": f"the embeddings of {spelt(x)}", "Z": f"those of {spelt(z)}", "Mask": said}
    along: Axes = {"ℓ_x": data.written(x), "ℓ_z": data.written(z), "T": data.written(z), "N_V": data.vocabulary}
    first = min(1, len(x) - 1)
    return {
        1: Call((x[first], theta.W_e), {"v": [x[first]]}, along),
        2: Call((len(x) - 1, theta.W_p), {"ℓ": f"{len(x)}, the position of the last token"}, along),
        3: Call((X[:, -1], Z, W.W_qkv[0]), last | {"E": f"the embeddings of {spelt(z)}"}, along),
        4: Call((X, Z, W.W_qkv[0], Mask), attention, along),
        5: Call((X, Z, W, Mask), attention, along),
        6: Call((X[:, -1], layer.gamma1, layer.beta1), last, along),
        7: Call((X[:, -1], getattr(theta, "W_u", None)), last, along),
    }[number]


def _variant_call(name: str, data: Data, theta: TransformerTheta, settings: Settings, crossed: bool) -> Call:
    """A system on x; what systems are made of, on the embeddings of the tokens and the first layer of θ."""
    assert isinstance(theta, DTheta)
    d_attn = theta.sizes()["d_attn"]
    d_rot = max(2, d_attn // 8 * 2) if name == "GPTNeoX" else d_attn // 2 * 2  # a quarter turns there
    omega = rotary_frequencies(d_rot)
    turns: Inputs = {"ω": " ".join(f"{one:.3g}" for one in omega.tolist())}
    if name in SYSTEMS:
        window: dict[str, object] = {"w": settings.w} if name == "Mistral" else {}
        inputs: Inputs = {"x": data.x} | turns | {symbol: str(width) for symbol, width in window.items()}
        return Call((data.x, theta), inputs, kwargs={"omega": omega} | window)
    call = _component_call(5, data, without_positions(theta), crossed)
    X, Z, W, Mask = call.args
    assert isinstance(X, Tensor) and isinstance(W, formal.MHAttentionTheta)
    head, layer, last = W.W_qkv[0], theta.layers[0], len(data.x)
    written = " ".join(map(visible, data.written(data.x)))
    query: Inputs = {"e": f"the query of the last token, {visible(data.written(data.x)[-1])}, in the first head", "t": f"{last}"}
    return {
        "rotate": Call((head.W_q @ X[:, -1] + head.b_q, last - 1, omega), query | turns, call.axes),
        "RotaryAttention": Call((X, Z, head, Mask), call.inputs | turns, call.axes, {"omega": omega}),
        "GroupedMHAttention": call,
        "NormedAttention": Call((X, Z, head, Mask), call.inputs | turns, call.axes, {"rotate": partial(rotate, omega=omega)}),
        "GatedMLP": Call((X, layer.mlp), {"X": f"the embeddings of {written}"}, {"ℓ": data.written(data.x)}),
    }[name]


def load_theta(path: Path, kind: type[TransformerTheta]) -> TransformerTheta:
    """θ from a safetensors file whose tensors carry the paper's names, as `Theta.named` gives them."""
    try:
        if path.exists() and not path.is_file():
            raise OSError("not a file")  # a pipe would be waited for
        named = load_file(path)
        with safe_open(path, "pt") as file:
            special = parse_json((file.metadata() or {}).get("special", "null"))
    except (OSError, SafetensorError, ValueError) as error:
        raise ValueError(f"{path}: expected a safetensors file of θ: {error}") from error
    try:
        return kind.from_named(named, None if special is None else tuple(special))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def save_theta(theta: TransformerTheta, path: Path) -> None:
    """Write θ as `load_theta` reads it, special tokens that are not the last three included."""
    if theta.statistics is not None:
        raise ValueError(f"{path}: expected a θ without running statistics, for which the file has no place, got one of batch_norm")
    named = {name: part.clone(memory_format=torch.contiguous_format) for name, part in theta.named().items()}
    try:
        with atomic_path(path) as temporary:
            save_file(named, temporary, None if theta.special is None else {"special": json.dumps(theta.special)})
    except SafetensorError as error:
        raise ValueError(f"{path}: cannot be written: {error}") from error
