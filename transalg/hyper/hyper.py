"""The hyperparameters of the architectures, on one page: the paper's sizes, and a field for every departure from the paper.

What a field may be, what it needs and what it learns, the units say: `embedding`, `positions`, `heads`, `mask`, `norm`, `mlp`, `unembedding`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar

from transalg.checks import is_integer, is_real, within
from transalg.hyper.head import ENCODER_HEADS
from transalg.hyper.heads import BIASES, Heads
from transalg.hyper.mask import Band, Causal, Mask
from transalg.hyper.mlp import MLPS
from transalg.hyper.modalities import BINS, GRID, LOCAL, PATCH
from transalg.hyper.norm import NORMS
from transalg.hyper.pooling import POOLINGS
from transalg.hyper.positions import POSITIONS
from transalg.hyper.special import HasSpecialTokens, SpecialTokens
from transalg.reading import shown

Value = bool | int | float | str | tuple[float, ...] | SpecialTokens | None  # of a field
REGULARISATION = ("dropout", "attention_dropout", "label_smoothing")
# P does not depend on these:
TRAINING = (*REGULARISATION, "init_std", "init_residual", "init_smooth", "mask_split", "p_mask")


def departure(default: Value, doc: str, choices: Iterable[str] = (), bounds: str = "") -> Any:
    """A field whose default is the paper's choice; `doc` says what it means, `choices` or `bounds` what it may be."""
    return field(default=default, metadata={"doc": doc, "choices": tuple(choices)} | ({"bounds": bounds} if bounds else {}))


LAYERS, WIDTH, LENGTH, VOCABULARY = "[1, 1000]", "[1, 1000000]", "[1, 100000000]", "[5, 10000000]"  # beyond what any machine has


def size(doc: str, *, optional: bool = False, default: int | None = None, bounds: str = WIDTH) -> Any:
    """A size of the paper, or of a system that names it, and its bounds; an optional one is derived from the others unless given."""
    metadata = {"doc": doc, "size": True, "bounds": bounds}
    return field(default=default, metadata=metadata) if optional or default is not None else field(metadata=metadata)


def _choices(table: Mapping[str, Any]) -> str:
    return "; ".join(f"{name}: {unit.doc}" for name, unit in table.items())


PER_HEAD = ("d_attn", "d_mid")  # d_e / H unless given
DERIVED_SIZES = {  # what is derived from a size unless given, and how
    "H": (*PER_HEAD, "d_rot"),
    "d_e": (*PER_HEAD, "d_f", "d_r", "d_rot"),
    "d_attn": ("d_rot",),
}
STRIDES = tuple(2**i for i in range(PATCH.bit_length() - 1))  # of a patch, each leaves at least 2×2
AnyHyper = TypeVar("AnyHyper", bound="Hyper")


