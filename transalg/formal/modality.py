"""Gato's tokens: s[t] = (κ, x, p) has a kind, a content, and an index within its timestep.

The content of most kinds is a token ID. That of an image is a patch: its pixels, and the intervals of rows
and columns that it takes of the image, whose height and width are 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isqrt

from jaxtyping import Float
from torch import Tensor

from .domains import Scope, as_real, as_whole, many_of, readable, refuse

KINDS = ("text", "obs", "img", "sep", "act")
LOCAL = ("text", "obs", "img")  # the kinds whose index within the timestep has a vector
PREDICTED = ("text", "act")  # the kinds that the loss looks at


@dataclass(frozen=True, eq=False)
class Patch:
    """(A, [r, r′], [c, c′]): the pixels A ∈ [−1, 1]^{C×n×n} of one patch, n = 16, and where it stands."""

    A: Float[Tensor, "C n n"]
    rows: tuple[float, float]
    columns: tuple[float, float]

    @property
    def n(self) -> int:
        """Rows and columns of pixels."""
        return self.A.shape[-1]


@dataclass(frozen=True, eq=False)
class Token:
    """s[t] = (κ, x, p). A patch has no token ID. m: its weight in the loss; None, its kind says so."""

    kappa: str
    x: int = 0
    p: int = 0
    patch: Patch | None = None
    m: float | None = None


def loss_weight(s: Token) -> float:
    """m[t] = ⟦κ ∈ {text, act}⟧ unless the token itself says: how much the loss looks at it."""
    return float(s.kappa in PREDICTED if s.m is None else s.m)


# What may enter an algorithm ----------------------------------------------------------------------


def token(symbol: str, s: object, scope: Scope) -> Token:
    """A token that θ can embed, its pixels in the dtype and on the device of θ."""
    sizes = scope.sizes
    if not isinstance(s, Token) or s.kappa not in KINDS:
        got = f"κ = {s.kappa!r}" if isinstance(s, Token) else type(s).__name__
        raise refuse(symbol, f"a Token of one of the kinds {', '.join(KINDS)}", got)
    if s.kappa in LOCAL and not _within(s.p, sizes["N_loc"]):
        raise refuse(symbol, f"an index p in {{0, …, N_loc−1}} with N_loc = {sizes['N_loc']}", s.p)
    if (s.kappa == "img") != (s.patch is not None):
        raise refuse(symbol, "a patch where κ = img and nowhere else", f"κ = {s.kappa}")
    if s.m is not None and ((m := as_real(s.m)) is None or not 0 <= m < inf):
        raise refuse(symbol, "a weight m in [0, ∞)", s.m)
    if s.patch is None:
        if not _within(s.x, sizes["N_V"]):
            raise refuse(symbol, f"a token ID in V = {{0, …, N_V−1}} with N_V = {sizes['N_V']}", s.x)
        return s
    if s.m:
        raise refuse(symbol, "m = 0 for a patch, which has no token ID to predict", f"m = {s.m:g}")
    return replace(s, patch=_patch(symbol, s.patch, scope))


def _patch(symbol: str, patch: Patch, scope: Scope) -> Patch:
    sizes, A = scope.sizes, patch.A
    n = (sizes["k_0"] - 2) * isqrt(sizes["d_Z"] // sizes["C_r"])
    shape = (sizes["C"], n, n)
    if not isinstance(A, Tensor) or A.shape != shape or not A.is_floating_point():
        got = "×".join(map(str, A.shape)) if isinstance(A, Tensor) else type(A).__name__
        raise refuse(symbol, f"a patch A ∈ [−1,1]^{{{'×'.join(map(str, shape))}}}", got)
    if readable(A) and not ((A >= -1) & (A <= 1)).all():  # NaN is in no interval
        raise refuse(symbol, "pixels in [−1, 1]", "NaN" if A.isnan().any() else f"{A.abs().max():g}")
    for name, each in (("rows", patch.rows), ("columns", patch.columns)):
        interval(f"{symbol}: {name}", each)
    assert scope.like is not None
    _, dtype, device = scope.like
    return replace(patch, A=A.to(dtype=dtype, device=device))


def interval(symbol: str, ends: tuple[float, float]) -> None:
    """0 ≤ a < b ≤ 1."""
    a, b = (as_real(end) for end in ends)
    if a is None or b is None or not 0 <= a < b <= 1:
        raise refuse(symbol, "an interval [a, b] with 0 ≤ a < b ≤ 1", list(ends))


def token_sequence(
    symbol: str, s: object, scope: Scope, *, longest: float | None = None, least: int = 1
) -> list[Token]:
    """A sequence of `least` to ℓ_max tokens, or of up to `longest`."""
    if not isinstance(s, Sequence) or isinstance(s, str | bytes):
        raise refuse(symbol, "a sequence of Tokens", type(s).__name__)
    if len(s) < least:
        raise refuse(symbol, f"at least {least} token", "an empty sequence")
    ell_max = scope.sizes["ell_max"]
    if len(s) > (longest or ell_max):
        raise refuse(symbol, f"at most ℓ_max = {ell_max} tokens", f"ℓ = {len(s)}")
    return [token(f"{symbol}[{t}]", each, scope) for t, each in enumerate(s)]


def token_sequences(symbol: str, ss: object, scope: Scope) -> list[list[Token]]:
    """A data set s_1, …, s_{N_data}."""
    name = symbol.removesuffix("s")
    return [
        token_sequence(f"{name}_{n}", s, scope) for n, s in enumerate(many_of(symbol, ss, scope), start=1)
    ]


def token_prompt(symbol: str, s: object, scope: Scope) -> list[Token]:
    """A prompt of any length, of which the last ℓ_max tokens count; perhaps empty."""
    return token_sequence(symbol, s, scope, longest=inf, least=0)


def _within(value: object, count: int) -> bool:
    number = as_whole(value)
    return number is not None and 0 <= number < count
