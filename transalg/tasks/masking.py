"""Lines 4–7 of Algorithm 12 for a batch: which tokens are to be predicted, and what stands in their place."""

from collections.abc import Sequence

import torch
from torch import Tensor

from transalg.data.shuffle import derive_seed
from transalg.hyper import EHyper
from transalg.model.checks import Lengths, row_lengths, token_ids


def mask(x: Tensor, hyper: EHyper, lengths: Lengths = None, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """x̃, and which tokens T̃ are to be predicted.

    Every ordinary token is chosen with probability p_mask, a special token never. Of the chosen, the shares of `mask_split` become mask_token,
    become a random ordinary token, stay: (1, 0, 0) in the paper, (0.8, 0.1, 0.1) in BERT.
    """
    x = token_ids("x", x, hyper.ell_max)
    all_lengths = row_lengths("lengths", lengths, tuple(x.shape))
    special = hyper.special_tokens
    ordinary = ~torch.isin(x, torch.tensor(special.ids, device=x.device))
    if all_lengths is not None:
        ordinary &= torch.arange(x.shape[1], device=x.device) < torch.tensor(all_lengths, device=x.device)[:, None]
    device = generator.device if generator else x.device
    drawn = torch.rand(2, *x.shape, generator=generator, device=device).to(x.device)
    other = special.ordinary(torch.randint(max(1, hyper.N_V - len(special.ids)), x.shape, generator=generator, device=device).to(x.device))
    chosen = ordinary & (drawn[0] < hyper.p_mask)
    masked, replaced, _ = hyper.mask_split
    x_tilde = x.where(~(chosen & (drawn[1] < masked)), hyper.mask_token)
    x_tilde = x_tilde.where(~(chosen & (drawn[1] >= masked) & (drawn[1] < masked + replaced)), other)
    return x_tilde, chosen


def mask_by_row(x: Tensor, hyper: EHyper, lengths: Tensor, seed: int, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The same where a row's masks depend on the seed and its index among all rows, not on the batch it is in, nor on its padding."""
    x_tilde, chosen = x.clone(), torch.zeros_like(x, dtype=torch.bool)
    for i, (row, length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
        x_tilde[i, :length], chosen[i, :length] = (
            each[0] for each in mask(x[i : i + 1, :length], hyper, None, torch.Generator().manual_seed(derive_seed(2**62, seed, row)))
        )
    return x_tilde, chosen
