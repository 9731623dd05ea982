"""Between a model and the paper: its parameters as the formal θ and back."""

from collections.abc import Mapping
from dataclasses import fields, replace

import torch
from torch import Tensor

from transalg.formal import DTheta, EDTheta, ETheta
from transalg.formal.classification import ECTheta
from transalg.formal.domains import refuse
from transalg.formal.gato import GatoTheta
from transalg.formal.heads import GroupedMHAttentionTheta, NormedMHAttentionTheta
from transalg.formal.resnet import ResNetTheta
from transalg.formal.systems import BERTClassifierTheta, BERTTheta, MarianTheta, PreNormEDTheta
from transalg.formal.theta import DecoderLayer, Layer, MHAttentionTheta, Statistics, TransformerTheta
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, GatoHyper, Hyper, SpecialTokens
from transalg.hyper.embedding import PATCHES, TABLES
from transalg.hyper.hyper import Value
from transalg.hyper.norm import NORMS as NORM_PARAMETERS
from transalg.hyper.positions import POSITIONS as POSITION_PARAMETERS
from transalg.hyper.shapes import shapes
from transalg.model.mlp import MLPS
from transalg.model.norm import NORMS
from transalg.model.positions import POSITIONS

Named = dict[str, Tensor]
PROJECTION = ("W", "b")  # the letters of a matrix and its bias
PROJECTIONS = ("q", "k", "v", "o", "gate", *(f"mlp{number}" for number in (1, 2, 3, 4)))  # of a layer, each with a bias in the paper
KINDS: dict[type[Hyper], tuple[type[TransformerTheta], ...]] = {  # the paper's θ, and the one with all that the engine may have
    DHyper: (DTheta,),
    GatoHyper: (GatoTheta,),
    EHyper: (ETheta, BERTTheta),
    ClassifierHyper: (ECTheta, BERTClassifierTheta),
    EDHyper: (EDTheta, PreNormEDTheta, MarianTheta),
}


def theta_kind(hyper: Hyper) -> type[TransformerTheta]:
    """The paper's θ where it has all that the model has."""
    kinds = KINDS[type(hyper)]
    return kinds[0] if plain(hyper) else kinds[-1 if getattr(hyper, "output_bias", True) else 1]


def plain(hyper: Hyper) -> bool:
    """Whether the lines of Algorithms 8 and 9, up to their components, are what the model computes, and their θ has all that it has."""
    if isinstance(hyper, DHyper):
        return True
    more = isinstance(hyper, EHyper) and (hyper.segments or hyper.embedding_norm or hyper.head != "projection")
    more = more or getattr(hyper, "output_bias", False)
    return not (more or hyper.norm_first) and MLPS[hyper.activation].literal and NORMS[hyper.norm].literal


# Model → θ -------------------------------------------------------------------------------------------------------------


def theta_of(hyper: Hyper, state: Mapping[str, Tensor], dtype: torch.dtype, *, gradient: bool = False) -> TransformerTheta:
    """θ from the parameters of a model, or a gradient by θ from their gradients. What the model lacks is as it acts, or 0 in a gradient."""
    named: Named = {}
    for name, part in state.items():
        stack, _, symbol = name.rpartition(".")
        for formal_symbol, value in _apart(symbol, part, hyper):
            named[f"{stack}.{formal_symbol}" if stack else formal_symbol] = value.to(dtype, copy=True).contiguous()
    named = _in_every_layer(hyper, named, gradient)
    for name, value in _absent(hyper, named, gradient).items():
        named.setdefault(name, value)
    special = None if hyper.special is None else (hyper.special.mask, hyper.special.bos, hyper.special.eos)
    stacks = {
        stack: tuple(_layer(hyper, stack, _below(named, f"{stack}.{l}")) for l in range(count)) for stack, count in hyper.stacks.items()
    }
    further = {PATCHES: ResNetTheta.from_named(_below(named, PATCHES))} if isinstance(hyper, GatoHyper) else {}
    return theta_kind(hyper)(**_top(named), **stacks, **further, special=special)  # type: ignore[arg-type]


def with_statistics(hyper: Hyper, theta: TransformerTheta, buffers: Named, dtype: torch.dtype) -> TransformerTheta:
    """θ with the running statistics of the model's norms, if they have some."""
    if not NORM_PARAMETERS[hyper.norm].running:
        return theta
    m, v = ({gamma: buffers[names[i]].to(dtype, copy=True) for gamma, names in _statistics(hyper).items()} for i in range(2))
    return replace(theta, statistics=Statistics(m, v))


