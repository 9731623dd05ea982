"""What a model costs, counted from its hyperparameters alone: parameters, arithmetic, memory."""

from math import prod

from transalg.hyper.hyper import ClassifierHyper, DHyper, EDHyper, Hyper
from transalg.hyper.shapes import shapes

LOGITS = 2**25  # held at a time when training: `model.loss` cuts the tokens into chunks


def parameters(hyper: Hyper) -> int:
    """How many numbers are learned."""
    return sum(prod(shape) for shape in shapes(hyper).values())


def flops_per_token(hyper: Hyper, ell: int, batch: int = 1) -> float:
    """Multiplications and additions of a forward pass for one of ℓ tokens, on average; training takes three times as many.

    Two for every entry of every matrix the token is multiplied with, and attention's scores and sums over what the token may see.
    An encoder–decoder's token is a pair, one of z and one of x.
    """
    H, d_attn, d_mid = hyper.heads
    tables = {"W_e", "W_p", "W_s"}
    matrices = sum(
        prod(shape) for name, shape in shapes(hyper).items() if len(shape) == 2 and name not in tables and name.rpartition(".")[2][0] == "W"
    )
    if hyper.tied:
        matrices += hyper.N_V * hyper.d_e
    if isinstance(hyper, ClassifierHyper):  # its head runs on one token of ℓ
        head = prod(shapes(hyper)["W_f"]) + prod(shapes(hyper)["W_c"])
        matrices -= round(head * (1 - 1 / ell))
    causal = (ell + 1) / 2

    def seen(width: int | None) -> float:
        """Keys a query sees on average."""
        return causal if width is None or width >= ell else (width * (width + 1) / 2 + (ell - width) * width) / ell

    if isinstance(hyper, DHyper):
        keys = sum(seen(hyper.banded(l)) for l in range(hyper.L))
        if hyper.positions == "relative":  # the distances' scores are as many as the keys'
            distances = hyper.L * H * d_attn * (hyper.d_r or 0)  # W_r meets the ℓ distances, not the tokens, once for a batch
            return 2 * (matrices - distances + distances / batch) + 2 * keys * H * (2 * d_attn + d_mid)
    elif isinstance(hyper, EDHyper):
        keys = hyper.L_enc * ell + hyper.L_dec * (causal + ell)
    else:
        keys = hyper.sizes()["L"] * ell
    return 2 * matrices + 2 * keys * H * (d_attn + d_mid)


def cache_bytes(hyper: Hyper, ell: int, batch: int, bytes_each: int = 4) -> int:
    """Keys and values of every layer that decodes, for ℓ tokens of every row; an encoder–decoder keeps those of z too."""
    H, d_attn, d_mid = hyper.heads
    kept = hyper.L if isinstance(hyper, DHyper) else 2 * hyper.L_dec if isinstance(hyper, EDHyper) else 0
    return kept * batch * ell * H * (d_attn + d_mid) * bytes_each


def activations(hyper: Hyper, ell: int) -> int:
    """Numbers that a training step keeps of every token for the gradient, up to the last layer. An encoder–decoder's token is a pair."""
    H, d_attn, d_mid = hyper.heads
    d_e = hyper.d_e
    norm = (3 if hyper.norm == "RMSnorm" else 2) * d_e
    dropped = d_e if hyper.dropout else 0
    attention = H * (2 * d_attn + d_mid) + H * d_mid + H
    if hyper.positions == "relative":
        attention += H * ell + 3 * H * d_attn
    if hyper.attention_dropout:  # no fused kernel on CPUs: the weights, which of them are dropped, and what is left
        attention += 3 * H * ell
    mlp = hyper.d_mlp * (1 if hyper.activation == "ReLU" else 2)
    layer = attention + mlp + 2 * (norm + dropped)
    if isinstance(hyper, EDHyper):
        return hyper.L_enc * layer + hyper.L_dec * (layer + attention + norm + dropped) + 2 * d_e
    return hyper.sizes()["L"] * layer + d_e


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


def recomputed_activations(hyper: Hyper, ell: int) -> int:
    """The same where layers are computed again for the gradient: what goes into each layer, and all of one of them."""
    layers = hyper.L_enc + hyper.L_dec if isinstance(hyper, EDHyper) else hyper.sizes()["L"]
    return layers * hyper.d_e + -(-activations(hyper, ell) // layers)


def sharded_train_bytes(hyper: Hyper, ell: int, batch: int, processes: int, bytes_each: int = 4) -> dict[str, int]:
    """Memory of each process when the model is sharded over many (FSDP2), each with `batch` rows of its own.

    Layers are computed again for the gradient. Weights, gradients and moments are divided; while a layer runs it is there whole, and the one that comes next with it, and in the backward pass
    the whole gradient of a layer before that is divided.
    """
    whole = train_bytes(hyper, ell, batch, bytes_each)
    divided = {name: -(-value // processes) for name, value in whole.items() if name not in ("activations", "logits")}
    layers: dict[str, int] = {}
    for name, shape in shapes(hyper).items():
        stack = ".".join(name.split(".")[:2]) if "." in name else ""
        layers[stack] = layers.get(stack, 0) + prod(shape)
    rest = layers.pop("")  # embeddings, the last norm: whole during the whole step
    return divided | {
        "layers under way": (3 * max(layers.values()) + 2 * rest) * bytes_each,
        "activations": recomputed_activations(hyper, ell) * batch * ell * bytes_each,
        "logits": whole["logits"],
    }


def traffic_bytes(hyper: Hyper, processes: int, *, sharded: bool, bytes_each: int = 4) -> int:
    """What each process sends in a step. Replicated: a sum of gradients, twice the model. Sharded: weights for the forward pass, again for the
    backward pass, and gradients once, three times the model. Each but for the part a process has itself."""
    return round((3 if sharded else 2) * parameters(hyper) * bytes_each * (processes - 1) / processes)
