"""`verify.check` passes what is right, and names what is broken: each bug that public implementations have."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import transalg
from tests.verify.modules import ELL_MAX, N_V, Decoder, EncoderDecoder, step, theta
from transalg.formal import DTransformer
from transalg.formal.norm import RMSnorm
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper
from transalg.model import build
from transalg.verify import Findings, check
from transalg.verify.cases import small
from transalg.verify.module_laws import LAWS


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


# Right -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("module", "like"), [(Decoder(), "DTransformer"), (EncoderDecoder(), "EDTransformer")], ids=["D", "ED"])
def test_a_right_module_keeps_every_law_and_equals_the_formal_algorithm(module: nn.Module, like: str) -> None:
    before = {name: part.clone() for name, part in module.state_dict().items()}
    findings = check(module, like, theta=theta)
    assert findings.holds, str(findings)
    assert findings["P"].error < 1e-10 and findings["formal gradients"].error < 1e-10
    after = module.state_dict()
    assert all(after[name].equal(part) and part.dtype is torch.float32 for name, part in before.items()), "a copy is checked"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DHyper, EHyper, EDHyper, ClassifierHyper])
def test_models_of_the_engine(kind: Any) -> None:
    model = build(small(kind))
    findings = check(model, type(model).__name__)
    assert findings.holds, str(findings)
    assert (findings["cache"].status == "holds") == (kind in (DHyper, EDHyper))


def test_an_encoder_that_is_told_its_padding() -> None:
    class Encoder(Decoder):
        def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:  # type: ignore[override]
            X = self.tokens(x) + self.positions[: x.shape[1]]
            for block in self.blocks:
                X = block(X, attention_mask[:, None, None, :])
            return self.unembedding(self.norm(X))

    findings = check(Encoder(), "ETransformer")
    assert findings.holds and findings["padding"].status == "holds", str(findings)
    for bug, law in (("softmax over queries", "padding"), ("norm over the matrix", "padding"), ("weights cancel", "gradients")):
        assert law in check(Encoder(bug), "ETransformer").broken, bug
    unmasked = check(Decoder(causal=False), "ETransformer")
    assert unmasked.holds and unmasked["padding"].status == "not checked"
    assert "context" in check(Decoder(), "ETransformer").broken, "a causal module is no encoder"


def families() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Classes of transformers at a tiny size, each with what it is like."""
    sizes = {"vocab_size": 23, "max_position_embeddings": 13, "hidden_size": 12, "intermediate_size": 17, "num_hidden_layers": 1}
    gated = sizes | {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 6, "pad_token_id": None}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 3, "encoder_ffn_dim": 17, "decoder_ffn_dim": 19}
    special = {"pad_token_id": 22, "eos_token_id": 0, "decoder_start_token_id": 22, "forced_eos_token_id": 0}
    pairs = {"vocab_size": 23, "max_position_embeddings": 13, "d_model": 12, "encoder_layers": 1, "decoder_layers": 1, **heads, **special}
    bert = sizes | {"num_attention_heads": 3}
    gpt2 = {"vocab_size": 23, "n_positions": 13, "n_embd": 12, "n_layer": 1, "n_head": 3}
    names = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "GemmaForCausalLM")
    result: dict[str, tuple[str, str, dict[str, Any]]] = {name: (name.removesuffix("ForCausalLM"), "DTransformer", gated) for name in names}
    result["MistralForCausalLM"] = ("Mistral", "DTransformer", gated | {"sliding_window": 3})
    return result | {
        "GPTNeoXForCausalLM": ("GPTNeoX", "DTransformer", sizes | {"num_attention_heads": 2, "rotary_pct": 0.5}),
        "GPT2LMHeadModel": ("GPT2", "DTransformer", gpt2),
        "BertForMaskedLM": ("Bert", "ETransformer", bert),
        "BertForSequenceClassification": ("Bert", "Classifier", bert),
        "MarianMTModel": ("Marian", "EDTransformer", pairs),
        "BartForConditionalGeneration": ("Bart", "EDTransformer", pairs),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", families())
def test_models_of_transformers(name: str) -> None:
    transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")
    config, like, sizes = families()[name]
    findings = check(getattr(transformers, name)(getattr(transformers, f"{config}Config")(**sizes)), like)
    assert findings.holds, str(findings)
    assert (findings["cache"].status == "holds") == (like in ("DTransformer", "EDTransformer"))
    assert findings["padding"].status == "holds"


# Broken ----------------------------------------------------------------------------------------------------------------

BROKEN = {  # a bug of public implementations, and the laws that it breaks
    "weights cancel": {"causality", "gradients"},
    "norm over the matrix": {"causality"},
    "norm over the batch": {"batch"},
    "softmax over queries": {"causality"},
    "transposed": {"causality", "context"},
    "inverted": {"causality"},
    "no mask": {"causality"},
    "next token leaks": {"causality"},
    "second softmax": {"distributions"},
    "softmax over positions": {"distributions"},
    "gamma by position": {"runs"},
    "no positions": {"gradients"},
    "separator not embedded": {"context"},
    "dropout on": {"repeatable"},
    "first position in decoding": {"cache"},
    "detached": {"gradients"},
}


@pytest.mark.parametrize("bug", BROKEN, ids=lambda bug: bug.replace(" ", "-"))
def test_a_broken_law_is_named(bug: str) -> None:
    findings = check(Decoder(bug), step=step)
    assert BROKEN[bug] <= {*findings.broken}, str(findings)
    assert f"BROKEN  {findings.broken[0]}" in str(findings)


SILENT = {  # laws hold, and values do not: what the comparison says of it
    "unbiased variance": "look at the embedding, the residual connections, the norms, the unembedding",
    "stream overwritten": "look at the embedding, the residual connections, the norms, the unembedding",
    "residual twice": "look at the embedding, the residual connections, the norms, the unembedding",
    "norm of the wrong tensor": "but with one on: the MLP of layers.0, the MLP of layers.1",
    "no scale": "but with one on: the attention layers.0.W, the attention layers.1.W",
    "softmax over features": "but with one on: the attention layers.0.W, the attention layers.1.W",
}


@pytest.mark.parametrize("bug", SILENT, ids=lambda bug: bug.replace(" ", "-"))
def test_what_laws_cannot_see_the_formal_algorithm_shows(bug: str) -> None:
    findings = check(Decoder(bug), step=step, theta=theta)
    assert findings.broken == ("P",) and SILENT[bug] in findings["P"].text, str(findings)


def test_self_and_cross_attention_that_share_weights() -> None:
    findings = check(EncoderDecoder("shared attention"), "EDTransformer", theta=theta)
    assert {"sharing", "theta"} <= {*findings.broken} and "dec.0.own = dec.0.cross" not in findings["sharing"].text
    assert "W_dec" in findings["theta"].text and "W_ed" in findings["theta"].text
    assert "sharing" not in check(EncoderDecoder("shared attention"), "EDTransformer", skip=["sharing"]).broken


def test_a_decoder_sized_by_the_encoder() -> None:
    """More layers than are used have no gradient; fewer make no θ of the sizes that are meant."""
    findings = check(EncoderDecoder("decoder sized by L_enc"), "EDTransformer", theta=theta)
    assert {"gradients", "P"} <= {*findings.broken} and "dec.1" in findings["gradients"].text


def test_gamma_by_position_makes_no_theta() -> None:
    findings = check(Decoder("gamma by position"), theta=theta)
    assert {"runs", "theta"} <= {*findings.broken} and "gamma1" in findings["theta"].text


def test_the_order_of_tokens_has_to_matter() -> None:
    """One layer without positions: P after two tokens that change places stays."""
    assert "positions" in check(Decoder("no positions", L=1)).broken
    assert "positions" not in check(Decoder("no positions", L=1), skip=["positions"]).broken


# The tool --------------------------------------------------------------------------------------------------------------


def test_probabilities_are_told_from_logits() -> None:
    findings = check(Decoder("returns P"), theta=theta)
    assert findings.holds and "cross_entropy would be a second softmax" in findings["distributions"].text


def test_variants_have_a_formal_algorithm_of_their_own() -> None:
    """As a component: RMSnorm on one side only differs, in the norms."""
    formal = partial(DTransformer, layer_norm=lambda e, gamma, beta, eps: RMSnorm(e, gamma, beta, eps))
    assert check(Decoder(), theta=theta, formal=formal).broken == ("P",)
    assert check(Decoder(), theta=theta, formal=partial(DTransformer, eps=1e-5)).holds


def test_a_call_says_how() -> None:
    class Transposed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Decoder()

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"out": self.inner(x.T).mT}

    assert check(Transposed(), call=lambda module, x: module(x.T)["out"].mT, N_V=N_V).holds


