"""What a model costs, counted from its hyperparameters alone: parameters, arithmetic, memory. The units say what each of them adds."""

from math import prod

from transalg.hyper.embedding import PATCHES, TABLES
from transalg.hyper.hyper import ClassifierHyper, EDHyper, Hyper
from transalg.hyper.mask import Mask
from transalg.hyper.mlp import MLPS
from transalg.hyper.norm import NORMS
from transalg.hyper.pooling import POOLINGS
from transalg.hyper.positions import POSITIONS
from transalg.hyper.shapes import shapes

LOGITS = 2**25  # held at a time when training: `model.loss` cuts the tokens into chunks


def parameters(hyper: Hyper) -> int:
    """How many numbers are learned."""
    return sum(prod(shape) for shape in shapes(hyper).values())


def flops_per_token(hyper: Hyper, ell: int, batch: int = 1) -> float:
    """Multiplications and additions of a forward pass for one of ℓ tokens, on average; training takes three times as many.

    Two for every entry of every matrix the token is multiplied with, and attention's scores and sums over what the token may see.
    An encoder–decoder's token is a pair, one of z and one of x. An image patch costs more, see `embedding.patch_flops`.
    """
    matrices: float = sum(
        prod(shape) * _uses(hyper, name)
        for name, shape in shapes(hyper).items()
        if len(shape) == 2 and name not in TABLES and name.rpartition(".")[2][0] == "W" and not name.startswith(PATCHES)
    )
    if hyper.tied:
        matrices += hyper.N_V * hyper.d_e
    if isinstance(hyper, ClassifierHyper):  # some or all of its head runs on one token of ℓ
        head = prod(shapes(hyper)["W_c"]) + (0 if POOLINGS[hyper.pooling].every_token else prod(shapes(hyper).get("W_f", (0,))))
        matrices -= head * (1 - 1 / ell)
    keys = sum(hyper.mask(stack, l).keys(ell) for stack, count in hyper.stacks.items() for l in range(count))
    if isinstance(hyper, EDHyper):
        keys += hyper.L_dec * Mask().keys(ell)  # attention to z
    return 2 * matrices + hyper.heads.flops(keys) + POSITIONS[hyper.positions].flops(hyper, keys, batch)


def _uses(hyper: Hyper, name: str) -> int:
    """How many layers have the parameter of this name."""
    stack, _, rest = name.partition(".")
    if stack not in hyper.stacks:
        return 1
    first = hyper.shared * int(rest.split(".")[0])  # `parameter_set`, without a look at every layer
    return max(0, min(hyper.shared, hyper.stacks[stack] - first))


def cache_bytes(hyper: Hyper, ell: int, batch: int, bytes_each: int = 4) -> int:
    """Keys and values of every layer that decodes, for ℓ tokens of every row; an encoder–decoder keeps those of z too."""
    decoding = {stack: count for stack, count in hyper.stacks.items() if hyper.mask(stack, 0).causal}
    return sum(decoding.values()) * (1 + ("enc" in hyper.stacks)) * batch * ell * hyper.heads.cached * bytes_each


def activations(hyper: Hyper, ell: int) -> int:
    """Numbers that a training step keeps of every token for the gradient, up to the last layer. An encoder–decoder's token is a pair."""
    d_e = hyper.d_e
    norm = NORMS[hyper.norm].kept * d_e
    dropped = d_e if hyper.dropout else 0
    attention = hyper.heads.activations(ell, dropout=hyper.attention_dropout > 0) + POSITIONS[hyper.positions].activations(hyper, ell)
    if getattr(hyper, "qk_norm", False):  # its input is the projection, which is counted already
        attention += (NORMS[hyper.norm].kept - 1) * (hyper.heads.H + hyper.heads.H_kv) * hyper.heads.d_attn
    layer = attention + MLPS[hyper.activation].activations(hyper.d_mlp) + 2 * (norm + dropped)
    cross = hyper.L_dec * (attention + norm + dropped) if isinstance(hyper, EDHyper) else 0
    layer -= d_e if getattr(hyper, "parallel", False) else 0  # both sub-layers read one X
    return sum(hyper.stacks.values()) * layer + cross + len(hyper.stacks) * d_e


def train_bytes(hyper: Hyper, ell: int, batch: int, bytes_each: int = 4) -> dict[str, int]:
    """Memory to train with AdamW, by what takes it; logits are held a chunk at a time."""
    model = parameters(hyper) * bytes_each
    logits = 0 if isinstance(hyper, ClassifierHyper) else min(LOGITS, batch * ell * hyper.N_V) * bytes_each
    return {
        "weights": model,
        "gradients": model,
        "AdamW's two moments": 2 * model,
        "activations": activations(hyper, ell) * batch * ell * bytes_each,
        "logits": logits,
    }


def checkpointed_activations(hyper: Hyper, ell: int) -> int:
    """The same with activation checkpointing: what goes into each layer, and all of one of them."""
    layers = sum(hyper.stacks.values())
    return layers * hyper.d_e + -(-activations(hyper, ell) // layers)


def sharded_train_bytes(hyper: Hyper, ell: int, batch: int, processes: int, bytes_each: int = 4) -> dict[str, int]:
    """Memory of each process when the model is sharded over many (FSDP2), each with `batch` rows of its own, with activation checkpointing.

    Weights, gradients and moments are divided. While a layer runs it is whole, and so is the next one; in the backward pass a layer's
    gradient is whole before it is divided.
    """
    undivided = train_bytes(hyper, ell, batch, bytes_each)
    divided = {name: -(-value // processes) for name, value in undivided.items() if name not in ("activations", "logits")}
    layers: dict[str, int] = {}
    for name, shape in shapes(hyper).items():
        layer = ".".join(name.split(".")[:2]) if name.split(".")[0] in hyper.stacks else ""
        layers[layer] = layers.get(layer, 0) + prod(shape)
    rest = layers.pop("")  # embeddings, the last norm: whole during the whole step
    return divided | {
        "gathered layers": (3 * max(layers.values()) + 2 * rest) * bytes_each,
        "activations": checkpointed_activations(hyper, ell) * batch * ell * bytes_each,
        "logits": undivided["logits"],
    }


def traffic_bytes(hyper: Hyper, processes: int, *, sharded: bool, bytes_each: int = 4) -> int:
    """What each process sends in a step. Replicated: a sum of gradients, twice the model. Sharded: weights for the forward pass, again for the
    backward pass, and gradients once, three times the model. Each but for the part a process has itself."""
    return round((3 if sharded else 2) * parameters(hyper) * bytes_each * (processes - 1) / processes)
