"""A small example for every algorithm of Gato: a text, a picture of two patches, two values, a separator and an action."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import hypot

import torch
from torch import Tensor

from transalg.formal.bins import Bin, Bin_inverse, mu_law
from transalg.formal.domains import Scope, parameters
from transalg.formal.gato import Gato, GatoTheta
from transalg.formal.modality import Patch, Token, loss_weight, token_sequence
from transalg.formal.resnet import convolve
from transalg.formal.theta import SPECIAL
from transalg.trace.example import Call, Example, Model, descending, random_theta
from transalg.trace.modal import BIN, Tokens
from transalg.trace.record import Inputs, function_of
from transalg.trace.setting import Settings, Sizes
from transalg.trace.source import Algorithm, find

G = 2  # groups of the ResNet block
GATO = ("Gato", "GatoEmbedding", "gato_embed", "ResNet", "group_norm", "Index", "RandomIndex", "mu_law", "mu_law_inverse", "Bin")
GATO += ("Bin_inverse", "GatoPrompt", "GatoTraining", "GatoInference", "GatoControl")
TRAINED = ("Gato", "gato_embed", "GatoEmbedding", "ResNet")  # those that are shown on a trained model
N_BINS = 8  # 1,024 would fill the page
VALUES = (2.5, -0.3)  # what is observed
N_LOC, N_CELL, C, C_R, SIGMA, PATCH = 32, 8, 3, 4, 4, 16


class Walk:
    """An environment to trace: a walker that stands at 0 and goes one step left or right, three times."""

    actions = ((0, 1),)

    def __init__(self, N_text: int) -> None:
        self.place, self.time, self.N_text = 0.0, 0, N_text

    def reset(self) -> list[Token]:
        return [Token("obs", Bin(self.place, self.N_text, N_BINS), 0)]

    def step(self, a: list[int]) -> list[Token] | None:
        self.place, self.time = self.place + (1.0 if a[0] else -1.0), self.time + 1
        return None if self.time == 3 else self.reset()


def picture() -> list[Patch]:
    """A disc before a sky, 16 × 32 pixels in colour, as two patches."""
    pixels = torch.empty(C, PATCH, 2 * PATCH, dtype=torch.float64)
    for i in range(PATCH):
        for j in range(2 * PATCH):
            inside = hypot(i - 8, j - 18) < 6
            pixels[:, i, j] = torch.tensor((0.9, 0.6, -0.8) if inside else (-0.7, 0.05 * i - 0.3, 0.8))
    return [Patch(pixels[:, :, j * PATCH : (j + 1) * PATCH], (0.0, 1.0), (j / 2, (j + 1) / 2)) for j in range(2)]


def timestep(text: Sequence[int], N_text: int, sep: int) -> list[Token]:
    """Text, then patches, then values, each with its index; a separator, and an action."""
    tokens = [Token("text", x, p) for p, x in enumerate(text)]
    tokens += [Token("img", p=len(tokens) + i, patch=patch) for i, patch in enumerate(picture())]
    tokens += [Token("obs", Bin(v, N_text, N_BINS), len(tokens) + i) for i, v in enumerate(VALUES)]
    return [*tokens, Token("sep", sep), Token("act", 1)]


def gato_example(
    algorithm: Algorithm,
    text: str,
    *,
    theta: GatoTheta | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008  frozen
    settings: Settings = Settings(),  # noqa: B008
    seed: int = 0,
) -> Example:
    """The algorithm's call on a timestep with this text."""
    if algorithm.name == "GatoTraining" and settings.eta is None:
        options = {"theta": theta, "sizes": sizes, "seed": seed}
        return descending(lambda eta: gato_example(algorithm, text, settings=replace(settings, eta=eta), **options))  # type: ignore[arg-type]
    alphabet = sorted(set(text))
    N_text, generator = len(alphabet) + len(SPECIAL), torch.Generator().manual_seed(seed)
    special = (N_text - 3, N_text - 2, N_text - 1)
    s = timestep([alphabet.index(sign) for sign in text], N_text, N_text + N_BINS)
    if theta is None:
        block = {"N_loc": N_LOC, "N_grid": N_CELL, "C": C, "C_r": C_R, "k_0": SIGMA + 2, "k": 3, "d_Z": C_R * (PATCH // SIGMA) ** 2}
        drawn = random_theta(GatoTheta, N_text + N_BINS + 1, 2 * len(s), sizes, generator, **block)
        theta = GatoTheta.from_named(drawn.named(), special)
    scope = Scope({"theta": theta})
    parameters(GatoTheta)("theta", theta, scope)
    s = token_sequence("text", s, scope)  # refuses what Gato would: a text too long, say
    values = [f"{BIN}{Bin_inverse(x, N_text, N_BINS):.3g}" for x in range(N_text, N_text + N_BINS)]
    vocabulary = [*alphabet, *(name.removesuffix("_token") for name in SPECIAL), *values, "|"]
    return Example(algorithm, function_of(algorithm), _call(algorithm.name, s, theta, settings, generator), theta, vocabulary)


def trained_gato_example(algorithm: Algorithm, s: list[Token], model: Model, G: int, vocabulary: Sequence[str]) -> Example:
    """The algorithm's call on tokens of a trained model's own, its first patch where it takes a patch."""
    if algorithm.name not in TRAINED:
        raise ValueError(f"--run: {algorithm.name} is shown on an example alone; of a trained model {', '.join(TRAINED)} are")
    theta, acting, about = model.theta, model.acting, model.about
    assert isinstance(theta, GatoTheta) and isinstance(acting, GatoTheta)
    first = next((one for one in s if one.patch is not None), s[0])
    if algorithm.name == "ResNet" and first.patch is None:
        raise ValueError("--task: expected a task with images, for ResNet takes a patch")
    m = " ".join(f"{loss_weight(each):g}" for each in s)
    shown: Inputs = {"s": Tokens(tuple(s)), "m": f"{m}   (its weight in the loss)", "θ": about}
    settings: dict[str, object] = {"G": G, "eps": model.eps}
    if algorithm.name == "Gato":
        return Example(find(model.function), model.transformer, Call((s, theta), shown), theta, vocabulary)
    if algorithm.name == "gato_embed":
        call = Call((s, acting), shown, kwargs=settings)
    elif algorithm.name == "GatoEmbedding":
        call = Call((first, acting.theta_e), {"s": Tokens((first,)), "θ": about}, kwargs=settings)
    else:
        assert first.patch is not None
        A = first.patch.A / first.patch.A.shape[-1] ** 0.5
        call = Call((A, theta.W_res, G), {"A": "the first patch, divided by the root of its width", "θ": about}, kwargs={"eps": model.eps})
    return Example(algorithm, function_of(algorithm), call, theta, vocabulary)


def _call(name: str, s: list[Token], theta: GatoTheta, settings: Settings, generator: torch.Generator) -> Call:
    first = next(t for t, each in enumerate(s) if each.patch is not None)
    patch, sep = s[first + 1].patch, next(each.x for each in s if each.kappa == "sep")
    assert patch is not None
    rows, n, N = patch.columns, len(s), theta.W_row.shape[1]
    A, N_text = patch.A / 4, sep - N_BINS
    Z: Tensor = convolve(theta.W_res.K_0, A, theta.W_res.stride)
    transformer = partial(Gato, G=G)
    tau = 1.0 if settings.tau is None else settings.tau
    ell_gen = 4 if settings.ell_gen is None else settings.ell_gen
    m = " ".join(f"{loss_weight(each):g}" for each in s)
    whole: Inputs = {"s": Tokens(tuple(s)), "m": f"{m}   (its weight in the loss)"}
    place: Inputs = {"a": f"{rows[0]:g}", "b": f"{rows[1]:g}, the columns of the second patch", "N": str(N)}
    v = VALUES[0]
    x = Bin(v, N_text, N_BINS)
    code: Inputs = {"x": f"{x}, a bin", "N_text": str(N_text), "N_bins": str(N_BINS)}
    value: Inputs = {"v": f"{v:g}, an observed value"}
    pixels: Inputs = {"A": "the second patch of the picture, divided by 4"}
    temperature: Inputs = {"τ": f"{tau:g}"}
    rate: Inputs = {} if settings.eta is None else {"η": f"{settings.eta:.3g}"}
    training = settings.N_epochs, settings.eta, 0.5, generator
    return {
        "Gato": Call((s, theta), whole, kwargs={"G": G}),
        "gato_embed": Call((s, theta), whole, kwargs={"G": G}),
        "GatoEmbedding": Call((s[first + 1], theta.theta_e), {"s": Tokens((s[first + 1],))}, kwargs={"G": G}),
        "ResNet": Call((A, theta.W_res, G), pixels | {"G": str(G)}),
        "group_norm": Call((Z, theta.W_res.gamma1, theta.W_res.beta1, G), {"Z": "what K_0 makes of the second patch", "G": str(G)}),
        "Index": Call((*rows, N), place),
        "RandomIndex": Call((*rows, N, generator), place),
        "mu_law": Call((v,), value),
        "mu_law_inverse": Call((mu_law(v),), {"y": f"{mu_law(v):.4g}"}),
        "Bin": Call((v, N_text, N_BINS), value | code),
        "Bin_inverse": Call((x, N_text, N_BINS), code),
        "GatoPrompt": Call((s, [s], theta, generator), {"s": Tokens(tuple(s)), "E": "s alone"}),
        "GatoTraining": Call(
            ([s, s[first:]], ["a", "a"], theta, *training),
            {"s_1": Tokens(tuple(s)), "s_2": Tokens(tuple(s[first:]))} | rate,
            kwargs={"Gato": transformer},
        ),
        "GatoInference": Call(
            (s[first : first + 2], theta, min(ell_gen, n), tau, generator),
            {"s": Tokens(tuple(s[first : first + 2]))} | temperature,
            kwargs={"Gato": transformer},
        ),
        "GatoControl": Call(
            (Walk(N_text), [], theta, tau, sep, generator), {"env": "a walk of three steps"} | temperature, kwargs={"Gato": transformer}
        ),
    }[name]
