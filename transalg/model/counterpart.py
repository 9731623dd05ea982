"""The formal algorithm that a model computes: one of the paper's, or a variant, with the components of the model's units."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from transalg.formal import Attention, DTransformer, EDTransformer, ETransformer, MHAttention, MHAttentionTheta
from transalg.formal.bias import unbiased
from transalg.formal.classification import EClassifier
from transalg.formal.components import MultiHead, Norm
from transalg.formal.embedding import BERT_embed, scaled
from transalg.formal.gato import Gato, gato_embed
from transalg.formal.heads import GroupedMHAttention, NormedAttention
from transalg.formal.norm import no_norm
from transalg.formal.positions import with_positions
from transalg.formal.sharing import shared
from transalg.formal.systems import (
    BERT,
    GPT,
    BERTClassifier,
    BERTClassifierTheta,
    BERTTheta,
    PreNormEDTransformer,
    parallel_norm,
    post_norm,
    post_norm_decoder,
    pre_norm,
    pre_norm_decoder,
)
from transalg.formal.theta import TransformerTheta
from transalg.formal.unembedding import biased_unembed, tied
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, GatoHyper, Hyper
from transalg.hyper.hyper import TRAINING, Value
from transalg.model import bridge
from transalg.model.bridge import plain
from transalg.model.head import ENCODER_HEADS
from transalg.model.mask import formal_mask
from transalg.model.mlp import MLPS
from transalg.model.norm import NORMS
from transalg.model.pooling import POOLINGS
from transalg.model.positions import POSITIONS


@dataclass(frozen=True)
class FormalCounterpart:
    """A function of `transalg.formal` and the components it is called with."""

    hyper: Hyper
    function: Callable[..., Tensor]
    layer_norm: Norm
    MHAttention: MultiHead
    further: dict[str, Callable[..., object]]  # the activation or MLP, the Mask, the block, …
    training: bool = False  # whether norms are those of training, which matters to batch_norm alone

    @property
    def components(self) -> dict[str, object]:
        """All of them under the names by which the function takes them."""
        return {"eps": self.hyper.eps, "layer_norm": self.layer_norm, "MHAttention": self.MHAttention, **self.further}

    def __call__(self, *inputs: object, **more: object) -> Tensor:
        """P from x and θ (from z, x and θ; from x, θ and segments)."""
        acting = (self.acting(one) if isinstance(one, TransformerTheta) else one for one in inputs)
        return self.function(*acting, **self.components, **more)

    def acting(self, theta: TransformerTheta) -> TransformerTheta:
        """θ with what the departures make of it. What the model does not learn is constant, so that its gradient is 0."""
        theta = NORMS[self.hyper.norm].acting(theta, self.hyper.eps, training=self.training)
        return _as_it_acts(self.hyper, theta)

    def departures(self) -> dict[str, Value]:
        """The fields in which P is not the paper's; what matters in training only is left out."""
        return {name: value for name, value in self.hyper.departures().items() if name not in TRAINING and name != "special"}


def formal_counterpart(hyper: Hyper, *, training: bool = False) -> FormalCounterpart:
    """The formal algorithm of a model with these hyperparameters; in training without dropout, if so."""
    norm = NORMS[hyper.norm].formal_in_training if training else NORMS[hyper.norm].formal
    function, further = COUNTERPARTS[type(hyper)](hyper, norm)
    return FormalCounterpart(hyper, function, norm, formal_attention(hyper, norm), further, training)


def formal_attention(hyper: Hyper, norm: Norm) -> MultiHead:
    """Algorithm 5, or the one with shared keys and values, with the heads of the model's positions and norms."""
    positions = POSITIONS[hyper.positions]
    if positions.formal_attention is not None:
        return positions.formal_attention
    head = positions.formal_head(hyper)
    if isinstance(hyper, DHyper) and hyper.qk_norm:
        head = partial(NormedAttention, eps=hyper.eps, norm=norm, rotate=positions.formal_rotation(hyper))
    heads = MHAttention if bridge.attention_theta(hyper) in (MHAttentionTheta, positions.attention_theta) else GroupedMHAttention
    return heads if head is Attention else partial(heads, Attention=head)


