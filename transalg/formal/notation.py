"""The paper's notation (§3, §5 and Appendix B) as functions."""

import math
from collections.abc import Callable, Iterable, Sized

import torch
from jaxtyping import Float, Int
from torch import Tensor

Activation = Callable[[Tensor], Tensor]  # ReLU or GELU, element by element


def length(x: Sized) -> int:
    """length(x): how many tokens x has."""
    return len(x)


def columns(vectors: Iterable[Float[Tensor, "d"]]) -> Float[Tensor, "d n"]:
    """[e_1, e_2, …, e_n]: the matrix with these vectors as its columns."""
    return torch.stack(list(vectors), dim=1)


def append(x: Int[Tensor, "ell"], y: int) -> Int[Tensor, "ell+1"]:
    """[x, y]: the sequence x followed by the token y."""
    return torch.cat([x, x.new_tensor([y])])


def softmax(A: Float[Tensor, "rows *columns"]) -> Float[Tensor, "rows *columns"]:
    """softmax(A)[t_z, t_x] = exp A[t_z, t_x] / Σ_t exp A[t, t_x]: over rows, each column on its own.

    Each column is shifted by its maximum first, which changes no value and avoids overflow. A column of −∞
    only, a token that may attend to nothing, is 0/0 in the paper and 0 here.
    """
    top = A.detach().amax(dim=0, keepdim=True)
    E = torch.exp(A - torch.where(top == -math.inf, 0, top))
    total = E.sum(dim=0, keepdim=True)
    return E / torch.where(total == 0, 1, total)


def ReLU(A: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """ReLU(x) = max(0, x), element by element."""
    return torch.relu(A)


def GELU(A: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """GELU(x) = x · ℙ[X < x] for X ∼ 𝒩(0, 1), element by element."""
    Phi: Tensor = torch.special.ndtr(A)
    return A * Phi


def tempered(p: Float[Tensor, "N_V"], tau: float) -> Float[Tensor, "N_V"]:
    """q ∝ p^{1/τ} for τ ∈ [0, ∞]: the most likely token alone at τ = 0, the uniform distribution at τ = ∞."""
    if tau == 0:
        return torch.nn.functional.one_hot(p.argmax(), len(p)).to(p)
    if tau == math.inf:
        return torch.full_like(p, 1 / len(p))
    log_p = p.double().log()
    return softmax((log_p - log_p.max()) / tau).to(p)


def sample(q: Float[Tensor, "N_V"], generator: torch.Generator | None = None) -> int:
    """A token y drawn from the distribution q."""
    return int(torch.multinomial(q if generator is None else q.to(generator.device), 1, generator=generator))


def choose(
    p: float, a: int, b: Int[Tensor, ""], generator: torch.Generator | None = None
) -> int | Int[Tensor, ""]:
    """a or b, randomly with probability p or 1 − p."""
    device = generator.device if generator else None
    u = torch.rand((), dtype=torch.float64, generator=generator, device=device)
    return a if u < p else b
