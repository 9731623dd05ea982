"""Cleaning (§8): texts in one form; duplicates, texts too short or too long, and texts that a language model finds improbable left out.

All that memory has of a record are numbers: a hash, a signature, a loss. The data is read twice, to decide and to write.
"""

import gzip
import html
import json
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from math import exp
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from transalg.atomic import atomic_path
from transalg.checks import integer, real
from transalg.data.duplicates import K, ShingleKind, near_duplicates, shingles, signature
from transalg.data.files import Progress, no_progress
from transalg.data.rewriting import Breaks, Form, Item

UnicodeForm = Literal["NFC", "NFKC", "none"]
WhiteSpace = Literal["collapse", "trim", "keep"]
Losses = Callable[[Sequence[str]], list[float]]  # of a language model: nats per token of each text
BATCH = 256  # texts that are scored at once

CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200b\ufeff]")  # and spaces of no width
LINE_END = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
SPACES = re.compile(r"[^\S\n]+")
AROUND_LINE_END = re.compile(r"[^\S\n]*\n[^\S\n]*")
BEFORE_LINE_END = re.compile(r"[^\S\n]+(?=\n)")
BLANK_LINES = re.compile(r"\n{3,}")
EMPTY_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a text becomes, and which rows stay. None: no such rule."""

    unicode: UnicodeForm = "NFC"
    white_space: WhiteSpace = "collapse"
    unescape: bool = False  # HTML's entities become characters
    min_chars: int | None = None
    max_chars: int | None = None
    min_words: int | None = None
    max_words: int | None = None
    max_ratio: float | None = None  # of the characters of a pair's texts
    keep_duplicates: bool = False
    drop_contradictions: bool = False  # the first of texts with contradicting labels goes too
    near: float | None = None
    shingles: ShingleKind = "characters"
    shingle_size: int = 5
    max_perplexity: float | None = None
    keep: float | None = None

    def __post_init__(self) -> None:
        for name in ("min_chars", "max_chars", "min_words", "max_words"):
            if getattr(self, name) is not None:
                integer(_option(name), getattr(self, name), 1)
        for name in ("chars", "words"):
            least, most = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
            if least is not None and most is not None and least > most:
                raise ValueError(f"--max-{name}: expected at least --min-{name}, {least}, got {most}")
        for name, interval in (("max_ratio", "[1, ∞)"), ("near", "(0, 1]"), ("max_perplexity", "(1, ∞)"), ("keep", "(0, 1]")):
            if getattr(self, name) is not None:
                real(_option(name), getattr(self, name), interval)
        integer(_option("shingle_size"), self.shingle_size, 1)
        if self.keep_duplicates and self.drop_contradictions:
            raise ValueError(
                "--drop-contradictions: expected no --keep-duplicates, for contradictions are found among duplicates, got both"
            )

    @property
    def scored(self) -> bool:
        """Whether a rule needs a language model."""
        return self.max_perplexity is not None or self.keep is not None


REASONS = {
    "empty": "empty",
    "min_chars": "too few characters",
    "max_chars": "too many characters",
    "min_words": "too few words",
    "max_words": "too many words",
    "max_ratio": "texts of a pair too unequal",
    "duplicate": "duplicate",
    "contradiction": "duplicate with another label",
    "near": "near-duplicate",
    "max_perplexity": "perplexity too high",
    "keep": "loss not among the lowest",
}
NAMES = tuple(REASONS)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# Texts -----------------------------------------------------------------------------------------------------------------


def normalise(text: str, rules: Rules, breaks: Breaks = "all") -> str:
    """A text in one form: Unicode, control characters, line ends, white space; repeated until nothing changes, so that twice is as once.

    >>> normalise("  Ångstro\\u0308m,\\x00 \\t twice\\r\\n", Rules())
    'Ångström, twice'
    """
    while (changed := _once(text, rules, breaks)) != text:
        text = changed
    return text


def _once(text: str, rules: Rules, breaks: Breaks) -> str:
    if rules.unescape:
        text = html.unescape(text)
    if rules.unicode != "none":
        text = unicodedata.normalize(rules.unicode, text)
    text = CONTROL.sub("", LINE_END.sub("\n", text))
    if rules.white_space == "collapse":
        text = BLANK_LINES.sub("\n\n", AROUND_LINE_END.sub("\n", SPACES.sub(" ", text))).strip()
    elif rules.white_space == "trim":
        text = BEFORE_LINE_END.sub("", text).strip("\n").rstrip()
    if breaks == "none":
        return text.replace("\n", " ").replace("\t", " ")
    return EMPTY_LINES.sub("\n", text).strip("\n") if breaks == "lines" else text


def misfit(texts: Sequence[str], rules: Rules) -> str | None:
    """The first rule that forbids a record by the length of its texts."""
    characters, words = [len(text) for text in texts], [len(text.split()) for text in texts]
    if not min(words):
        return "empty"
    for name, forbidden in (
        ("min_chars", rules.min_chars is not None and min(characters) < rules.min_chars),
        ("max_chars", rules.max_chars is not None and max(characters) > rules.max_chars),
        ("min_words", rules.min_words is not None and min(words) < rules.min_words),
        ("max_words", rules.max_words is not None and max(words) > rules.max_words),
        ("max_ratio", rules.max_ratio is not None and max(characters) > rules.max_ratio * min(characters)),
    ):
        if forbidden:
            return name
    return None


# Decisions -------------------------------------------------------------------------------------------------------------


@dataclass
class Decisions:
    """What becomes of every row."""

    reason: NDArray[np.int8]  # its place in NAMES; −1 for a row that stays
    of: NDArray[np.int64]  # the row that it repeats; −1
    loss: NDArray[np.float64]  # nats per token; NaN where no model scored it
    contradictions: list[tuple[int, int]] = field(default_factory=list)  # a row, and the first one with its text but another label


class _Columns:
    """The numbers of the rows, as they come."""

    def __init__(self) -> None:
        self.reason, self.of, self.loss = array("b"), array("q"), array("d")
        self.rows = array("q")  # those that no rule has removed, with the class and the signature of each
        self.classes, self.signatures = array("q"), bytearray()

    def add(self, reason: str | None, of: int = -1) -> int:
        self.reason.append(-1 if reason is None else NAMES.index(reason))
        self.of.append(of)
        self.loss.append(float("nan"))
        return len(self.reason) - 1


def decide(records: Iterable[tuple[tuple[str, ...], str | None]], rules: Rules, losses: Losses | None = None) -> Decisions:
    """Which rows stay, of records whose texts are normalised. Rules apply in the order of NAMES; of rows that repeat each other the first stays.

    Labelled texts that are equal are duplicates, whatever their labels are; near-duplicates have the same label.
    """
    columns = _Columns()
    first = dict[bytes, int]()
    classes = dict[str | None, int]()
    label_of = array("q")
    contradictions = list[tuple[int, int]]()
    waiting = list[tuple[int, tuple[str, ...]]]()
    for texts, label in records:
        row = len(columns.reason)
        label_of.append(classes.setdefault(label, len(classes)))
        if reason := misfit(texts, rules):
            columns.add(reason)
            continue
        if not rules.keep_duplicates:
            earlier = first.setdefault(blake2b("\0".join(texts).encode(), digest_size=16).digest(), row)
            if earlier != row:
                if label_of[earlier] != label_of[row]:
                    contradictions.append((row, earlier))
                columns.add("duplicate" if label_of[earlier] == label_of[row] else "contradiction", earlier)
                continue
        columns.add(None)
        columns.rows.append(row)
        if rules.near is not None:
            hashes = [shingles(text, rules.shingle_size, rules.shingles) for text in texts]
            columns.signatures += signature(np.concatenate([each + np.uint64(i) for i, each in enumerate(hashes)])).tobytes()
        if losses is not None:
            waiting.append((row, texts))
            if len(waiting) >= BATCH:
                _score(columns, waiting, losses)
    if losses is not None:
        _score(columns, waiting, losses)
    decisions = Decisions(
        np.array(columns.reason, np.int8), np.array(columns.of, np.int64), np.array(columns.loss, np.float64), contradictions
    )
    if rules.drop_contradictions:
        for row, earlier in contradictions:
            if decisions.reason[earlier] < 0:
                decisions.reason[earlier], decisions.of[earlier] = NAMES.index("contradiction"), row
    rows = np.array(columns.rows, np.int64)
    if rules.near is not None and len(rows):
        signatures = np.frombuffer(columns.signatures, np.uint32).reshape(len(rows), K)
        stay = decisions.reason[rows] < 0
        rows, labels = rows[stay], np.array(label_of, np.int64)[rows[stay]]
        of = near_duplicates(signatures[stay], rules.near, labels)
        decisions.reason[rows[of >= 0]] = NAMES.index("near")
        decisions.of[rows[of >= 0]] = rows[of[of >= 0]]
    _by_loss(decisions, rules)
    return decisions


def _score(columns: _Columns, waiting: list[tuple[int, tuple[str, ...]]], losses: Losses) -> None:
    if waiting:
        for (row, _), loss in zip(waiting, losses(["\n".join(texts) for _, texts in waiting]), strict=True):
            columns.loss[row] = loss
        waiting.clear()


def _by_loss(decisions: Decisions, rules: Rules) -> None:
    """The rules about a language model's loss, for the rows that stay up to here."""
    if rules.max_perplexity is not None:
        above = (decisions.reason < 0) & (decisions.loss > np.log(rules.max_perplexity))
        decisions.reason[above] = NAMES.index("max_perplexity")
    if rules.keep is not None:
        rows = np.flatnonzero(decisions.reason < 0)
        order = rows[np.argsort(decisions.loss[rows], kind="stable")]
        decisions.reason[order[max(1, round(rules.keep * len(rows))) :]] = NAMES.index("keep")


