"""The parameters of every model: their names and shapes, from the hyperparameters alone. No torch.

The engine makes its parameters from this list, and `cost` counts them. The names are the paper's; where one product does for several
matrices, they are one: 𝒲_qkv is W_q, W_k, W_v of all heads, above one another. A matrix has a row for each of its outputs, an embedding
matrix a row for each token or position: W_e here is the transpose of the paper's.
"""

from transalg.hyper import embedding, unembedding
from transalg.hyper.head import ENCODER_HEADS
from transalg.hyper.heads import BIASES, Shapes, linear
from transalg.hyper.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, GatoHyper, Hyper
from transalg.hyper.mlp import MLPS
from transalg.hyper.norm import NORMS
from transalg.hyper.positions import POSITIONS


def shapes(hyper: Hyper) -> Shapes:
    """The shape of every parameter of the engine's model, under its name."""
    return embedding.shapes(hyper) | _ARCHITECTURES[type(hyper)](hyper)


def below(shapes: Shapes, name: str) -> Shapes:
    """The shapes of the part with this name."""
    return {key.removeprefix(f"{name}."): shape for key, shape in shapes.items() if key.startswith(f"{name}.")}


def _under(name: str, shapes: Shapes) -> Shapes:
    return {f"{name}.{key}": shape for key, shape in shapes.items()}


def _decoder(hyper: Hyper) -> Shapes:
    return _layers("layers", hyper) | NORMS[hyper.norm].shapes("gamma", hyper.d_e) | unembedding.shapes(hyper, hyper.d_e)


def _encoder(hyper: Hyper) -> Shapes:
    return _encoding(hyper) | unembedding.shapes(hyper, hyper.sizes()["d_f"])


def _classifier(hyper: Hyper) -> Shapes:
    return _encoding(hyper) | linear("W_c", hyper.sizes()["N_C"], hyper.sizes()["d_f"])


def _encoding(hyper: Hyper) -> Shapes:
    """Up to line 11 of Algorithm 9."""
    assert isinstance(hyper, EHyper)
    head = ENCODER_HEADS[hyper.head].shapes(hyper.sizes()["d_f"], hyper.d_e, NORMS[hyper.norm])
    return _layers("layers", hyper) | head


def _encoder_decoder(hyper: Hyper) -> Shapes:
    norm, result = NORMS[hyper.norm], _layers("enc", hyper)
    for i in range(hyper.parameter_sets("dec")):
        layer = _under("W_dec", _self_attention(hyper)) | _under("W_ed", hyper.heads.cross_shapes(hyper.d_e))
        layer |= _mlp(hyper, 3)
        for gamma in ("gamma3", "gamma4", "gamma5"):
            layer |= norm.shapes(gamma, hyper.d_e)
        result |= _under(f"dec.{i}", layer)
    if hyper.norm_first:
        result |= norm.shapes("gamma_enc", hyper.d_e) | norm.shapes("gamma_dec", hyper.d_e)
    return result | unembedding.shapes(hyper, hyper.d_e)


def _layers(stack: str, hyper: Hyper) -> Shapes:
    """Layers of self-attention and an MLP, each set of parameters once."""
    norm = NORMS[hyper.norm]
    layer = _under("W", _self_attention(hyper)) | norm.shapes("gamma1", hyper.d_e)
    layer |= _mlp(hyper, 1) | norm.shapes("gamma2", hyper.d_e)
    return {f"{stack}.{i}.{key}": shape for i in range(hyper.parameter_sets(stack)) for key, shape in layer.items()}


def _mlp(hyper: Hyper, number: int) -> Shapes:
    return MLPS[hyper.activation].shapes(number, hyper.d_e, hyper.d_mlp, bias=BIASES[hyper.bias].mlp)


def _self_attention(hyper: Hyper) -> Shapes:
    heads, norm = hyper.heads, NORMS[hyper.norm]
    norms = (
        norm.shapes("gamma_q", heads.d_attn) | norm.shapes("gamma_k", heads.d_attn) if isinstance(hyper, DHyper) and hyper.qk_norm else {}
    )
    return heads.self_shapes(hyper.d_e) | norms | POSITIONS[hyper.positions].attention_shapes(hyper)


_ARCHITECTURES = {
    DHyper: _decoder,
    GatoHyper: _decoder,
    EHyper: _encoder,
    ClassifierHyper: _classifier,
    EDHyper: _encoder_decoder,
}
