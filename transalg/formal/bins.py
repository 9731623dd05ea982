"""Real numbers as tokens: mu-law brings them to [−1, 1], bins make token IDs of them; and the way back."""

from math import expm1, floor, inf, log1p

from .domains import checked, natural, number, positive

real_number = number(lambda v: -inf < v < inf, "a number, neither NaN nor ±∞")
in_range = number(lambda y: -1 <= y <= 1, "a number in [−1, 1]")


@checked(v=real_number, mu=positive, M=positive)
def mu_law(v: float, *, mu: float = 100.0, M: float = 256.0) -> float:
    """Variant of Algorithm 1: y ← mu_law(v)

    Brings numbers of any size to few: ±M becomes ±1, small ones are spread, large ones pushed together.
    Input: v ∈ ℝ, an observed number.
    Output: y ∈ ℝ, in [−1, 1] as long as |v| ≤ M.
    Hyperparameters: μ, M ∈ (0, ∞)
    """
    # 1: a ← log(μ|v| + 1) / log(μM + 1)  ⟦a ∈ ℝ⟧
    a = log1p(mu * abs(v)) / log1p(mu * M)
    # 2: return y = sgn(v) · a  ⟦y ∈ ℝ⟧
    return a if v >= 0 else -a


@checked(y=real_number, mu=positive, M=positive)
def mu_law_inverse(y: float, *, mu: float = 100.0, M: float = 256.0) -> float:
    """Variant of Algorithm 1: v ← mu_law_inverse(y)

    The number whose mu-law is y.
    Input: y ∈ ℝ.
    Output: v ∈ ℝ with mu_law(v) = y.
    Hyperparameters: μ, M ∈ (0, ∞)
    """
    # 1: a ← ((μM + 1)^{|y|} − 1) / μ  ⟦a ∈ ℝ⟧
    a = expm1(abs(y) * log1p(mu * M)) / mu
    # 2: return v = sgn(y) · a  ⟦v ∈ ℝ⟧
    return a if y >= 0 else -a


@checked(v=real_number, N_text=natural, N_bins=natural)
def Bin(v: float, N_text: int, N_bins: int = 1024, *, compress: bool = True) -> int:
    """Variant of Algorithm 1: x ← Bin(v)

    The token ID of a real number: [−1, 1] is cut into equal bins, whose IDs follow those of text.
    Input: v ∈ ℝ, an observed number, or an element of an action.
    Output: x ∈ V, one of N_bins token IDs.
    Hyperparameters: N_text, N_bins ∈ ℕ; whether mu-law comes first, not for what is in [−1, 1] anyway.
    """
    # 1: y ← mu_law(v) or v  ⟦y ∈ ℝ⟧
    y = mu_law(v) if compress else v
    # 2: y ← min(max(y, −1), 1)
    y = min(max(y, -1.0), 1.0)
    # 3: return x = N_text + min(⌊N_bins (y + 1)/2⌋, N_bins − 1)
    return N_text + min(floor(N_bins * (y + 1) / 2), N_bins - 1)


@checked(x=natural, N_text=natural, N_bins=natural)
def Bin_inverse(x: int, N_text: int, N_bins: int = 1024, *, compress: bool = True) -> float:
    """Variant of Algorithm 1: v ← Bin_inverse(x)

    The number that a token ID of a bin stands for: the bin's centre.
    Input: x ∈ V, the token ID of a bin.
    Output: v ∈ ℝ.
    Hyperparameters: as in Bin.
    """
    # 1: y ← (2(x − N_text) + 1)/N_bins − 1  ⟦y ∈ ℝ⟧
    y = (2 * (x - N_text) + 1) / N_bins - 1
    # 2: return v = mu_law_inverse(y) or y  ⟦v ∈ ℝ⟧
    return mu_law_inverse(y) if compress else y
