"""The published systems: each is a difference from the paper, with the number of parameters its authors give."""

from dataclasses import dataclass
from difflib import get_close_matches

from transalg.hyper.hyper import DHyper, EDHyper, EHyper, GatoHyper, Value


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


def _gato(layers: int, width: int, heads: int, head: int, channels: int) -> GatoHyper:
    """GEGLU halves the listed width of the MLP, 4 d_e: one half is the gate, the other the value."""
    return GatoHyper(
        N_V=33_024, ell_max=1024, L=layers, H=heads, d_e=width, d_mlp=2 * width, d_attn=head, d_mid=head, C_r=channels, G=32,
        positions="relative", activation="GEGLU", tied=True, dropout=0.1,
    )  # fmt: skip


def _llama(layers: int, width: int, heads: int, hidden: int, **more: Value) -> DHyper:
    sizes: dict[str, Value] = {"N_V": 32_000, "ell_max": 4096, "L": layers, "H": heads, "d_e": width, "d_mlp": hidden}
    departures: dict[str, Value] = {
        "positions": "rotary", "norm": "RMSnorm", "activation": "SwiGLU", "bias": "none", "init_std": 0.02,
    }  # fmt: skip
    return DHyper(**sizes | departures | more)  # type: ignore[arg-type]


def _neox(layers: int, width: int, heads: int) -> DHyper:
    return DHyper(
        N_V=50_304, ell_max=2048, L=layers, H=heads, d_e=width, d_mlp=4 * width, d_rot=width // heads // 4,
        positions="rotary", parallel=True, init_std=0.02,
    )  # fmt: skip


TOUVRON, META, ZHANG, ALLAL, JIANG, QWEN2, QWEN3, GEMMA, BIDERMAN = (
    "Touvron et al. 2023",
    "Grattafiori et al. 2024",
    "Zhang et al. 2024",
    "Ben Allal et al. 2025",
    "Jiang et al. 2023",
    "Yang et al. 2024",
    "Yang et al. 2025",
    "Gemma Team 2024",
    "Biderman et al. 2023",
)
VASWANI, DEVLIN, RADFORD, BROWN, RAE, REED = (
    "Vaswani et al. 2017",
    "Devlin et al. 2019",
    "Radford et al. 2019",
    "Brown et al. 2020",
    "Rae et al. 2021",
    "Reed et al. 2022",
)
WIDTH = "the width of GPT-3's band is not published"
BLOCK = "the sizes of Gato's ResNet block are not published; C_r is the one with which the count has the published digits"
SEPARATOR = "33,024 token IDs are 32,000 of text, the separator among them, and 1,024 bins"

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
    "gato-79m": Preset(_gato(8, 768, 24, 32, 64), "79M", REED, f"{SEPARATOR}; {BLOCK}"),
    "gato-364m": Preset(_gato(12, 1536, 12, 128, 32), "364M", REED, f"{SEPARATOR}; {BLOCK}"),
    "gato-1.18b": Preset(_gato(24, 2048, 16, 128, 32), "1.18B", REED, f"{SEPARATOR}; {BLOCK}"),
    "llama-2-7b": Preset(_llama(32, 4096, 32, 11008), "6.74B", TOUVRON),
    "llama-3-8b": Preset(_llama(32, 4096, 32, 14336, N_V=128_256, ell_max=8192, H_kv=8, rotary_base=500_000.0), "8.03B", META),
    "llama-3.2-1b": Preset(
        _llama(
            *(16, 2048, 32, 8192),
            N_V=128_256,
            ell_max=131_072,
            H_kv=8,
            tied=True,
            rotary_base=500_000.0,
            rotary_scaling=(32.0, 1.0, 4.0, 8192.0),
        ),
        *("1.24B", META),
    ),
    "tinyllama-1.1b": Preset(_llama(22, 2048, 32, 5632, ell_max=2048, H_kv=4), "1.10B", ZHANG),
    "smollm2-135m": Preset(
        _llama(30, 576, 9, 1536, N_V=49_152, ell_max=8192, H_kv=3, tied=True, rotary_base=100_000.0, init_std=1 / 24), "135M", ALLAL
    ),
    "smollm2-360m": Preset(_llama(32, 960, 15, 2560, N_V=49_152, ell_max=8192, H_kv=5, tied=True, rotary_base=100_000.0), "362M", ALLAL),
    "mistral-7b": Preset(_llama(32, 4096, 32, 14336, ell_max=32_768, H_kv=8, band=4096, band_pattern="1"), "7.24B", JIANG),
    "qwen2.5-0.5b": Preset(
        _llama(
            *(24, 896, 14, 4864),
            N_V=151_936,
            ell_max=32_768,
            H_kv=2,
            tied=True,
            bias="qkv",
            eps=1e-6,
            rotary_base=1_000_000.0,
        ),
        *("0.49B", QWEN2),
    ),
    "qwen3-0.6b": Preset(
        _llama(
            *(28, 1024, 16, 3072),
            N_V=151_936,
            ell_max=40_960,
            H_kv=8,
            d_attn=128,
            d_mid=128,
            tied=True,
            qk_norm=True,
            eps=1e-6,
            rotary_base=1_000_000.0,
        ),
        *("0.6B", QWEN3),
    ),
    "gemma-2b": Preset(
        _llama(
            *(18, 2048, 8, 16384),
            N_V=256_000,
            ell_max=8192,
            H_kv=1,
            d_attn=256,
            d_mid=256,
            eps=1e-6,
            norm="RMSnorm_1p",
            activation="tanh_GEGLU",
            scaled=True,
            tied=True,
        ),
        *("2.51B", GEMMA),
    ),
    "pythia-70m": Preset(_neox(6, 512, 8), "70M", BIDERMAN),
    "pythia-160m": Preset(_neox(12, 768, 12), "162M", BIDERMAN),
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