Counterpart = tuple[Callable[..., Tensor], dict[str, Callable[..., object]]]


def _decoder(hyper: Hyper, norm: Norm) -> Counterpart:
    mlp, mask = MLPS[hyper.activation], formal_mask(hyper)
    parallel = isinstance(hyper, DHyper) and hyper.parallel
    if hyper.norm_first and not parallel and mlp.literal and NORMS[hyper.norm].literal:
        return DTransformer, {"GELU": mlp.formal_activation, "Mask": mask}
    block = parallel_norm if parallel else pre_norm if hyper.norm_first else post_norm
    return GPT, {"MLP": mlp.formal, "Mask": mask, "block": block}


def _gato(hyper: Hyper, norm: Norm) -> Counterpart:
    """The same with Gato's line 2."""
    assert isinstance(hyper, GatoHyper)
    function, further = _decoder(hyper, norm)
    if function is DTransformer:
        return partial(Gato, G=hyper.G), further
    return function, further | {"embed": partial(gato_embed, G=hyper.G, eps=hyper.eps)}


def _encoder(hyper: Hyper, norm: Norm) -> Counterpart:
    return _encoding(hyper, norm, ETransformer, BERT)


def _classifier(hyper: Hyper, norm: Norm) -> Counterpart:
    assert isinstance(hyper, ClassifierHyper)
    function, further = _encoding(hyper, norm, EClassifier, BERTClassifier)
    return function, further | {"pooling": POOLINGS[hyper.pooling].formal}


def _encoding(hyper: Hyper, norm: Norm, literal: Callable[..., Tensor], system: Callable[..., Tensor]) -> Counterpart:
    mlp = MLPS[hyper.activation]
    if plain(hyper):
        return literal, {"GELU": mlp.formal_activation}
    embedding_norm = norm if isinstance(hyper, EHyper) and hyper.embedding_norm else no_norm
    block = pre_norm if hyper.norm_first else post_norm
    assert isinstance(hyper, EHyper)
    return system, {
        "GELU": mlp.formal_activation,
        "MLP": mlp.formal,
        "embed": partial(BERT_embed, layer_norm=embedding_norm),
        "block": block,
        "head": ENCODER_HEADS[hyper.head].formal,
    }


def _encoder_decoder(hyper: Hyper, norm: Norm) -> Counterpart:
    mlp = MLPS[hyper.activation]
    if plain(hyper):
        return EDTransformer, {"ReLU": mlp.formal_activation}
    block, decoder_block, final_norm = (pre_norm, pre_norm_decoder, norm) if hyper.norm_first else (post_norm, post_norm_decoder, no_norm)
    further: dict[str, Callable[..., object]] = {
        "MLP": mlp.formal,
        "block": block,
        "decoder_block": decoder_block,
        "final_norm": final_norm,
    }
    return PreNormEDTransformer, further | ({"unembed": biased_unembed} if getattr(hyper, "output_bias", False) else {})


COUNTERPARTS: dict[type[Hyper], Callable[[Hyper, Norm], Counterpart]] = {
    DHyper: _decoder,
    GatoHyper: _gato,
    EHyper: _encoder,
    ClassifierHyper: _classifier,
    EDHyper: _encoder_decoder,
}


def _as_it_acts(hyper: Hyper, theta: TransformerTheta) -> TransformerTheta:
    if hyper.tied:
        theta = tied(theta)  # type: ignore[type-var]
    if hyper.scaled:
        theta = scaled(theta)
    if hyper.bias != "all":
        theta = unbiased(theta, hyper.bias)
    if hyper.shared > 1:
        theta = shared(theta, hyper.shared)
    W_p = POSITIONS[hyper.positions].formal_table(hyper)
    if W_p is not None:
        theta = with_positions(theta, W_p)
    if isinstance(theta, BERTTheta | BERTClassifierTheta) and isinstance(hyper, EHyper) and not hyper.segments:
        theta = replace(theta, W_s=torch.zeros_like(theta.W_s))
    if isinstance(theta, BERTTheta) and isinstance(hyper, EHyper) and not hyper.output_bias:
        theta = replace(theta, b_u=torch.zeros_like(theta.b_u))
    return theta
