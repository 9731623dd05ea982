"""Marian of Hugging Face, and the two families that are like it with norms before the sub-layers: Pegasus and Blenderbot."""

from collections.abc import Callable
from typing import Any

from transalg.formal.positions import split_sinusoids
from transalg.hyper import EDHyper
from transalg.interop.family import ACTIVATIONS, THEIR_ACTIVATIONS, Family, initialisation
from transalg.interop.names import ONE_ROW, Source, linear, norm, rows
from transalg.interop.settings import Settings

EPS = 1e-5  # which config.json does not say


def _attention(ours: str, theirs: str, *matrices: tuple[str, str]) -> dict[str, Source]:
    """W_qkv of q, k and v, or W_q of q and W_kv of k and v; and W_o."""
    parts = [*matrices, ("W_o", "out")]
    return {
        key: source
        for name, projections in parts
        for key, source in linear(
            f"{ours}.{name}", *(f"{theirs}.{one}_proj" for one in ([projections] if projections == "out" else projections))
        ).items()
    }


def _stack(stack: str, side: str, first: int) -> dict[str, Source]:
    """A layer's MLP and its last norm."""
    layer = f"model.{side}.layers.*."
    mlp = linear(f"{stack}.*.W_mlp{first}", f"{layer}fc1") | linear(f"{stack}.*.W_mlp{first + 1}", f"{layer}fc2")
    return mlp | norm(f"{stack}.*.gamma{2 if side == 'encoder' else 5}", f"{layer}final_layer_norm")


ENC, DEC = "model.encoder.layers.*.", "model.decoder.layers.*."
SOURCES = {
    "W_e": rows("model.shared.weight"),
    **_attention("enc.*.W", f"{ENC}self_attn", ("W_qkv", "qkv")),
    **norm("enc.*.gamma1", f"{ENC}self_attn_layer_norm"),
    **_stack("enc", "encoder", 1),
    **_attention("dec.*.W_dec", f"{DEC}self_attn", ("W_qkv", "qkv")),
    **norm("dec.*.gamma3", f"{DEC}self_attn_layer_norm"),
    **_attention("dec.*.W_ed", f"{DEC}encoder_attn", ("W_q", "q"), ("W_kv", "kv")),
    **norm("dec.*.gamma4", f"{DEC}encoder_attn_layer_norm"),
    **_stack("dec", "decoder", 3),
    "W_u": rows("lm_head.weight"),
    "b_u": Source(("final_logits_bias",), ONE_ROW),
}
FINAL_NORMS = {**norm("gamma_enc", "model.encoder.layer_norm"), **norm("gamma_dec", "model.decoder.layer_norm")}
SHARED = {f"{side}.weight": "model.shared.weight" for side in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")}
TABLES = {
    f"model.{side}.embed_positions.weight": lambda hyper: split_sinusoids(hyper.d_e, hyper.ell_max).T for side in ("encoder", "decoder")
}


def _reader(positions: str, norm_first: bool, activation: str) -> Callable[[Settings], EDHyper]:
    def hyper(config: Settings) -> EDHyper:
        config.require("share_encoder_decoder_embeddings", True, "for z and x have one vocabulary", default=True)
        config.require(
            "static_position_embeddings", positions != "learned", f"for positions are {positions}", default=positions != "learned"
        )
        for name, expected in (("normalize_embedding", False), ("add_final_layer_norm", norm_first)):
            config.require(name, expected, "for norms are elsewhere", default=expected)
        for name in ("attention_heads", "ffn_dim"):
            config.require(f"decoder_{name}", config.size(f"encoder_{name}"), "as in the encoder")
        return EDHyper(
            N_V=config.size("vocab_size"),
            ell_max=config.size("max_position_embeddings", 1024),
            L_enc=config.layers("encoder_layers"),
            L_dec=config.layers("decoder_layers"),
            H=config.size("encoder_attention_heads"),
            d_e=config.size("d_model"),
            d_mlp=config.size("encoder_ffn_dim"),
            eps=EPS,
            norm_first=norm_first,
            positions=positions,
            activation=config.choice("activation_function", ACTIVATIONS, activation),
            scaled=config.flag("scale_embedding", False),
            tied=config.flag("tie_word_embeddings", True),
            output_bias=True,
            dropout=config.number("dropout", 0.1),
            attention_dropout=config.number("attention_dropout", 0.0),
            **initialisation(config, "init_std"),  # type: ignore[arg-type]
        )

    return hyper


def config(hyper: EDHyper) -> dict[str, Any]:
    return {
        "vocab_size": hyper.N_V,
        "decoder_vocab_size": hyper.N_V,
        "max_position_embeddings": hyper.ell_max,
        "encoder_layers": hyper.L_enc,
        "decoder_layers": hyper.L_dec,
        "encoder_attention_heads": hyper.H,
        "decoder_attention_heads": hyper.H,
        "d_model": hyper.d_e,
        "encoder_ffn_dim": hyper.d_mlp,
        "decoder_ffn_dim": hyper.d_mlp,
        "activation_function": THEIR_ACTIVATIONS.get(hyper.activation, "relu"),
        "scale_embedding": hyper.scaled,
        "tie_word_embeddings": hyper.tied,
        "share_encoder_decoder_embeddings": True,
        "is_encoder_decoder": True,
        "dropout": hyper.dropout,
        "attention_dropout": hyper.attention_dropout,
        **({"init_std": hyper.init_std} if hyper.init_std else {}),
    }


MARIAN = Family(
    model_type="marian",
    architectures=("MarianMTModel",),
    hyper=_reader("split_sinusoids", False, "gelu"),
    config=config,
    sources=SOURCES,
    marker="model.shared.weight",
    copies=SHARED,
    tables=TABLES,
)
PEGASUS = Family(
    model_type="pegasus",
    architectures=("PegasusForConditionalGeneration",),
    hyper=_reader("split_sinusoids", True, "gelu"),
    config=config,
    sources=SOURCES | FINAL_NORMS,
    marker="model.shared.weight",
    copies=SHARED,
    tables=TABLES,
)
BLENDERBOT = Family(
    model_type="blenderbot",
    architectures=("BlenderbotForConditionalGeneration",),
    hyper=_reader("learned", True, "gelu"),
    config=config,
    sources=SOURCES | FINAL_NORMS | {"W_p": rows("model.encoder.embed_positions.weight")},
    marker="model.shared.weight",
    copies=SHARED,
    repeated={"model.decoder.embed_positions.weight": "model.encoder.embed_positions.weight"},
)
