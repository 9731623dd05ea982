"""BERT of Hugging Face: for filling masks, for classes with its own pooler, and without a head."""

from typing import Any

from transalg.hyper import ClassifierHyper, EHyper
from transalg.interop.family import ACTIVATIONS, THEIR_ACTIVATIONS, Family, initialisation
from transalg.interop.names import linear, norm, rows
from transalg.interop.settings import Settings

LAYER = "bert.encoder.layer.*."
EMBEDDINGS = "bert.embeddings."
TRANSFORM = "cls.predictions.transform"
ENCODER = {
    "W_e": rows(f"{EMBEDDINGS}word_embeddings.weight"),
    "W_p": rows(f"{EMBEDDINGS}position_embeddings.weight"),
    "W_s": rows(f"{EMBEDDINGS}token_type_embeddings.weight"),
    **norm("gamma_e", f"{EMBEDDINGS}LayerNorm"),
    **linear("layers.*.W.W_qkv", *(f"{LAYER}attention.self.{one}" for one in ("query", "key", "value"))),
    **linear("layers.*.W.W_o", f"{LAYER}attention.output.dense"),
    **norm("layers.*.gamma1", f"{LAYER}attention.output.LayerNorm"),
    **linear("layers.*.W_mlp1", f"{LAYER}intermediate.dense"),
    **linear("layers.*.W_mlp2", f"{LAYER}output.dense"),
    **norm("layers.*.gamma2", f"{LAYER}output.LayerNorm"),
}
MASKED = {
    **ENCODER,
    **linear("W_f", f"{TRANSFORM}.dense"),
    **norm("gamma", f"{TRANSFORM}.LayerNorm"),
    "b_u": rows("cls.predictions.decoder.bias"),
    "W_u": rows("cls.predictions.decoder.weight"),
}
CLASSES = {**ENCODER, **linear("W_f", "bert.pooler.dense"), **linear("W_c", "classifier")}
POSITION_IDS = (r"bert\.embeddings\.(position_ids|token_type_ids)",)
POOLER = (r"bert\.pooler\..*",)
MASKED_HEAD = (r"cls\..*",)


def _encoder(config: Settings) -> dict[str, Any]:
    config.require("position_embedding_type", "absolute", "for positions are learned and absolute", default="absolute")
    for name in ("is_decoder", "add_cross_attention"):
        config.require(name, False, "for every token sees all others, and no other text", default=False)
    d_e = config.size("hidden_size")
    return {
        "N_V": config.size("vocab_size"),
        "ell_max": config.size("max_position_embeddings", 512),
        "L": config.layers("num_hidden_layers"),
        "H": config.size("num_attention_heads"),
        "d_e": d_e,
        "d_mlp": config.size("intermediate_size"),
        "eps": config.number("layer_norm_eps", 1e-12),
        "activation": config.choice("hidden_act", ACTIVATIONS, "gelu"),
        "segments": config.size("type_vocab_size", 2),
        "embedding_norm": True,
        "mask_split": (0.8, 0.1, 0.1),
        "dropout": config.number("hidden_dropout_prob", 0.1),
        "attention_dropout": config.number("attention_probs_dropout_prob", 0.1),
        **initialisation(config),
    }


def masked_hyper(config: Settings) -> EHyper:
    return EHyper(**_encoder(config), output_bias=True, tied=config.flag("tie_word_embeddings", True))


def bare_hyper(config: Settings) -> EHyper:
    """P of an encoder without a head has no meaning; W_eᵀ is there for it."""
    return EHyper(**_encoder(config), head="none", tied=True)


def classifier_hyper(config: Settings) -> ClassifierHyper:
    if config.has("problem_type"):
        config.require("problem_type", "single_label_classification", "for a text has one class")
    return ClassifierHyper(**_encoder(config), N_C=len(labels(config)), head="tanh", pooling="bos")


def labels(config: Settings) -> tuple[str, ...]:
    """The names of the classes; LABEL_0, … where config.json does not name all."""
    names = config.table("id2label").values
    count = config.size("num_labels", len(names) or 2)
    listed = tuple(str(names.get(str(i), f"LABEL_{i}")) for i in range(min(count, 10**6)))
    if len(names) not in (0, count) or len(set(listed)) < len(listed):
        listed = tuple(f"LABEL_{i}" for i in range(count))
    return listed


def config(hyper: EHyper) -> dict[str, Any]:
    return {
        "vocab_size": hyper.N_V,
        "max_position_embeddings": hyper.ell_max,
        "num_hidden_layers": hyper.L,
        "num_attention_heads": hyper.H,
        "hidden_size": hyper.d_e,
        "intermediate_size": hyper.d_mlp,
        "layer_norm_eps": hyper.eps,
        "hidden_act": THEIR_ACTIVATIONS.get(hyper.activation, "gelu"),
        "type_vocab_size": max(1, hyper.segments),
        "hidden_dropout_prob": hyper.dropout,
        "attention_probs_dropout_prob": hyper.attention_dropout,
        **({"initializer_range": hyper.init_std} if hyper.init_std else {}),
        "tie_word_embeddings": hyper.tied or isinstance(hyper, ClassifierHyper),
        "position_embedding_type": "absolute",  # which older converters read
    }


def classifier_config(hyper: ClassifierHyper) -> dict[str, Any]:
    return config(hyper) | {"num_labels": hyper.N_C}


BERT_MASKED = Family(
    model_type="bert",
    architectures=("BertForMaskedLM", "BertForPreTraining"),
    hyper=masked_hyper,
    config=config,
    sources=MASKED,
    marker=f"{TRANSFORM}.dense.weight",
    prefix="bert.",
    copies={
        "cls.predictions.decoder.weight": f"{EMBEDDINGS}word_embeddings.weight",
        "cls.predictions.bias": "cls.predictions.decoder.bias",
    },
    aliases={"cls.predictions.decoder.bias": ("cls.predictions.bias",)},
    second_names={"cls.predictions.bias": "cls.predictions.decoder.bias"},
    constants=POSITION_IDS,
    unused=(*POOLER, r"cls\.seq_relationship\..*"),
)
BERT_CLASSES = Family(
    model_type="bert",
    architectures=("BertForSequenceClassification",),
    hyper=classifier_hyper,
    config=classifier_config,
    sources=CLASSES,
    marker="classifier.weight",
    prefix="bert.",
    constants=POSITION_IDS,
    unused=MASKED_HEAD,
)
BERT_BARE = Family(
    model_type="bert",
    architectures=("BertModel",),
    hyper=bare_hyper,
    config=config,
    sources=ENCODER,
    marker="bert.embeddings.word_embeddings.weight",
    prefix="bert.",
    constants=POSITION_IDS,
    unused=(*POOLER, *MASKED_HEAD),
)
