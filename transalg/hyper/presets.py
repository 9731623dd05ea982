"""The published systems: each is a difference from the paper, with the number of parameters its authors give."""

from dataclasses import dataclass
from difflib import get_close_matches

from transalg.hyper.hyper import DHyper, EDHyper, EHyper, Value


@dataclass(frozen=True)
class Preset:
    """A published system: its hyperparameters, and the number of parameters its authors give."""

    hyper: DHyper | EHyper | EDHyper
    published: str
    source: str
    note: str = ""
    count: str = ""  # what the published number counts, where it is another than ours


def _transformer(width: int, heads: int, dropout: float) -> EDHyper:
    return EDHyper(
        N_V=37_000, ell_max=1024, L_enc=6, L_dec=6, H=heads, d_e=width, d_mlp=4 * width,
        positions="sinusoids", scaled=True, tied=True, dropout=dropout, label_smoothing=0.1,
    )  # fmt: skip


def _bert(layers: int, width: int, heads: int) -> EHyper:
    return EHyper(
        N_V=30_522, ell_max=512, L=layers, H=heads, d_e=width, d_mlp=4 * width, eps=1e-12, segments=2, embedding_norm=True,
        output_bias=True, tied=True, mask_split=(0.8, 0.1, 0.1), dropout=0.1, attention_dropout=0.1, init_std=0.02,
    )  # fmt: skip


def _gpt2(layers: int, width: int, heads: int) -> DHyper:
    return DHyper(
        N_V=50_257, ell_max=1024, L=layers, H=heads, d_e=width, d_mlp=4 * width,
        activation="tanh_GELU", tied=True, dropout=0.1, attention_dropout=0.1, init_std=0.02, init_residual=True,
    )  # fmt: skip


def _gpt3(layers: int, width: int, heads: int, head: int) -> DHyper:
    return DHyper(
        N_V=50_257, ell_max=2048, L=layers, H=heads, d_e=width, d_mlp=4 * width, d_attn=head, d_mid=head,
        activation="tanh_GELU", tied=True, init_std=0.02, init_residual=True, band=256,
    )  # fmt: skip


def _gopher(layers: int, width: int, heads: int, head: int) -> DHyper:
    return DHyper(
        N_V=32_000, ell_max=2048, L=layers, H=heads, d_e=width, d_mlp=4 * width, d_attn=head, d_mid=head,
        norm="RMSnorm", positions="relative", tied=True,
    )  # fmt: skip


VASWANI, DEVLIN, RADFORD, BROWN, RAE = (
    "Vaswani et al. 2017",
    "Devlin et al. 2019",
    "Radford et al. 2019",
    "Brown et al. 2020",
    "Rae et al. 2021",
)
WIDTH = "the width of GPT-3's band is not published"

PRESETS: dict[str, Preset] = {
    "transformer-base": Preset(
        _transformer(512, 8, 0.1), "65M", VASWANI, count="65 M takes a vocabulary of 40.8 thousand; the article says about 37000"
    ),
    "transformer-big": Preset(
        _transformer(1024, 16, 0.3), "213M", VASWANI, count="213 M takes a vocabulary of 35.8 thousand; the article says about 37000"
    ),
    "bert-base": Preset(_bert(12, 768, 12), "110M", DEVLIN),
    "bert-large": Preset(_bert(24, 1024, 16), "340M", DEVLIN),
    "gpt2": Preset(_gpt2(12, 768, 12), "124M", RADFORD),
    "gpt2-medium": Preset(_gpt2(24, 1024, 16), "355M", RADFORD),
    "gpt2-large": Preset(_gpt2(36, 1280, 20), "774M", RADFORD),
    "gpt2-xl": Preset(_gpt2(48, 1600, 25), "1558M", RADFORD),
    "gpt3-small": Preset(_gpt3(12, 768, 12, 64), "125M", BROWN, WIDTH),
    "gpt3-medium": Preset(_gpt3(24, 1024, 16, 64), "350M", BROWN, WIDTH, "350 M leaves out W_p"),
    "gpt3-large": Preset(_gpt3(24, 1536, 16, 96), "760M", BROWN, WIDTH),
    "gpt3-xl": Preset(
        _gpt3(24, 2048, 16, 128), "1.3B", BROWN, WIDTH, "the article's table has 24 heads of 128, which gives 1.5 B; 1.3 B takes 16"
    ),
    "gpt3-2.7b": Preset(_gpt3(32, 2560, 32, 80), "2.7B", BROWN, WIDTH),
    "gpt3-6.7b": Preset(_gpt3(32, 4096, 32, 128), "6.7B", BROWN, WIDTH),
    "gpt3-13b": Preset(_gpt3(40, 5140, 40, 128), "13B", BROWN, WIDTH),
    "gpt3-175b": Preset(_gpt3(96, 12288, 96, 128), "175B", BROWN, WIDTH),
    "gopher-44m": Preset(_gopher(8, 512, 16, 32), "44M", RAE),
    "gopher-117m": Preset(_gopher(12, 768, 12, 64), "117M", RAE),
    "gopher-417m": Preset(_gopher(12, 1536, 12, 128), "417M", RAE),
    "gopher-1.4b": Preset(_gopher(24, 2048, 16, 128), "1.4B", RAE),
    "gopher-7.1b": Preset(_gopher(32, 4096, 32, 128), "7.1B", RAE),
    "gopher-280b": Preset(_gopher(80, 16384, 128, 128), "280B", RAE),
}


def find(name: str) -> Preset:
    """The preset of this name, or a ValueError that says which there are."""
    folded = name.strip().lower().replace("_", "-")
    if folded in PRESETS:
        return PRESETS[folded]
    family = [known for known in PRESETS if known.startswith(folded.rstrip("-") + "-")] if folded else []
    close = family or get_close_matches(folded, PRESETS, n=3)
    hint = f"did you mean {', '.join(close)}?" if close else "`transalg presets` lists them"
    raise ValueError(f"there is no preset {name!r}: {hint}")


def preset(name: str, **changes: Value) -> DHyper | EHyper | EDHyper:
    """The hyperparameters of a published system, with some of them changed if you like: `preset("gpt2", ell_max=512)`."""
    return find(name).hyper.replace(**changes) if changes else find(name).hyper
