"""A mutant: one place of the package, found whatever it is called today, and what it becomes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from tests.mutation.fragments import Match, matches, rename, tokens
from tests.mutation.tree import Definition, File, Tree, missing_parts

ELSEWHERE = 2  # renamed identifiers that weigh as much as one part of `file` that is missing


class DoesNotApply(LookupError):
    """The package has no such place, or several."""


@dataclass(frozen=True)
class Place:
    """A match of a fragment, and where it stands."""

    file: File
    definition: Definition | None  # the one that was searched, or the innermost around the match
    match: Match
    cost: int

    def __str__(self) -> str:
        name = f" {self.definition.name}" if self.definition else ""
        return f"{self.file.name}:{self.file.line(self.match.start)}{name}: {self.text}"

    @property
    def text(self) -> str:
        return " ".join(self.file.text[self.match.start : self.match.end].split())


@dataclass(frozen=True)
class Change:
    """The file's text with `new` in one place."""

    place: Place
    new: str
    note: str  # how the place differs from what the mutant says; empty if it does not

    @property
    def changed(self) -> str:
        text = self.place.file.text
        return text[: self.place.match.start] + self.new + text[self.place.match.end :]


@dataclass(frozen=True)
class Mutant:
    """In the body of `where`, the first `old` becomes `new`; one of `tests` must then fail.

    `old` is found up to layout and a renaming of identifiers, which `new` then follows. If `where` has another name now,
    or `old` moved out of it, `old` is searched for in the whole package and must be in one place only: in one definition,
    or in one whose name looks the most like `where`.
    """

    where: str  # a function, class, method or constant: its name, or its last names with dots
    old: str
    new: str
    tests: str  # names of tests with spaces between: test[id] or file.py::test[id]
    file: str = ""  # parts of the path; a hint where several places match

    @property
    def key(self) -> str:
        """Names the mutant in reports, whatever the package calls things today."""
        return f"{self.file and self.file + ' '}{self.where}: {self.old} → {self.new}"

    def change(self, package: Tree) -> Change:
        definitions = package.called(self.where)
        places = [place for place in self._places(definitions) if _is_plausible(place.match)]
        note = ""
        if not places:
            places = [place for place in self._places(package.files) if _is_telling(place.match, package)]
            note = f"not in {self.where}" if definitions else f"nothing is called {self.where}"
        place = self._nearest(places, definitions, package)
        unknown = self._unknown(place, package)
        if unknown:
            raise DoesNotApply(f"{self.key}\n    at {place}: nothing is called {', '.join(sorted(unknown))}")
        if note:
            note += f", taken from {place.definition.name if place.definition else place.file.name}"
        renamed = ", ".join(f"{old} → {new}" for (_, old), new in place.match.renamed.items())
        change = Change(place, rename(self.new, place.match.renaming).strip(), "; ".join(filter(None, [note, renamed])))
        try:
            compile(change.changed, place.file.name, "exec")
        except SyntaxError as error:
            raise DoesNotApply(f"{self.key}\n    at {place}: gives no Python: {error}") from error
        return change

    def _places(self, searched: Sequence[Definition] | Sequence[File]) -> list[Place]:
        places: dict[tuple[str, int], Place] = {}
        added = _identifiers(self.new) - _identifiers(self.old)  # these keep their names: nothing else can have become them
        for part in searched:
            file = part.file if isinstance(part, Definition) else part
            for match in matches(self.old, part.tokens):
                images = {(kind, text) for (kind, _), text in match.renamed.items()}
                if (file.name, match.start) in places or not images.isdisjoint(added):
                    continue
                if file.uses(match.renamed, match.start, match.end):
                    continue  # a name still in use was not renamed
                definition = part if isinstance(part, Definition) else file.innermost(match.start, match.end)
                cost = len(match.renamed) + ELSEWHERE * missing_parts(self.file, file.name)
                places[file.name, match.start] = Place(file, definition, match, cost)
        return list(places.values())

    def _nearest(self, places: list[Place], definitions: list[Definition], package: Tree) -> Place:
        least = min((place.cost for place in places), default=0)
        nearest = [place for place in places if place.cost == least]
        if not nearest:
            lost = (
                "" if definitions else f"; nothing is called {self.where} (close: {', '.join(package.close_names(self.where)) or 'none'})"
            )
            close = (f"close: {line}" for line in self._close(definitions or package.files))
            raise DoesNotApply("\n    ".join([self.key, f"is nowhere{lost}", *close]))
        if not definitions:
            likeness = [_likeness(self.where, place) for place in nearest]
            nearest = [place for place, alike in zip(nearest, likeness, strict=True) if alike == max(likeness)]
        # Of one text in one definition the first is meant; in two definitions it is two places.
        if len({(place.file.name, place.definition, place.match.text) for place in nearest}) > 1:
            raise DoesNotApply("\n    ".join([self.key, f"is in {len(nearest)} places", *map(str, nearest[:6])]))
        return min(nearest, key=lambda place: place.match.start)

    def _close(self, searched: Sequence[Definition] | Sequence[File]) -> list[str]:
        """The lines that share the most tokens with `old`."""
        pattern = Counter(token.text for token in tokens(self.old))
        lines = set()
        for part in searched:
            file = part.file if isinstance(part, Definition) else part
            for line in range(file.line(part.start), file.line(part.end)):
                words = file.words[line - 1]
                shared = sum((pattern & words).values()) / pattern.total() - 0.01 * words.total()
                if shared > 0.2:
                    lines.add((shared, f"{file.name}:{line}: {file.text[file.lines[line - 1] : file.lines[line]].strip()}"))
        return [line for _, line in sorted(lines, reverse=True)[:3]]

    def _unknown(self, place: Place, package: Tree) -> set[str]:
        """Names that only `new` has and nothing defines: a mutant that fails by those proves nothing."""
        familiar = {token.text for token in tokens(self.old)}
        dot = "." if place.file.text[: place.match.start].endswith(".") else ""
        added = [token for token in tokens(dot + self.new.strip()) if token.text not in familiar]
        here = {token.text for token in place.file.tokens if token.kind in ("name", "keyword")}
        names = {token.text for token in added if token.kind == "name"} - here
        attributes = {token.text for token in added if token.kind == "attribute"} - {text for _, text in package.identifiers}
        return names | {name for name in attributes if not _is_torchs(name)}


def _identifiers(fragment: str) -> set[tuple[str, str]]:
    return {token.identifier for token in tokens(fragment) if token.identifier}


def _is_plausible(match: Match) -> bool:
    return len(match.renamed) <= 2 * match.unchanged


def _is_telling(match: Match, package: Tree) -> bool:
    """Whether a match may be trusted outside of the definition where the mutant expects it."""
    if any(kind != "name" and (kind, old) in package.identifiers for kind, old in match.renamed):
        return False  # an attribute that is still in use was not renamed
    return match.unchanged >= 2 and 3 * len(match.renamed) <= match.unchanged


def _likeness(where: str, place: Place) -> float:
    """From 0 to 1, how much a renamed definition's name looks like the old one; 0 also for what is hardly alike."""
    name = place.definition.name if place.definition else ""
    ratio = SequenceMatcher(None, where.split(".")[-1], name.split(".")[-1]).ratio()
    return ratio if ratio >= 0.6 else 0.0


def _is_torchs(name: str) -> bool:
    import torch

    return any(hasattr(module, name) for module in (torch, torch.Tensor, torch.nn, torch.nn.functional))
