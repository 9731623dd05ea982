"""GPT-2 of Hugging Face."""

from typing import Any

from transalg.hyper import DHyper
from transalg.interop.family import ACTIVATIONS, THEIR_ACTIVATIONS, Family, initialisation
from transalg.interop.names import Source, columns, norm, rows
from transalg.interop.settings import Settings

LAYER = "transformer.h.*."


def _conv1d(ours: str, theirs: str) -> dict[str, Source]:
    """A matrix, which has a column for each output there, and its bias."""
    return {ours: columns(f"{LAYER}{theirs}.weight"), "b_".join(ours.rsplit("W_", 1)): rows(f"{LAYER}{theirs}.bias")}


SOURCES = {
    "W_e": rows("transformer.wte.weight"),
    "W_p": rows("transformer.wpe.weight"),
    **norm("layers.*.gamma1", f"{LAYER}ln_1"),
    **_conv1d("layers.*.W.W_qkv", "attn.c_attn"),
    **_conv1d("layers.*.W.W_o", "attn.c_proj"),
    **norm("layers.*.gamma2", f"{LAYER}ln_2"),
    **_conv1d("layers.*.W_mlp1", "mlp.c_fc"),
    **_conv1d("layers.*.W_mlp2", "mlp.c_proj"),
    **norm("gamma", "transformer.ln_f"),
    "W_u": rows("lm_head.weight"),
}


def hyper(config: Settings) -> DHyper:
    config.require("scale_attn_weights", True, "for scores are divided by √d_attn", default=True)
    config.require("scale_attn_by_inverse_layer_idx", False, "for scores do not depend on the layer", default=False)
    config.require("add_cross_attention", False, "for there is no other sequence", default=False)
    d_e = config.size("n_embd")
    return DHyper(
        N_V=config.size("vocab_size"),
        ell_max=config.size(config.any_of("n_positions", "n_ctx")),
        L=config.layers("n_layer"),
        H=config.size("n_head"),
        d_e=d_e,
        d_mlp=config.size("n_inner", 4 * d_e),
        eps=config.number("layer_norm_epsilon", 1e-5),
        activation=config.choice("activation_function", ACTIVATIONS, "gelu_new"),
        tied=config.flag("tie_word_embeddings", True),
        dropout=config.number("resid_pdrop", 0.1),
        attention_dropout=config.number("attn_pdrop", 0.1),
        init_residual=True,
        **initialisation(config),  # type: ignore[arg-type]
    )


def config(hyper: DHyper) -> dict[str, Any]:
    return {
        "vocab_size": hyper.N_V,
        "n_positions": hyper.ell_max,
        "n_ctx": hyper.ell_max,  # which older converters read
        "n_layer": hyper.L,
        "n_head": hyper.H,
        "n_embd": hyper.d_e,
        "n_inner": hyper.d_mlp,
        "layer_norm_epsilon": hyper.eps,
        "activation_function": THEIR_ACTIVATIONS.get(hyper.activation, "gelu_new"),
        "tie_word_embeddings": hyper.tied,
        "resid_pdrop": hyper.dropout,
        "embd_pdrop": hyper.dropout,
        "attn_pdrop": hyper.attention_dropout,
        **({"initializer_range": hyper.init_std} if hyper.init_std else {}),
    }


GPT2 = Family(
    model_type="gpt2",
    architectures=("GPT2LMHeadModel", "GPT2Model"),
    hyper=hyper,
    config=config,
    sources=SOURCES,
    marker="wte.weight",
    prefix="transformer.",
    copies={"lm_head.weight": "transformer.wte.weight"},
    constants=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)",),
)
