"""Between a model and the paper: its parameters as the formal θ and back, and the formal algorithm that it computes."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from transalg.formal import DTheta, DTransformer, EDTheta, EDTransformer, ETheta, ETransformer
from transalg.formal.classification import EClassifier, ECTheta
from transalg.formal.components import MHAttention, layer_norm
from transalg.formal.domains import refuse
from transalg.formal.embedding import BERT_embed, scaled
from transalg.formal.mask import sparse, unidirectional
from transalg.formal.mlp import MLP, tanh_GELU
from transalg.formal.norm import RMSnorm, no_norm
from transalg.formal.notation import GELU, ReLU
from transalg.formal.positions import (
    RelativeAttention,
    RelativeMHAttentionTheta,
    paper_sinusoids,
    sinusoids,
    with_positions,
    without_positions,
)
from transalg.formal.systems import (
    BERT,
    GPT,
    BERTClassifier,
    BERTClassifierTheta,
    BERTTheta,
    PreNormEDTheta,
    PreNormEDTransformer,
    post_norm,
    pre_norm,
)
from transalg.formal.tree import Theta
from transalg.formal.unembedding import tied
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, Hyper
from transalg.shapes import shapes

TABLES = ("W_e", "W_p", "W_s")  # a row for each token, position or segment here, a column in the paper
Named = dict[str, Tensor]


def theta_kind(hyper: Hyper) -> type[Theta]:
    """The paper's θ where it has all that the model has."""
    if isinstance(hyper, DHyper):
        return DTheta
    if isinstance(hyper, EDHyper):
        return PreNormEDTheta if hyper.norm_first else EDTheta
    assert isinstance(hyper, EHyper)
    plain = not (hyper.segments or hyper.embedding_norm or hyper.output_bias or hyper.norm_first)
    if isinstance(hyper, ClassifierHyper):
        return ECTheta if plain else BERTClassifierTheta
    return ETheta if plain else BERTTheta


# Model → θ -------------------------------------------------------------------------------------------------------------


def theta_of(hyper: Hyper, state: Named, dtype: torch.dtype, *, gradient: bool = False) -> Any:
    """θ from the parameters of a model, or a gradient by θ from their gradients. What the model has not is as it acts, or 0 in a gradient."""
    named = {}
    for name, part in state.items():
        stack, _, symbol = name.rpartition(".")
        for own, value in _apart(symbol, part, hyper):
            named[f"{stack}.{own}" if stack else own] = value.to(dtype, copy=True).contiguous()
    relative = {name: named.pop(name) for name in list(named) if name.rpartition(".")[2] in ("W_r", "u", "w")}
    for name, value in _absent(hyper, named, gradient).items():
        named.setdefault(name, value)
    theta = theta_kind(hyper).from_named(named)
    if isinstance(theta, DTheta) and relative:
        layers = []
        for l, layer in enumerate(theta.layers):
            own = {each.name: getattr(layer.W, each.name) for each in fields(layer.W)}
            own |= {symbol: relative[f"layers.{l}.W.{symbol}"] for symbol in ("W_r", "u", "w")}
            layers.append(replace(layer, W=RelativeMHAttentionTheta(**own)))
        return replace(theta, layers=tuple(layers))
    return theta


def _apart(symbol: str, part: Tensor, hyper: Hyper) -> list[tuple[str, Tensor]]:
    """One of the engine's parameters as those of the paper, heads stacked."""
    H, d_attn, d_mid = hyper.heads
    kind, _, of = symbol.partition("_")
    if symbol in TABLES:
        return [(symbol, part.mT)]
    if of in ("qkv", "kv", "q"):
        widths = [{"q": d_attn, "k": d_attn, "v": d_mid}[one] for one in of]
        return [
            (f"{kind}_{one}", torch.unflatten(each, 0, (H, -1)))
            for one, each in zip(of, torch.split(part, [H * width for width in widths]), strict=True)
        ]
    if symbol == "W_r":
        return [(symbol, torch.unflatten(part, 0, (H, d_attn)))]
    return [(symbol, part)]