def _statistics(hyper: Hyper) -> dict[str, tuple[str, ...]]:
    """The names of the running statistics of every norm that has some, under that of its γ."""
    of_tokens = (name for name in shapes(hyper) if not name.startswith(PATCHES))
    names = {name: name.rpartition(".") for name in of_tokens if name.rpartition(".")[2].startswith("gamma")}
    statistics = NORM_PARAMETERS[hyper.norm].statistics
    return {name: tuple(stack + dot + one for one in statistics(gamma)) for name, (stack, dot, gamma) in names.items() if statistics(gamma)}


def _in_every_layer(hyper: Hyper, named: Named, gradient: bool) -> Named:
    """A copy for each of the layers that share a set of parameters; of their gradient, all for the first of them and 0 for the others."""
    result: Named = {}
    for name, part in named.items():
        stack, _, symbol = name.partition(".")
        if stack not in hyper.stacks:
            result[name] = part
            continue
        which, _, symbol = symbol.partition(".")
        first, *others = (l for l in range(hyper.stacks[stack]) if hyper.parameter_set(l) == int(which))
        result[f"{stack}.{first}.{symbol}"] = part
        result |= {f"{stack}.{l}.{symbol}": torch.zeros_like(part) if gradient else part.clone() for l in others}
    return result


def attention_theta(hyper: Hyper) -> type[MHAttentionTheta]:
    """𝒲 of a self-attention: the paper's where it has all that the model has."""
    if isinstance(hyper, DHyper) and hyper.qk_norm:
        return NormedMHAttentionTheta
    if hyper.heads.H_kv != hyper.heads.H:
        return GroupedMHAttentionTheta
    return POSITIONS[hyper.positions].attention_theta or MHAttentionTheta


def _layer(hyper: Hyper, stack: str, named: Named) -> Layer | DecoderLayer:
    """A layer of θ with all that the model's units have."""
    mlp, of_decoder = MLPS[hyper.activation], stack == "dec"
    parts: dict[str, Tensor | MHAttentionTheta] = {**_top(named)}
    if of_decoder:
        parts |= {"W_dec": attention_theta(hyper).from_named(_below(named, "W_dec"))}
        parts |= {"W_ed": MHAttentionTheta.from_named(_below(named, "W_ed"))}
    else:
        parts |= {"W": attention_theta(hyper).from_named(_below(named, "W"))}
    kind = mlp.decoder_layer_theta if of_decoder else mlp.layer_theta
    return kind(**parts)  # type: ignore[arg-type]


def _below(named: Named, name: str) -> Named:
    """What stands below this name, without it."""
    return {key.removeprefix(f"{name}."): value for key, value in named.items() if key.startswith(f"{name}.")}


def _top(named: Named) -> Named:
    """What stands below no other."""
    return {name: value for name, value in named.items() if "." not in name}


def _apart(symbol: str, part: Tensor, hyper: Hyper) -> list[tuple[str, Tensor]]:
    """One of the engine's parameters as those of the paper, heads stacked."""
    heads = hyper.heads
    letter, _, matrices = symbol.partition("_")
    if symbol in TABLES:
        return [(symbol, part.mT)]
    if letter in PROJECTION and matrices in hyper.matrices:
        rows = hyper.matrices[matrices]
        pieces = zip(rows, torch.split(part, list(rows.values())), strict=True)
        return [
            (f"{letter}_{one}", torch.unflatten(piece, 0, (heads.counts[one], -1)) if one in heads.counts else piece)
            for one, piece in pieces
        ]
    if _stacked(symbol, hyper):
        return [(symbol, torch.unflatten(part, 0, (heads.H, -1)))]
    return [(symbol, part)]


def _stacked(symbol: str, hyper: Hyper) -> bool:
    """Whether the paper's side has a matrix for every head where the engine has one matrix for all."""
    return symbol.startswith("W_") and symbol in POSITION_PARAMETERS[hyper.positions].attention_shapes(hyper)


