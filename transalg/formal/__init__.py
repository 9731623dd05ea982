"""The paper, executable: Algorithms 1–15 as pure functions, one statement for each numbered line.

Indices. The paper counts from 1, Python from 0: index i of the paper is i − 1 here, for positions, layers,
heads and token IDs alike. The special tokens of §4 are then mask_token = N_V − 3, bos_token = N_V − 2 and
eos_token = N_V − 1, unless θ says otherwise.

Names. The paper's, in ASCII. Not `ℓ`: Python folds that identifier to `l`, the layer index; so `ell`.

Tags. The comment above a statement is its line of the paper: number, mathematics, then in ⟦…⟧ the shape of
what the line sets, where that is new, then the entry of docs/errata.md, where the line departs from the
paper's. An `end` of the paper is a comment alone.

Vectors are columns: X ∈ ℝ^{d_e×ℓ} has a column for every token, and a Mask has a row for every key, a
column for every query.

Variants. What the paper names without pseudocode stands in a file for each idea: positions, norm, mlp, mask,
embedding, unembedding, classification; systems puts the published ones together. A variant is another
component under the paper's name, `DTransformer(x, theta, layer_norm=RMSnorm)`, or a map on θ,
`DTransformer(x, tied(theta))`.
"""

from . import unembedding as _unembedding  # noqa: F401  before Algorithm 7, which has its name
from .architectures import DTransformer, EDTransformer, ETransformer
from .components import (
    Attention,
    MHAttention,
    layer_norm,
    positional_embedding,
    single_query_attention,
    token_embedding,
    unembedding,
)
from .inference import DInference, EDInference
from .mask import bidirectional, unidirectional
from .theta import AttentionTheta, DecoderLayer, DTheta, EDTheta, ETheta, Layer, MHAttentionTheta, MLPTheta
from .training import DTraining, EDTraining, ETraining

__all__ = [  # noqa: RUF022  the algorithms stand in the paper's order
    "token_embedding",
    "positional_embedding",
    "single_query_attention",
    "Attention",
    "MHAttention",
    "layer_norm",
    "unembedding",
    "EDTransformer",
    "ETransformer",
    "DTransformer",
    "EDTraining",
    "ETraining",
    "DTraining",
    "DInference",
    "EDInference",
    "AttentionTheta",
    "MHAttentionTheta",
    "MLPTheta",
    "Layer",
    "DecoderLayer",
    "EDTheta",
    "ETheta",
    "DTheta",
    "bidirectional",
    "unidirectional",
]
