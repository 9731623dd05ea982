"""The figures of predicted texts, each against one reference or several: exact match, token error rate, BLEU."""

from collections.abc import Sequence

Tokens = Sequence[int]


def exact_match(predictions: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """How many predictions are one of their references, as a share."""
    return sum(list(ours) in [list(one) for one in theirs] for ours, theirs in zip(predictions, references, strict=True)) / len(predictions)


def token_error_rate(predictions: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """Edits per token of the reference; of several references the one that gives the smallest rate."""
    wrong = length = 0
    for ours, theirs in zip(predictions, references, strict=True):
        counts = [(edits(ours, one), len(one)) for one in theirs]
        fewest, tokens = min(counts, key=lambda count: (count[0] / max(1, count[1]), count[0]))
        wrong, length = wrong + fewest, length + tokens
    return wrong / max(1, length)


def bleu(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """BLEU as sacrebleu counts it, with as many references for each text as there are."""
    import sacrebleu

    most = max(len(theirs) for theirs in references)
    columns = [[theirs[i] if i < len(theirs) else None for theirs in references] for i in range(most)]
    return float(sacrebleu.corpus_bleu(list(predictions), columns, force=True).score)  # type: ignore[arg-type]  # None: it has no more


def edits(one: Tokens, other: Tokens) -> int:
    """Levenshtein's distance: the least number of insertions, deletions and replacements that turn one into the other."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        corner, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (left != right))
    return row[-1]