def _absent(hyper: Hyper, named: Named, gradient: bool) -> Named:
    """The parts of θ that the model does not learn."""
    W_e = named["W_e"]
    parts: Named = {
        name.replace("gamma", "beta"): torch.zeros_like(part) for name, part in named.items() if name.rpartition(".")[2].startswith("gamma")
    }
    if theta_kind(hyper) in (BERTTheta, BERTClassifierTheta):
        parts |= {"W_s": W_e.new_zeros(hyper.d_e, 1), "gamma_e": W_e.new_ones(hyper.d_e), "beta_e": W_e.new_zeros(hyper.d_e)}
    if theta_kind(hyper) is BERTTheta:
        parts["b_u"] = W_e.new_zeros(hyper.N_V)
    if not isinstance(hyper, ClassifierHyper):
        parts["W_u"] = W_e.mT.contiguous()
    parts["W_p"] = _positions(hyper).to(W_e)
    return {name: torch.zeros_like(part) for name, part in parts.items()} if gradient else parts


def _positions(hyper: Hyper) -> Tensor:
    """W_p of a model that does not learn it, d_e × ℓ_max."""
    if "sinusoids" in hyper.positions:
        return (sinusoids if hyper.positions == "sinusoids" else paper_sinusoids)(hyper.d_e, hyper.ell_max)
    return torch.zeros(hyper.d_e, hyper.ell_max)


# θ → model -------------------------------------------------------------------------------------------------------------

SUITS = {
    DHyper: (DTheta,),
    EHyper: (ETheta, BERTTheta),
    ClassifierHyper: (ECTheta, BERTClassifierTheta),
    EDHyper: (EDTheta, PreNormEDTheta),
}


def hyper_of(theta: Any, kind: type[Hyper], departures: dict[str, Any], whole: Any = None) -> Any:
    """The hyperparameters of a model with this θ: its sizes, what its kind shows, and the departures given; or all of them as given."""
    suits = SUITS[kind]
    if type(theta) not in suits:
        raise refuse("theta", " or ".join(f"a {each.__name__}" for each in suits), type(theta).__name__)
    sizes = theta.sizes()
    unknown = departures.keys() - {each.name for each in fields(kind)}
    if unknown:
        raise refuse(min(unknown), f"a field of {kind.__name__}", "another")
    if whole is not None:
        if type(whole) is not kind:
            raise refuse("hyper", f"a {kind.__name__}", type(whole).__name__)
        hyper = whole.but(**departures)
    else:
        hyper = kind(**_shown(theta, sizes) | departures)
    for symbol, size in sizes.items():
        if symbol not in ("N_S", "d_r") and getattr(hyper, symbol) != size:
            raise refuse("theta", f"{symbol} = {getattr(hyper, symbol)}, as in hyper", size)
    if isinstance(hyper, DHyper) and hyper.positions == "relative" and sizes.get("d_r") != hyper.d_r:
        raise refuse("theta", f"relative positions with d_r = {hyper.d_r}", sizes.get("d_r", "none"))
    if type(theta) is not theta_kind(hyper):
        raise refuse("theta", f"a {theta_kind(hyper).__name__} with these departures", type(theta).__name__)
    return hyper


def _shown(theta: Any, sizes: dict[str, int]) -> dict[str, Any]:
    """The fields that can be read off θ: its sizes and, where its kind says so, a departure."""
    shown: dict[str, Any] = dict(sizes)
    if isinstance(theta, BERTTheta | BERTClassifierTheta):
        shown |= {"segments": shown.pop("N_S"), "embedding_norm": True}
    if isinstance(theta, BERTTheta):
        shown["output_bias"] = True
    if isinstance(theta, PreNormEDTheta):
        shown["norm_first"] = True
    if isinstance(theta, DTheta) and isinstance(theta.layers[0].W, RelativeMHAttentionTheta):
        shown["positions"] = "relative"
    return shown


def state_of(theta: Any, hyper: Hyper) -> Named:
    """The parameters of the model whose θ is given."""
    named = theta.named()
    if hyper.tied and not named["W_u"].equal(named["W_e"].mT):
        raise refuse("theta", "W_u = W_eᵀ, for tied=True", "another W_u")
    if hyper.positions not in ("learned", "relative") and not torch.allclose(named["W_p"], _positions(hyper).to(named["W_p"])):
        raise refuse("theta", f"the W_p of positions={hyper.positions}", "another W_p")
    return {name: _together(name, named) for name in shapes(hyper)}


def nothing_lost(theta: Any, hyper: Hyper, state: Named) -> None:
    """Refuse a θ with a part that the model would leave out although it acts."""
    idle = {"W_p"} if hyper.positions == "relative" else set()
    kept = theta_of(hyper, state, next(iter(state.values())).dtype).named()
    for name, part in theta.named().items():
        symbol = name.rpartition(".")[2]
        if symbol in idle or (symbol.startswith("beta") and hyper.norm == "RMSnorm"):
            continue
        if name not in kept or kept[name].shape != part.shape or not torch.allclose(kept[name], part):
            raise refuse("theta", f"no {name}, or one that does nothing, with these departures", "one that acts")