# Files -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """A row that a rule removed."""

    row: int  # from 1
    where: str
    text: str
    of: int | None = None  # the row that it repeats, from 1
    perplexity: float | None = None


@dataclass(frozen=True)
class Report:
    """What cleaning did."""

    rows: int
    left: int
    changed: int  # rows that stay, with a text that normalisation changed
    removed: dict[str, int]  # rows, by rule
    examples: dict[str, Example]  # one for each rule
    contradictions: int  # rows whose text has another label in an earlier row


def clean(
    form: Form, rules: Rules, out: Path, removed: Path | None = None, losses: Losses | None = None, progress: Progress = no_progress
) -> Report:
    """Write the rows that stay, in their order, to `out`; and those that do not to `removed`, as JSON lines with the reason."""

    def normalised(item: Item) -> tuple[str, ...]:
        return tuple(normalise(text, rules, form.breaks) for text in item.texts)

    decisions = decide(((normalised(item), item.label) for item in form.items(progress)), rules, losses)
    counts = Counter(NAMES[reason] for reason in decisions.reason.tolist() if reason >= 0)
    rows, left = len(decisions.reason), len(decisions.reason) - counts.total()
    if not left:
        by_rule = ", ".join(f"{counts[name]:,} {REASONS[name]}" for name in NAMES if counts[name])
        raise ValueError(f"{form.path}: no row would stay ({by_rule or 'there are none'}); nothing is written")
    examples, changed, written = dict[str, Example](), 0, 0
    with ExitStack() as stack:
        target = stack.enter_context(_output(out))
        others = None if removed is None else stack.enter_context(_output(removed))
        target.write(form.head())
        for row, item in enumerate(_same(form, form.items(progress), rows)):
            reason, texts = int(decisions.reason[row]), normalised(item)
            if reason < 0:
                target.write((form.between if written else "") + form.written(item, texts))
                written += 1
                changed += texts != item.texts
                continue
            of, loss = int(decisions.of[row]), float(decisions.loss[row])
            perplexity = None if np.isnan(loss) else exp(min(700.0, loss))
            example = Example(row + 1, item.where, " | ".join(texts), None if of < 0 else of + 1, perplexity)
            examples.setdefault(NAMES[reason], example)
            if others is not None:
                others.write(_removed_line(NAMES[reason], example, item))
    by_rule = {name: counts[name] for name in NAMES if counts[name]}
    return Report(rows, left, changed, by_rule, examples, len(decisions.contradictions))