@dataclass(frozen=True, kw_only=True)
class Hyper(HasSpecialTokens):
    """What the three architectures share."""

    algorithm: ClassVar[int]
    replaced: ClassVar[str] = ""  # what the architecture has in the place of one of the algorithm's lines, if it has something

    N_V: int = size("how many tokens the vocabulary has, mask, bos and eos included", bounds=LENGTH)
    ell_max: int = size("ℓ_max, the longest sequence", bounds=LENGTH)
    H: int = size("attention heads in every layer", bounds=LAYERS)
    d_e: int = size("width of the residual stream, of the embeddings")
    d_mlp: int = size("width of the hidden layer of an MLP")
    d_attn: int | None = size("width of a head's queries and keys; d_e / H unless given", optional=True)
    d_mid: int | None = size("width of a head's values; d_e / H unless given", optional=True)

    special: SpecialTokens | None = departure(None, "the IDs of mask, bos and eos; the last three of the vocabulary unless given")
    eps: float = departure(1e-5, "ε of the norms; the paper has none", bounds="[0, 1000]")
    norm: str = departure("layer_norm", _choices(NORMS), NORMS)
    norm_first: bool = departure(False, "norms before the sub-layers (Algorithm 10) or after them (Algorithms 8, 9)")
    activation: str = departure("GELU", f"of the MLPs; {_choices(MLPS)}", MLPS)
    bias: str = departure("all", _choices(BIASES), BIASES)
    positions: str = departure("learned", _choices(POSITIONS), POSITIONS)
    d_rot: int | None = size(
        "how many components of a head's queries and keys turn with rotary positions; all of d_attn unless given", optional=True
    )
    rotary_base: float | None = departure(None, "base of the frequencies of rotary positions; 10000 unless given")
    rotary_scaling: tuple[float, ...] | None = departure(
        None, "rotary positions for longer texts: one number divides all frequencies; four are Llama 3's factor, low, high and first ℓ_max"
    )
    tied: bool = departure(False, "W_u = W_eᵀ, one matrix for embedding and unembedding")
    shared: int = departure(
        1, "how many consecutive layers share one set of parameters; all of them if no stack has more (ALBERT)", bounds=LAYERS
    )
    scaled: bool = departure(False, "token embeddings are √d_e W_e[:,v]")
    dropout: float = departure(
        0.0, "probability that training drops an element of the embeddings or of a sub-layer's output", bounds="[0, 1)"
    )
    attention_dropout: float = departure(0.0, "probability that training drops an attention weight", bounds="[0, 1)")
    label_smoothing: float = departure(0.0, "share of the training target that is spread over the whole vocabulary", bounds="[0, 1)")
    init_std: float | None = departure(
        None, "standard deviation of initial weights; 1/√d unless given, d the length of what W multiplies", bounds="(0, 1000]"
    )
    init_residual: bool = departure(False, "W_o and W_mlp2 start smaller by 1/√(number of sub-layers)")

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if (bounds := each.metadata.get("bounds")) and not (value is None and each.default is None):
                within(each.name, value, bounds, whole="int" in str(each.type))
            if choices := each.metadata.get("choices"):
                self.require(each.name, value in choices, " or ".join(choices))
        self.require("N_V", self.N_V >= 4, "at least 4, for mask, bos and eos and a token beside them")
        for symbol in PER_HEAD:
            if getattr(self, symbol) is None:
                self.require("H", self.d_e % self.H == 0, f"a divisor of d_e = {self.d_e}, since {symbol} is d_e / H unless given")
                object.__setattr__(self, symbol, self.d_e // self.H)
        if self.special is not None:
            inside = isinstance(self.special, SpecialTokens) and all(
                is_integer(token) and 0 <= token < self.N_V for token in (*self.special.present, *self.special.never)
            )
            self.require("special", inside, f"IDs from 0 to N_V−1 with N_V = {self.N_V}")
        for flag in ("norm_first", "tied", "scaled", "init_residual"):
            self.require(flag, isinstance(getattr(self, flag), bool), "True or False")
        sharing = f"1 with norm={self.norm}, whose running statistics are those of one layer"
        self.require("shared", self.shared == 1 or not NORMS[self.norm].running, sharing)
        self._check_positions()

    def _check_positions(self) -> None:
        self.require("positions", self.positions in self.position_schemes(), " or ".join(self.position_schemes()))
        for scheme in POSITIONS:
            for name in POSITIONS[scheme].fields:
                if not hasattr(self, name):
                    continue
                if scheme != self.positions:
                    expected = f"None with positions={self.positions}; it belongs to positions={scheme}"
                    self.require(name, getattr(self, name) is None, expected)
                elif getattr(self, name) is None:
                    object.__setattr__(self, name, POSITIONS[scheme].default(self, name))
        POSITIONS[self.positions].check(self)

    @classmethod
    def position_schemes(cls) -> tuple[str, ...]:
        """Those that this architecture can have."""
        return tuple(name for name, scheme in POSITIONS.items() if scheme.algorithms is None or cls.algorithm in scheme.algorithms)

    @property
    def special_tokens(self) -> SpecialTokens:
        return SpecialTokens.last(self.N_V) if self.special is None else self.special

    @property
    def heads(self) -> Heads:
        assert self.d_attn is not None and self.d_mid is not None
        return Heads(self.H, self.d_attn, self.d_mid, self.H, self.bias)

    @property
    def matrices(self) -> dict[str, dict[str, int]]:
        """The engine's matrices of a layer that are several of the paper's, above one another: their names without W, and rows."""
        return self.heads.matrices | MLPS[self.activation].matrices(self.d_mlp)

    @property
    def stacks(self) -> dict[str, int]:
        """The stacks of layers by name, and how many layers each has."""
        return {"layers": self.sizes()["L"]}

    def parameter_sets(self, stack: str) -> int:
        """How many sets of parameters the layers of a stack have."""
        return -(-self.stacks[stack] // self.shared)

    def parameter_set(self, l: int) -> int:
        """Which of them layer l has, both counted from 0."""
        return l // self.shared

    def sublayers(self, stack: str) -> int:
        """How many sub-layers add to the residual stream of a stack."""
        return 2 * self.stacks[stack]

    def mask(self, stack: str, l: int) -> Mask:
        """What the self-attention of layer l of a stack sees, layers counted from 0."""
        return Mask()

    def sizes(self) -> dict[str, int]:
        """The paper's sizes by their symbols."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.metadata.get("size")}

    def departures(self) -> dict[str, Value]:
        """The fields in which this is not the paper."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if not each.metadata.get("size")}
        scheme = POSITIONS[self.positions]
        usual = {name: scheme.default(self, name) for name in scheme.fields}  # what positions=… says already
        result: dict[str, Value] = {name: value for name, value in values.items() if value != usual.get(name, self.paper(name))}
        heads = self.heads
        if heads.H * heads.d_attn != self.d_e or heads.H * heads.d_mid != self.d_e:
            result |= {"d_attn": heads.d_attn, "d_mid": heads.d_mid}
        if self.d_rot != usual.get("d_rot"):
            result["d_rot"] = self.d_rot
        return result

    @classmethod
    def paper(cls, name: str) -> Value:
        """The paper's choice for a field."""
        default: Any = next(each.default for each in fields(cls) if each.name == name)
        value: Value = default
        return value

    @classmethod
    def doc(cls, name: str) -> str:
        """What a field means."""
        return str(next(each.metadata["doc"] for each in fields(cls) if each.name == name))

    def replace(self: AnyHyper, **changes: Value) -> AnyHyper:
        """The same with some fields changed; what was derived from d_e or H is derived again."""
        for changed in DERIVED_SIZES.keys() & changes.keys():
            for symbol in DERIVED_SIZES[changed]:
                derived = self.heads.d_attn // 2 * 2 if symbol == "d_rot" else self.d_e // self.H if symbol in PER_HEAD else self.d_e
                if getattr(self, symbol, None) == derived:
                    changes.setdefault(symbol, None)
        if changes.get("positions", self.positions) != self.positions:
            for symbol in POSITIONS[self.positions].fields:
                changes.setdefault(symbol, None)
        unknown = changes.keys() - {each.name for each in fields(self)}
        if unknown:
            raise ValueError(f"{min(unknown)}: Algorithm {self.algorithm} has no such hyperparameter{_close(min(unknown), self)}")
        return replace(self, **changes)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON has it; see `from_dict`."""
        return {"kind": type(self).__name__} | asdict(self)

    def require(self, name: str, holds: bool, expected: str) -> None:
        """A ValueError unless the field is what it has to be."""
        if not holds:
            raise ValueError(f"{name}: expected {expected}, got {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class DHyper(Hyper):
    """Algorithm 10, the decoder-only transformer: GPT-2, GPT-3, Gopher."""

    algorithm: ClassVar[int] = 10

    L: int = size("layers", bounds=LAYERS)
    d_r: int | None = size("length of a relative position's sinusoid; d_e unless given", optional=True)
    norm_first: bool = departure(True, "norms before the sub-layers, as in Algorithm 10, or after them, as in Algorithm 9")
    H_kv: int | None = departure(
        None, "heads of keys and values, which groups of the H heads share (grouped queries); H unless given", bounds=LAYERS
    )
    parallel: bool = departure(False, "attention and MLP of a layer read the same X, each through its own norm (GPT-NeoX)")
    qk_norm: bool = departure(False, "a norm of every head's queries and one of its keys (Qwen 3)")
    band: int | None = departure(
        None, "sliding window: some layers attend to the token and the band − 1 before it, see band_pattern", bounds=LENGTH
    )
    band_pattern: str = departure("01", "which layers have the band, repeated: 01 every second (GPT-3), 1 all (Mistral)")

    def __post_init__(self) -> None:
        divides = self.H_kv is None or (is_integer(self.H_kv) and self.H_kv >= 1 and is_integer(self.H) and self.H % self.H_kv == 0)
        self.require("H_kv", divides, f"a divisor of H = {self.H}, or None")
        if self.H_kv == self.H:
            object.__setattr__(self, "H_kv", None)
        pattern = isinstance(self.band_pattern, str) and self.band_pattern and not set(self.band_pattern) - {"0", "1"}
        self.require("band_pattern", bool(pattern), "a string of 0 and 1, such as 01")
        super().__post_init__()
        everywhere = self.band is None or "0" not in self.band_pattern
        self.require("shared", self.shared == 1 or everywhere, "1 with a band that is not in every layer")
        for flag in ("parallel", "qk_norm"):
            self.require(flag, isinstance(getattr(self, flag), bool), "True or False")
        self.require("parallel", self.norm_first or not self.parallel, "False with norm_first=False")
        self.require("qk_norm", not (self.qk_norm and NORMS[self.norm].running), f"False with norm={self.norm}")

    @property
    def heads(self) -> Heads:
        return replace(super().heads, H_kv=self.H_kv or self.H)

    def mask(self, stack: str, l: int) -> Mask:
        return Causal() if self.band is None or self.band_pattern[l % len(self.band_pattern)] == "0" else Band(self.band)


@dataclass(frozen=True, kw_only=True)
class GatoHyper(DHyper):
    """Gato: Algorithm 10 with an embedding for every modality. N_V counts text, the bins of values and the separator."""

    replaced: ClassVar[str] = "line 2, which embeds text, image patches, values and actions"

    N_loc: int = size("indices within a timestep that have an embedding", default=LOCAL)
    N_grid: int = size("rows of an image that have an embedding, and columns", default=GRID)
    C: int = size("channels of an image: 3 of a coloured one, 1 of a grey one", default=3)
    C_r: int = size("channels inside the ResNet block of image patches", default=32)
    G: int = size("groups of these channels that are normalized together", default=8)
    sigma: int = size("σ, the stride of the block's first convolution", default=4)
    init_smooth: float = departure(
        0.0, "over how many bins the initial embeddings of values are alike, in both directions; 0: none are", bounds=f"[0, {BINS}]"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("G", self.C_r % self.G == 0, f"a divisor of C_r = {self.C_r}")
        self.require("sigma", self.sigma in STRIDES, " or ".join(map(str, STRIDES)))

    @property
    def k_0(self) -> int:
        """Rows of a first kernel: neighbours overlap by 2."""
        return self.sigma + 2

    @property
    def k(self) -> int:
        """Rows of a later one."""
        return 3

    @property
    def d_Z(self) -> int:
        """How many numbers the block makes of a patch."""
        return self.C_r * (PATCH // self.sigma) ** 2


@dataclass(frozen=True, kw_only=True)
class EHyper(Hyper):
    """Algorithm 9, the encoder-only transformer: BERT."""

    algorithm: ClassVar[int] = 9

    L: int = size("layers", bounds=LAYERS)
    d_f: int | None = size("width of the final projection; d_e unless given", optional=True)
    segments: int = departure(0, "how many segments have an embedding W_s[:,s] of their own", bounds="[0, 1000000]")
    embedding_norm: bool = departure(False, "a norm of the embeddings")
    head: str = departure("projection", _choices(ENCODER_HEADS), ENCODER_HEADS)
    output_bias: bool = departure(False, "P = softmax(W_u X + b_u 1ᵀ)")
    mask_split: tuple[float, float, float] = departure(
        (1.0, 0.0, 0.0), "of the tokens to predict: masked, replaced by a random token, kept"
    )
    p_mask: float = departure(0.15, "probability that training masks a token", bounds="(0, 1)")

    def __post_init__(self) -> None:
        if self.d_f is None:
            object.__setattr__(self, "d_f", self.d_e)
        super().__post_init__()
        self.require("embedding_norm", isinstance(self.embedding_norm, bool), "True or False")
        self.require("output_bias", isinstance(self.output_bias, bool), "True or False")
        split = self.mask_split
        shares = isinstance(split, tuple) and len(split) == 3 and all(is_real(share) and share >= 0 for share in split)
        self.require("mask_split", shares and abs(sum(split) - 1) < 1e-9, "three shares that add up to 1")
        if not ENCODER_HEADS[self.head].projects:
            self.require("d_f", self.d_f == self.d_e, f"d_e = {self.d_e}, for head={self.head} has no W_f")
        if self.tied:
            self.require("d_f", self.d_f == self.d_e, f"d_e = {self.d_e}, for tied=True shares W_e with W_u")


@dataclass(frozen=True, kw_only=True)
class ClassifierHyper(EHyper):
    """Classification (§3) with the encoder of Algorithm 9."""

    N_C: int = size("classes", bounds=LENGTH)
    pooling: str = departure("bos", _choices(POOLINGS), POOLINGS)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tied", "output_bias"):
            self.require(name, not getattr(self, name), "False, for a classifier has no W_u")


@dataclass(frozen=True, kw_only=True)
class EDHyper(Hyper):
    """Algorithm 8, the encoder–decoder transformer of Vaswani et al."""

    algorithm: ClassVar[int] = 8

    L_enc: int = size("layers of the encoder", bounds=LAYERS)
    L_dec: int = size("layers of the decoder", bounds=LAYERS)
    activation: str = departure("ReLU", Hyper.doc("activation"), MLPS)
    output_bias: bool = departure(False, EHyper.doc("output_bias"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("output_bias", isinstance(self.output_bias, bool), "True or False")

    @property
    def stacks(self) -> dict[str, int]:
        return {"enc": self.L_enc, "dec": self.L_dec}

    def sublayers(self, stack: str) -> int:
        return {"enc": 2, "dec": 3}[stack] * self.stacks[stack]

    def mask(self, stack: str, l: int) -> Mask:
        return {"enc": Mask(), "dec": Causal()}[stack]


def from_dict(data: Mapping[str, Any]) -> DHyper | EHyper | EDHyper:
    """Hyperparameters from their `to_dict`."""
    kinds: dict[str, type[DHyper] | type[EHyper] | type[EDHyper]] = {
        kind.__name__: kind for kind in (DHyper, GatoHyper, EHyper, ClassifierHyper, EDHyper)
    }
    values = dict(data)
    kind = kinds.get(str(values.pop("kind", "")))
    if kind is None:
        raise ValueError(f"kind: expected {', '.join(kinds)}, got {shown(data.get('kind'))}")
    unknown = values.keys() - {each.name for each in fields(kind)}
    if unknown:
        raise ValueError(f"{shown(min(unknown))[1:-1]}: Algorithm {kind.algorithm} has no such hyperparameter")
    missing = [each.name for each in fields(kind) if each.default is MISSING and each.name not in values]
    if missing:
        raise ValueError(f"{missing[0]}: is missing")
    if isinstance(values.get("special"), dict):
        values["special"] = _special(values["special"])
    arguments: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return kind(**arguments)


def _special(data: Mapping[str, Any]) -> SpecialTokens:
    known, never = {each.name for each in fields(SpecialTokens)}, data.get("never", ())
    for name in data.keys() - known:
        raise ValueError(f"special: expected {', '.join(sorted(known))}, got {shown(name)} as well")
    for name in ("mask", "bos", "eos"):
        if name not in data:
            raise ValueError(f"special.{name}: is missing")
    if not isinstance(never, list | tuple) or not isinstance(data.get("context_bos", True), bool):
        raise ValueError("special: expected a list of IDs as never, and true or false as context_bos")
    return SpecialTokens(**{**data, "never": tuple(never)})


def _close(name: str, hyper: Hyper) -> str:
    close = get_close_matches(name, [each.name for each in fields(hyper)], n=1)
    return f"; did you mean {close[0]}?" if close else ""