def _together(name: str, named: Named) -> Tensor:
    """One of the engine's parameters from those of the paper."""
    stack, dot, symbol = name.rpartition(".")
    kind, _, of = symbol.partition("_")
    if symbol in TABLES:
        return named[name].mT
    if of in ("qkv", "kv", "q"):
        return torch.cat([named[f"{stack}{dot}{kind}_{one}"].flatten(0, 1) for one in of])
    return named[name].flatten(0, 1) if symbol == "W_r" else named[name]


# The formal algorithm of a model ---------------------------------------------------------------------------------------


TRAINING = ("dropout", "attention_dropout", "label_smoothing", "init_std", "init_residual", "mask_split", "p_mask")


@dataclass(frozen=True)
class Twin:
    """The formal algorithm that a model computes: a function of the paper, or a variant, and the components it is called with."""

    hyper: Hyper
    function: Callable[..., Tensor]
    components: dict[str, Any]

    def __call__(self, *inputs: Any, **more: Any) -> Tensor:
        """P from x and θ (from z, x and θ; from x, θ and segments)."""
        return self.function(*(self.acting(one) if isinstance(one, Theta) else one for one in inputs), **self.components, **more)

    def acting(self, theta: Any) -> Any:
        """θ with what the departures make of it."""
        return _as_it_acts(self.hyper, theta)

    def departures(self) -> dict[str, Any]:
        """The fields in which P is not the paper's; what matters in training only is left out."""
        return {name: value for name, value in self.hyper.departures().items() if name not in TRAINING}


def twin(hyper: Hyper) -> Twin:
    """The formal algorithm of a model with these hyperparameters."""
    activation = {"ReLU": ReLU, "GELU": GELU, "tanh_GELU": tanh_GELU}[hyper.activation]
    parts: dict[str, Any] = {"eps": hyper.eps, "layer_norm": RMSnorm if hyper.norm == "RMSnorm" else layer_norm}
    in_layers = {"MLP": partial(MLP, GELU=activation)}  # of the systems, whose layer is a component
    if isinstance(hyper, DHyper):
        if hyper.positions == "relative":
            parts["MHAttention"] = partial(MHAttention, Attention=RelativeAttention)
        parts["Mask"] = unidirectional if hyper.band is None else sparse(hyper.band)
        if hyper.norm_first:
            return Twin(hyper, DTransformer, parts | {"GELU": activation})
        return Twin(hyper, GPT, parts | in_layers | {"block": post_norm})
    if isinstance(hyper, EDHyper):
        if hyper.norm_first:
            return Twin(hyper, PreNormEDTransformer, parts | in_layers | {"final_norm": parts["layer_norm"]})
        return Twin(hyper, EDTransformer, parts | {"ReLU": activation})
    assert isinstance(hyper, EHyper)
    parts["GELU"] = activation
    if theta_kind(hyper) in (ETheta, ECTheta):
        return Twin(hyper, EClassifier if isinstance(hyper, ClassifierHyper) else ETransformer, parts)
    parts["embed"] = partial(BERT_embed, layer_norm=parts["layer_norm"] if hyper.embedding_norm else no_norm)
    parts["block"] = pre_norm if hyper.norm_first else post_norm
    return Twin(hyper, BERTClassifier if isinstance(hyper, ClassifierHyper) else BERT, parts | in_layers)


def _as_it_acts(hyper: Hyper, theta: Any) -> Any:
    """θ with what the departures make of it. What the model does not learn is constant, so that its gradient is 0."""
    if hyper.tied:
        theta = tied(theta)
    if hyper.scaled:
        theta = scaled(theta)
    if hyper.positions == "relative":
        theta = without_positions(theta)
    elif hyper.positions != "learned":
        theta = with_positions(theta, _positions(hyper))
    if isinstance(theta, BERTTheta | BERTClassifierTheta) and isinstance(hyper, EHyper) and not hyper.segments:
        theta = replace(theta, W_s=torch.zeros_like(theta.W_s))
    if isinstance(theta, BERTTheta) and isinstance(hyper, EHyper) and not hyper.output_bias:
        theta = replace(theta, b_u=torch.zeros_like(theta.b_u))
    return theta