def _same(form: Form, items: Iterator[Item], rows: int) -> Iterator[Item]:
    """The items of the second reading; an error if there are more or fewer than in the first."""
    count = 0
    for count, item in enumerate(items, 1):
        if count > rows:
            break
        yield item
    if count != rows:
        raise ValueError(f"{form.path}: changed while it was read; nothing is written")


def _removed_line(reason: str, example: Example, item: Item) -> str:
    values: dict[str, Any] = {"reason": reason, "row": example.row, "where": example.where}
    values |= {"of": example.of} if example.of is not None else {}
    values |= {"perplexity": example.perplexity} if example.perplexity is not None else {}
    values |= {"texts": item.texts} if len(item.texts) > 1 else {"text": item.texts[0]}
    values |= {"label": item.label} if item.label is not None else {}
    return json.dumps(values, ensure_ascii=False) + "\n"


@contextmanager
def _output(path: Path) -> Iterator[IO[str]]:
    """A file that is written atomically, compressed if its name says so."""
    with atomic_path(path) as temporary:
        if path.suffix.lower() == ".gz":
            with gzip.open(temporary, "wt", encoding="utf-8", newline="\n") as file:
                yield file
        else:
            with open(temporary, "w", encoding="utf-8", newline="\n") as file:
                yield file
