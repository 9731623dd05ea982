"""Where the paper slips or is silent, and what transalg does: the text of docs/errata.md, for the command line and the page. No torch.

`python -m transalg.trace.errata > docs/errata.md` writes the page anew.
"""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

from transalg.trace.source import Algorithm, Line

HEAD = """\
# Where the paper slips or is silent, and what transalg does

*Formal Algorithms for Transformers* (Phuong & Hutter, 2022) is precise enough to be run. Running it shows where its
text cannot be followed to the letter. Each entry is a decision of `transalg.formal`. Its test in
`tests/formal/test_errata.py` shows the literal text failing, where it says enough to be run, and the decision
working. A line of an algorithm that departs has the entry's number in its tag.
"""


@dataclass(frozen=True)
class Erratum:
    """One place of the paper."""

    number: int
    where: str
    paper: str  # what it says, or leaves open
    decision: str  # what transalg does
    test: str  # in tests/formal/test_errata.py
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # the lines concerned, by the name of the algorithm


ERRATA = (
    Erratum(
        1,
        "Algorithm 9",
        "W_u ∈ ℝ^{N_V×d_e}, but line 10 has left X with d_f rows.",
        "W_u ∈ ℝ^{N_V×d_f}.",
        "test_01_unembedding_of_the_encoder",
        {"ETransformer": (12,)},
    ),
    Erratum(
        2,
        "Algorithm 8, line 13",
        "the loop counts i, its body indexes l, which still holds the encoder's last layer.",
        "the loop counts l.",
        "test_02_decoder_loop_variable",
        {"EDTransformer": (13,)},
    ),
    Erratum(
        3,
        "Algorithm 6",
        "divides by √v, which is 0 for equal activations.",
        "√(v + ε); ε is the keyword `eps`, 1e-5 unless given, 0 allowed.",
        "test_03_layer_norm_of_equal_activations",
        {"layer_norm": (3,)},
    ),
    Erratum(
        4,
        "§5, sinusoids",
        "attributed to Vaswani et al., but with base ℓ_max for 10000, exponents from 2/d_e for 0, positions from 1 "
        "for 0; undefined for odd d_e.",
        "both formulas, `paper_sinusoids` and `sinusoids`; an odd d_e is refused.",
        "test_04_sinusoids",
        {},
    ),
    Erratum(
        5,
        "Algorithms 8–10",
        "self-attention is called without Z; d_attn and d_mid are no hyperparameters.",
        "Z is X; d_attn and d_mid are read off θ and are d_e/H unless given to `init`, where H must then divide d_e.",
        "test_05_self_attention_without_Z",
        {"EDTransformer": (5, 14), "ETransformer": (5,), "DTransformer": (6,)},
    ),
    Erratum(
        6,
        "Eq. (3), Algorithm 4, Appendix B",
        "Mask has rows for keys and columns for queries, the transpose of most code, which nothing tells apart when "
        "ℓ_z = ℓ_x; it is in {0,1} in one place and in ℝ in another.",
        "the paper's orientation, boolean; a Mask of transposed shape is refused, and so is, in self-attention, one "
        "in which tokens see only themselves and their future.",
        "test_06_mask_orientation",
        {"Attention": (5,)},
    ),
    Erratum(
        7,
        "Algorithm 4",
        "a query that may attend to nothing is 0/0.",
        "softmax of a column of −∞ is 0, and so is its gradient.",
        "test_07_fully_masked_column",
        {"Attention": (6,)},
    ),
    Erratum(
        8,
        "Algorithm 14",
        "runs past ℓ_max; an empty prompt reads column 0; does not stop at eos_token.",
        "a window of the last ℓ_max tokens, so that bos_token is in view only while they are fewer; the empty prompt "
        "is [bos_token]; `stop=` names a token to stop after.",
        "test_08_inference_beyond_its_bounds",
        {"DInference": (3, 4, 6)},
    ),
    Erratum(
        9,
        "Algorithms 14, 15",
        "τ ∈ (0,∞), while the text speaks of τ = 0 and τ = ∞.",
        "τ ∈ [0,∞]: the first most likely token, and the uniform distribution over V.",
        "test_09_limits_of_temperature",
        {"DInference": (5,), "EDInference": (6,)},
    ),
    Erratum(
        10,
        "Algorithm 15",
        "may never halt; y ← 0 is no token in V = {1, …, N_V}, but is one when counting from 0; encodes z again at every step.",
        "at most `ell_gen` tokens, ℓ_max unless given; y ← −1, which is the paper's 0 counted from 0 (y is compared "
        "with eos_token alone, so either would do); encoding once is left to the engine.",
        "test_10_seq2seq_inference_halts",
        {"EDInference": (2, 3)},
    ),
    Erratum(
        11,
        "Algorithms 11, 13",
        "P̂(x[1]) is never trained, though the chain rule of §3 needs it.",
        "holds because x[1] = bos_token; training refuses data without it, and so does the classifier, which reads its class there.",
        "test_11_first_token_is_bos",
        {"EDTraining": (5,), "DTraining": (5,)},
    ),
    Erratum(
        12,
        "Algorithm 12",
        "T̃ may be empty; bos_token and eos_token may be masked; a mask_token already in x counts as masked.",
        "an empty T̃ has loss 0; the special tokens, whatever their IDs, are never masked; mask_token in the data is refused.",
        "test_12_masking",
        {"ETraining": (5, 7, 9)},
    ),
    Erratum(
        13,
        "Algorithms 11–13",
        "the loss is a sum over t, so the step grows with length; the logarithm of a softmax is −∞ once it underflows.",
        "literal here: sums of log P; a θ that such a step has ruined is refused at the next one. Means per token and "
        "log-softmax are for an engine.",
        "test_13_loss_is_a_sum_of_logarithms",
        {"EDTraining": (5,), "ETraining": (9,), "DTraining": (5,)},
    ),
    Erratum(
        14,
        "§4",
        'words "plus punctuation" make 8 tokens of the example, the text counts 7; nothing is said of unknown words.',
        "punctuation apart, 8; an unknown-word element `<unk>` in word vocabularies only; characters that a "
        "vocabulary does not have are left out.",
        "test_14_words_of_the_example",
        {},
    ),
    Erratum(
        15,
        "§3",
        "classification is defined as a task, but no algorithm is given.",
        "`EClassifier`, `ECTraining`, `ECInference` in `formal/classification.py`: Algorithm 9 with its last line "
        "reading classes off the first token.",
        "test_15_classification",
        {},
    ),
    Erratum(
        16,
        "Text",
        '"token t ∈ V" in §5 is an index t ∈ [T]; d_value there is d_out; Algorithm 2\'s ℓ is a position; Algorithm '
        "3's d_in may be two, d_x and d_z; Algorithm 6's bold m is a number, and its d_e is d_f in Algorithm 9; P ∈ "
        "(0,1) is [0,1] in floating point; without positions a transformer is said to be permutation invariant.",
        "it is equivariant: permuting x permutes the columns of P.",
        "test_16_equivariant_not_invariant",
        {},
    ),
    Erratum(
        17,
        "Algorithms 8–10",
        "nothing says that attention must map d_e to d_e, but its output is added to X.",
        "θ refuses a layer in which d_x, d_z or d_out is not d_e; alone, Algorithms 4 and 5 take any.",
        "test_17_residual_stream",
        {"EDTransformer": (5, 14, 16), "ETransformer": (5,), "DTransformer": (6,)},
    ),
    Erratum(
        18,
        "Algorithm 3, eq. (2), Algorithms 14, 15",
        "exp overflows for scores beyond 709 in float64; p^{1/τ} underflows to 0/0 for small τ.",
        "softmax shifts each column by its maximum; q is computed from log p. Neither changes a value.",
        "test_18_overflow_and_underflow",
        {"single_query_attention": (4,), "Attention": (6,), "unembedding": (1,), "DInference": (5,), "EDInference": (6,)},
    ),
    Erratum(
        19,
        "Algorithms 11, 13",
        "the sum over t ∈ [ℓ−1] is empty for ℓ = 1.",
        "its loss is 0 and θ stays.",
        "test_19_a_sequence_of_one_token",
        {"EDTraining": (5,), "DTraining": (5,)},
    ),
    Erratum(
        20,
        "§6, GPT-3 and Gopher",
        '"replaces dense attention in line 6 by sparse attention" and "different positional embeddings" name no pattern, layer or formula.',
        '`sparse(w)`: a local band of w in every second layer (Brown et al. 2020 say "alternating"; that the first is '
        "dense is our choice); `Gopher`: Transformer-XL's (Dai et al. 2019), whose u and v are shared by all layers "
        "there and belong to each layer here.",
        "test_20_gpt3_and_gopher",
        {"DTransformer": (2, 6)},
    ),
    Erratum(
        21,
        "Algorithm 8",
        "one W_e and one W_p for z and x.",
        "as written: one vocabulary, and both sequences are at most ℓ_max long.",
        "test_21_one_embedding_for_both_sequences",
        {"EDTransformer": (2, 11)},
    ),
)


def errata_of(algorithm: Algorithm, line: Line) -> list[Erratum]:
    """The entries that concern a line."""
    return [erratum for erratum in ERRATA if line.number in erratum.lines.get(algorithm.name, ())]


def find_erratum(number: str) -> Erratum:
    for erratum in ERRATA:
        if str(erratum.number) == number.strip().lstrip("0"):
            return erratum
    raise ValueError(f"there is no erratum {number!r}: expected a number from 1 to {len(ERRATA)}")


def markdown() -> str:
    """docs/errata.md."""

    def item(name: str, text: str) -> str:
        rows = textwrap.wrap(f"- **{name}**: {text}", 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        return "\n".join(rows)

    parts = [
        "\n".join([f"## {e.number}. {e.where}\n", item("Paper", e.paper), item("transalg", e.decision), item("Test", f"`{e.test}`")])
        for e in ERRATA
    ]
    return "\n\n".join([HEAD.rstrip(), *parts]) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