def _absent(hyper: Hyper, named: Named, gradient: bool) -> Named:
    """The parts of θ that the model does not learn."""
    W_e = named["W_e"]
    parts: Named = {
        name.replace("gamma", "beta"): torch.zeros_like(part) for name, part in named.items() if name.rpartition(".")[2].startswith("gamma")
    }
    for name, part in named.items():  # projections without a bias
        stack, dot, symbol = name.rpartition(".")
        if dot and symbol.startswith("W_") and symbol.removeprefix("W_") in PROJECTIONS:
            parts[f"{stack}.b{symbol[1:]}"] = part.new_zeros(part.shape[:-1])
    if theta_kind(hyper) in (BERTTheta, BERTClassifierTheta):
        parts |= {"W_s": W_e.new_zeros(hyper.d_e, 1), "gamma_e": W_e.new_ones(hyper.d_e), "beta_e": W_e.new_zeros(hyper.d_e)}
    if theta_kind(hyper) is BERTTheta:
        parts["b_u"] = W_e.new_zeros(hyper.N_V)
    if isinstance(hyper, EHyper):  # a head that lacks some of lines 10 and 11
        if "W_f" not in named:
            parts |= {"W_f": torch.eye(hyper.d_e).to(W_e), "b_f": W_e.new_zeros(hyper.d_e)}
        if "gamma" not in named:
            parts |= {"gamma": W_e.new_ones(hyper.sizes()["d_f"]), "beta": W_e.new_zeros(hyper.sizes()["d_f"])}
    if issubclass(theta_kind(hyper), PreNormEDTheta):
        parts |= {f"gamma_{stack}": W_e.new_ones(hyper.d_e) for stack in hyper.stacks}
        parts |= {f"beta_{stack}": W_e.new_zeros(hyper.d_e) for stack in hyper.stacks}
    if not isinstance(hyper, ClassifierHyper):
        parts["W_u"] = W_e.mT.contiguous()
    if (W_p := POSITIONS[hyper.positions].formal_table(hyper)) is not None:
        parts["W_p"] = W_p.to(W_e)
    return {name: torch.zeros_like(part) for name, part in parts.items()} if gradient else parts


# θ → model -------------------------------------------------------------------------------------------------------------


def hyper_of(theta: TransformerTheta, kind: type[Hyper], departures: Mapping[str, Value], complete: Hyper | None = None) -> Hyper:
    """The hyperparameters of a model with this θ: its sizes, what its kind shows, and the departures; or `complete`, changed by these."""
    if type(theta) not in KINDS[kind]:
        raise refuse("theta", " or ".join(f"a {each.__name__}" for each in KINDS[kind]), type(theta).__name__)
    sizes = theta.sizes()
    unknown = departures.keys() - {each.name for each in fields(kind)}
    if unknown:
        raise refuse(min(unknown), f"a field of {kind.__name__}", "another")
    if complete is not None:
        if type(complete) is not kind:
            raise refuse("hyper", f"a {kind.__name__}", type(complete).__name__)
        hyper = complete.replace(**departures)
    else:
        hyper = kind(**_shown(theta, sizes) | dict(departures))  # type: ignore[arg-type]
    of_positions = {name for scheme in POSITION_PARAMETERS.values() for name in scheme.fields}
    for symbol, size in sizes.items():
        expected = hyper.heads.H_kv if symbol == "H_kv" else getattr(hyper, symbol, None)
        if symbol not in ("N_S", *of_positions) and expected != size:
            raise refuse("theta", f"{symbol} = {expected}, as in hyper", size)
    special = hyper.special_tokens
    if any(theta.special_tokens.get(f"{name}_token") != getattr(special, name) for name in ("mask", "bos", "eos")):
        raise refuse("theta", f"the special tokens of hyper, {hyper.special_tokens}", theta.special)
    _check_positions(theta, hyper)
    if type(theta) is not theta_kind(hyper):
        raise refuse("theta", f"a {theta_kind(hyper).__name__} with these departures", type(theta).__name__)
    return hyper


def _check_positions(theta: TransformerTheta, hyper: Hyper) -> None:
    """θ has the parameters that its positions take, of the right sizes."""
    expected, kind = POSITION_PARAMETERS[hyper.positions].attention_shapes(hyper), POSITIONS[hyper.positions].attention_theta
    if kind is None:
        return
    if not isinstance(_attentions(theta)[0], kind):
        raise refuse("theta", f"positions={hyper.positions} with {', '.join(expected)} in every layer", "none of them")
    for symbol in POSITION_PARAMETERS[hyper.positions].fields:
        if theta.sizes().get(symbol) != getattr(hyper, symbol):
            raise refuse(
                "theta", f"{hyper.positions} positions with {symbol} = {getattr(hyper, symbol)}", theta.sizes().get(symbol, "none")
            )


def _attentions(theta: TransformerTheta) -> list[MHAttentionTheta]:
    """The self-attentions of all layers."""
    layers = [layer for stack in ("layers", "enc", "dec") for layer in getattr(theta, stack, ())]
    return [layer.W if isinstance(layer, Layer) else layer.W_dec for layer in layers]


