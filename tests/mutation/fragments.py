"""Finds a fragment of Python in a source, up to its layout and a consistent renaming of identifiers.

A fragment need not be complete: `< int(model.hyper.N_V)` and `for one in of])` are fragments. So both sides are compared
token by token. Identifiers are names, attributes, keyword arguments and the words in strings: one text may be renamed
in one of these roles and stay in another, as `generator` does when `generator=generator` becomes `generator=rng`.
"""

import builtins
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# What no change of the package can rename.
FIXED = {*keyword.kwlist, *dir(builtins), "self", "cls", "torch", "F", "math"}
IDENTIFIERS = {"name", "attribute", "keyword", "word"}
LAYOUT = set("()[]{},.:=")  # says too little to recognise a fragment by
LEXEMES = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<string>(?i:\b[rbfu]{1,2})?(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<number>\d[\d_]*(?:\.[\d_]*)?(?:e[+-]?\d+)?)
    |(?P<name>[^\W\d]\w*)
    |(?P<newline>\n)
    |(?P<operator>\*\*=|//=|\.\.\.|->|:=|[=!<>+\-*/%@&|^]=|\*\*|//|\S)""",
    re.VERBOSE | re.DOTALL,
)
QUOTED = re.compile(r"(?i:[rbfu]*)(\"{3}|'{3}|\"|')")
WORDS = re.compile(r"\w+|\S")


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int

    @property
    def identifier(self) -> tuple[str, str] | None:
        return (self.kind, self.text) if self.kind in IDENTIFIERS else None


Renaming = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Match:
    """The characters from `start` to `end` are the fragment, under a renaming of its identifiers."""

    start: int
    end: int
    renaming: Renaming
    unchanged: int  # tokens that tell one fragment from another and stand as they were
    text: tuple[str, ...]

    @property
    def renamed(self) -> Renaming:
        return {identifier: text for identifier, text in self.renaming.items() if identifier[1] != text}


def tokens(source: str) -> list[Token]:
    """All tokens but the line ends in brackets, and the commas in front of closing brackets: those are layout."""
    result: list[Token] = []
    depth = 0
    for lexeme in LEXEMES.finditer(source):
        kind, text, start = str(lexeme.lastgroup), lexeme.group(), lexeme.start()
        if kind == "newline":
            if depth > 0 or (result and result[-1].kind == "newline"):
                continue
        elif kind == "comment":
            result += [Token("comment", word.group(), start + word.start(), start + word.end()) for word in WORDS.finditer(text)]
            continue
        elif kind == "string":
            result += _string(text, start)
            continue
        elif kind == "name":
            kind = _role(result, text, source[lexeme.end() : lexeme.end() + 2])
        elif text in ("(", "[", "{"):
            depth += 1
        elif text in (")", "]", "}"):
            depth = max(0, depth - 1)
            if result and result[-1].text == ",":
                result.pop()
        result.append(Token(kind, text, start, lexeme.end()))
    return result


def _role(before: list[Token], name: str, after: str) -> str:
    if before and before[-1].text == ".":
        return "attribute"
    if re.fullmatch(r"=[^=]?", after) and name not in keyword.kwlist:
        return "keyword"  # the formatter puts spaces around every other equality sign
    return "fixed" if name in FIXED or name.startswith("__") else "name"


def _string(text: str, start: int) -> Iterator[Token]:
    opening = QUOTED.match(text)
    assert opening
    quote = opening.group(1)
    inner, end = opening.end(), len(text) - len(quote)
    yield Token("quote", opening.group().lower().replace("'", '"'), start, start + inner)
    for word in WORDS.finditer(text, inner, end):
        kind = "word" if word.group().isidentifier() else "operator"
        yield Token(kind, word.group(), start + word.start(), start + word.end())
    yield Token("quote", quote.replace("'", '"'), start + end, start + len(text))


def matches(fragment: str, source: list[Token]) -> Iterator[Match]:
    """Every place of `source` that is the fragment under some renaming; no two identifiers become one."""
    pattern = tokens(fragment)
    assert pattern, "the fragment has no tokens"
    if not any(token.kind == "comment" for token in pattern):
        source = [token for token in source if token.kind != "comment"]
    patterns = [pattern]
    if pattern[0].kind in ("name", "fixed"):
        patterns.append([pattern[0]._replace(kind="attribute"), *pattern[1:]])  # the dot may stand in front of the fragment
    codes: dict[str, str] = {}
    shape = _shape(source, codes)
    for pattern in patterns:
        start = -1
        while (start := shape.find(_shape(pattern, codes), start + 1)) >= 0:
            window = source[start : start + len(pattern)]
            renaming = _renaming(pattern, window)
            if renaming is not None:
                unchanged = sum(old.text == new.text and old.text not in LAYOUT for old, new in zip(pattern, window, strict=True))
                yield Match(window[0].start, window[-1].end, renaming, unchanged, tuple(token.text for token in window))


def _shape(source: list[Token], codes: dict[str, str]) -> str:
    """One character for each token, the same for all identifiers of one role: a search in it is fast."""
    return "".join([codes.setdefault(kind if kind in IDENTIFIERS else f"{kind} {text}", chr(len(codes))) for kind, text, *_ in source])


def _renaming(pattern: list[Token], window: list[Token]) -> Renaming | None:
    renaming: Renaming = {}
    for old, new in zip(pattern, window, strict=True):
        if old.identifier is not None and renaming.setdefault(old.identifier, new.text) != new.text:
            return None
    images = {(kind, text) for (kind, _), text in renaming.items()}
    return renaming if len(images) == len(renaming) else None


def rename(fragment: str, renaming: Renaming) -> str:
    """The fragment with the renaming applied; a role the renaming does not know follows the others if they agree."""
    result, end = [], 0
    for token in tokens(fragment):
        if token.identifier is not None:
            others = {text for (_, old), text in renaming.items() if old == token.text}
            others = others if len(others) == 1 else {token.text}
            result += [fragment[end : token.start], renaming.get(token.identifier, others.pop())]
            end = token.end
    return "".join(result) + fragment[end:]
