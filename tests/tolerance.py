"""How far apart two computations of one number may lie. Bitwise equality is for identical computations: same shapes, kernels, threads."""

import torch

PROMISED = 1e-10  # engine = formal in float64, values and gradients: the bound that `transalg verify` states
MARGIN = 32  # see below


def tolerance(dtype: torch.dtype, terms: int, depth: int = 1, size: float = 1.0) -> float:
    """A bound for |a − b| where a and b are one number, of about `size`, computed in `dtype` in two ways.

    A kernel adds the terms of a sum in an order of its own, with or without fused multiply-adds; that depends on the CPU, on the
    number of threads and on the shape of a batch. The rounding errors of n terms add up as a random walk does, to about √n · eps of
    their size (Higham & Mary 2019). What is computed from a rounded number carries its error on, so errors grow with `depth`:
    the number of layers one after another, twice for a gradient, times the steps for training. MARGIN is for the handful of sums in
    a row that a layer consists of, for both sides being rounded, and for the tails of a random walk.

    `terms` is the length of the longest sum. `size` is that of the result, or of what cancels on the way to it, times whatever enlarges
    an error. This is for float32 and float64; of shorter numbers and int8 a test says how good the result has to be.
    """
    return MARGIN * torch.finfo(dtype).eps * terms**0.5 * depth * size
