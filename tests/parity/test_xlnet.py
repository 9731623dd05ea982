"""Relative attention against the attention of Hugging Face's XLNet, which is Transformer-XL's."""

import pytest
import torch
from torch.testing import assert_close

from tests.parity.compare import randomise
from tests.strategies import normal
from tests.tolerance import PROMISED
from transalg.formal import MHAttention, unidirectional
from transalg.formal.positions import RelativeAttention, RelativeMHAttentionTheta, relative_sinusoids

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")

H, D_E, D_HEAD, ELL = 3, 12, 5, 7


def test_attention_by_relative_position() -> None:
    from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention

    config = transformers.XLNetConfig(d_model=D_E, n_head=H, d_inner=2, n_layer=1, vocab_size=11, dropout=0)
    config.d_head = D_HEAD  # not d_model / n_head: the layer itself does not need that, nor do we
    peer = randomise(XLNetRelativeAttention(config))
    with torch.no_grad():
        peer.r_s_bias.zero_()  # segments, which are not Transformer-XL's
    X, Mask = normal(0, D_E, ELL), unidirectional(ELL)
    distances = torch.arange(ELL, -ELL, -1)  # XLNet's order: from ℓ down to −ℓ+1
    r = relative_sinusoids(distances, D_E)

    heads = [torch.einsum("ibh,hnd->ibnd", (X.T)[:, None], part) for part in (peer.q, peer.k, peer.v)]
    k_r = torch.einsum("ibh,hnd->ibnd", r.T[:, None], peer.r)
    attended = peer.rel_attn_core(*heads, k_r, attn_mask=(~Mask).double().T[:, :, None, None])
    theirs = torch.einsum("ibnd,hnd->ibh", attended, peer.o)[:, 0].T

    zeros = torch.zeros(H, D_HEAD, dtype=torch.float64)
    W_q, W_k, W_v, W_r = (part.detach().permute(1, 2, 0) for part in (peer.q, peer.k, peer.v, peer.r))
    W_o = peer.o.detach().flatten(1)
    W = RelativeMHAttentionTheta(
        W_q,
        zeros,
        W_k,
        zeros,
        W_v,
        zeros,
        W_o,
        torch.zeros(D_E, dtype=torch.float64),
        W_r,
        peer.r_w_bias.detach(),
        peer.r_r_bias.detach(),
    )
    assert_close(MHAttention(X, X, W, Mask, Attention=RelativeAttention), theirs.detach(), rtol=0, atol=PROMISED)