def _shown(theta: TransformerTheta, sizes: dict[str, int]) -> dict[str, Value]:
    """The fields that can be read off θ: its sizes and, where its kind says so, a departure."""
    shown: dict[str, Value] = dict(sizes)
    if theta.special is not None:
        shown["special"] = SpecialTokens(*theta.special)
    if isinstance(theta, BERTTheta | BERTClassifierTheta):
        shown |= {"segments": shown.pop("N_S"), "embedding_norm": True}
    if isinstance(theta, BERTTheta | MarianTheta):
        shown["output_bias"] = True
    if type(theta) is PreNormEDTheta:
        shown["norm_first"] = True
    if isinstance(theta, GatoTheta):
        shown["sigma"] = theta.W_res.stride
        shown = {name: value for name, value in shown.items() if name not in ("k_0", "k", "d_Z")}
    attention = type(_attentions(theta)[0])
    for name, scheme in POSITIONS.items():
        if scheme.attention_theta is attention:
            shown["positions"] = name
    if attention is NormedMHAttentionTheta:
        shown["qk_norm"] = True
    return shown


def state_of(theta: TransformerTheta, hyper: Hyper) -> Named:
    """The parameters of the model whose θ is given."""
    named = theta.named()
    if hyper.tied and not named["W_u"].equal(named["W_e"].mT):
        raise refuse("theta", "W_u = W_eᵀ, for tied=True", "another W_u")
    W_p = POSITIONS[hyper.positions].formal_table(hyper)
    if W_p is not None and W_p.any() and not torch.allclose(named["W_p"], W_p.to(named["W_p"])):
        raise refuse("theta", f"the W_p of positions={hyper.positions}", "another W_p")
    for stack, count in hyper.stacks.items():
        for l in range(count):
            _check_shared(theta, stack, l, hyper.shared)
    state = {name: _together(_in_first_layer(name, hyper), named, hyper) for name in shapes(hyper)}
    for gamma, (m, v) in _statistics(hyper).items():
        if theta.statistics is None or gamma not in theta.statistics.m:
            raise refuse("theta", f"running statistics of {gamma}, for norm={hyper.norm}", "none")
        state |= {m: theta.statistics.m[gamma], v: theta.statistics.v[gamma]}
    return state


def _check_shared(theta: TransformerTheta, stack: str, l: int, n: int) -> None:
    """Layer l has the parameters of the first of the n layers that it shares them with."""
    first, layer = getattr(theta, stack)[l // n * n].named(), getattr(theta, stack)[l].named()
    for name, part in layer.items():
        if first.keys() != layer.keys() or not part.equal(first[name]):
            raise refuse("theta", f"{stack}.{l} as {stack}.{l // n * n}, for shared={n}", f"another {stack}.{l}.{name}")


def _in_first_layer(name: str, hyper: Hyper) -> str:
    """The name that one of the engine's parameters has in the first of the layers that share it."""
    stack, *inside = name.split(".")
    return ".".join([stack, str(int(inside[0]) * hyper.shared), *inside[1:]]) if stack in hyper.stacks else name


def check_nothing_lost(theta: TransformerTheta, hyper: Hyper, state: Named) -> None:
    """Refuse a θ with a part that the model would leave out although it acts."""
    W_p = POSITIONS[hyper.positions].formal_table(hyper)
    idle = {"W_p"} if W_p is not None and not W_p.any() else set()
    if theta.statistics is not None and not NORM_PARAMETERS[hyper.norm].running:
        raise refuse("theta", f"no running statistics, for norm={hyper.norm}", "some")
    parameters = {name: state[name] for name in shapes(hyper)}
    modelled = theta_of(hyper, parameters, next(iter(state.values())).dtype).named()
    for name, part in theta.named().items():
        symbol = name.rpartition(".")[2]
        if symbol in idle or (symbol.startswith("beta") and not NORM_PARAMETERS[hyper.norm].offset):
            continue
        if name not in modelled or modelled[name].shape != part.shape or not torch.allclose(modelled[name], part):
            raise refuse("theta", f"no {name}, or one that does nothing, with these departures", "one that acts")


def _together(name: str, named: Named, hyper: Hyper) -> Tensor:
    """One of the engine's parameters from those of the paper."""
    stack, dot, symbol = name.rpartition(".")
    letter, _, matrices = symbol.partition("_")
    if symbol in TABLES:
        return named[name].mT
    if letter in PROJECTION and matrices in hyper.matrices:
        parts = {one: named[f"{stack}{dot}{letter}_{one}"] for one in hyper.matrices[matrices]}
        return torch.cat([part.flatten(0, 1) if one in hyper.heads.counts else part for one, part in parts.items()])
    return named[name].flatten(0, 1) if _stacked(symbol, hyper) else named[name]