def test_readable() -> None:
    findings = check(Decoder("no mask"))
    first, *lines = str(findings).splitlines()
    assert first == "Decoder like DTransformer: 8 hold, 3 broken, 1 not checked" and len(lines) == 1 + len(LAWS)
    assert any(line.startswith("BROKEN  causality") and "other tokens after t = 1 change P[:, 1:1]" in line for line in lines)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"like": "GPT"}, "like: expected DTransformer, ETransformer, EDTransformer, Classifier, got 'GPT'"),
        ({"skip": ["maths"]}, "skip: expected names of repeatable, .*, got 'maths'"),
        ({"ell": 2}, "ell: expected at least 3, got 2"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(Decoder(), **options)
    with pytest.raises(ValueError, match="N_V: expected the size of the vocabulary"):
        check(nn.Linear(3, 5))


def test_what_is_no_module() -> None:
    with pytest.raises(ValueError, match=r"^module: expected an nn\.Module, got int$"):
        check(5)  # type: ignore[arg-type]


def test_a_module_that_fails_is_a_finding() -> None:
    findings: Findings = check(Decoder(), ell=ELL_MAX + 2)
    assert findings.broken == ("runs",) and f"fails on a sequence of {ELL_MAX + 1}" in findings["runs"].text
    assert transalg.verify.check is check
