"""What a model costs, counted from its hyperparameters alone: parameters, arithmetic, memory."""

from math import prod

from transalg.hyper import ClassifierHyper, DHyper, EDHyper, Hyper
from transalg.shapes import shapes

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
