"""Where the definitions, the names and the tests of a source tree stand."""

import ast
import difflib
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.mutation.fragments import Token, tokens

NAME_OF_TEST = re.compile(r"([\w/]+\.py)?(?:(?:^|::)(?:\w+::)?(test\w*)(\[.*\])?)?")


@dataclass(frozen=True)
class Definition:
    """A function, a class or a constant: the lines of a file from `start` to `end`, in characters."""

    file: "File"
    name: str  # with dots between the definitions around it: `Cache.move`
    start: int
    end: int
    function: bool

    @property
    def tokens(self) -> list[Token]:
        return self.file.between(self.start, self.end)

    def is_called(self, name: str, private: bool = False) -> bool:
        """Whether the last parts of the full name are `name`; `private` ignores underscores in front of a part."""
        parts, last = self.name.split("."), name.split(".")
        if private:
            parts, last = [part.lstrip("_") for part in parts], [part.lstrip("_") for part in last]
        return parts[-len(last) :] == last


@dataclass(frozen=True, eq=False)
class File:
    path: Path
    name: str  # from the root of the tree

    start = 0

    @property
    def end(self) -> int:
        return len(self.text)

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tokens(self) -> list[Token]:
        return tokens(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def between(self, start: int, end: int) -> list[Token]:
        return self.tokens[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def line(self, place: int) -> int:
        return bisect_right(self.lines, place)

    @cached_property
    def lines(self) -> list[int]:
        """Where each line starts, and where the text ends."""
        starts = [0]
        for line in self.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    @cached_property
    def words(self) -> list[Counter[str]]:
        """The tokens of each line."""
        words: list[Counter[str]] = [Counter() for _ in self.lines]
        for token in self.tokens:
            words[self.line(token.start) - 1][token.text] += 1
        return words

    @cached_property
    def definitions(self) -> list[Definition]:
        return list(self._within(ast.parse(self.text), ()))

    def _within(self, node: ast.AST, around: tuple[str, ...]) -> Iterator[Definition]:
        for child in ast.iter_child_nodes(node):
            names: list[str] = []
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = [child.name]
            elif isinstance(child, ast.Assign | ast.AnnAssign) and isinstance(node, ast.Module | ast.ClassDef):
                targets = child.targets if isinstance(child, ast.Assign) else [child.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            for name in names:
                yield self._definition(child, ".".join((*around, name)), function)
            yield from self._within(child, (*around, *names))

    def _definition(self, node: ast.AST, name: str, function: bool) -> Definition:
        assert isinstance(node, ast.stmt) and node.end_lineno is not None
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        last = node.end_lineno
        lines = self.text.splitlines()
        while last < len(lines) and lines[last].lstrip().startswith("#") and lines[last].startswith(" " * (node.col_offset + 1)):
            last += 1  # a comment may close a body
        return Definition(self, name, self.lines[first - 1], self.lines[last], function)

    def innermost(self, start: int, end: int, function: bool = False) -> Definition | None:
        """The smallest definition (or function) around a place."""
        around = [one for one in self.definitions if one.start <= start and end <= one.end and (one.function or not function)]
        return min(around, key=lambda one: one.end - one.start, default=None)

    def uses(self, identifiers: Iterable[tuple[str, str]], start: int, end: int) -> bool:
        """Whether the function around a place (else the definition, else the file) has any of these identifiers."""
        scope = self.innermost(start, end, function=True) or self.innermost(start, end) or self
        return not {token.identifier for token in scope.tokens}.isdisjoint(identifiers)


class Tree:
    """The Python files under a folder."""

    def __init__(self, root: Path, pattern: str = "*.py") -> None:
        self.root = root
        self.files = [File(path, path.relative_to(root).as_posix()) for path in sorted(root.rglob(pattern))]

    @cached_property
    def definitions(self) -> list[Definition]:
        return [definition for file in self.files for definition in file.definitions]

    @cached_property
    def identifiers(self) -> set[tuple[str, str]]:
        return {token.identifier for file in self.files for token in file.tokens if token.identifier}

    def called(self, name: str) -> list[Definition]:
        """The definitions of that name; if there are none, those that differ by underscores in front."""
        exactly = [one for one in self.definitions if one.is_called(name)]
        return exactly or [one for one in self.definitions if one.is_called(name, private=True)]

    def close_names(self, name: str) -> list[str]:
        return difflib.get_close_matches(name, {one.name.split(".")[-1] for one in self.definitions}, n=3)


def missing_parts(hint: str, path: str) -> int:
    """How many parts of one path another lacks: 0 if the hint still holds, more the further the file moved."""
    return len(set(filter(None, hint.split("/"))) - set(path.split("/")))


def find_test(name: str, tests: Tree) -> str:
    """A test's name as pytest wants it, for `file.py::test[id]`, `test[id]` or `file.py`, wherever its file is today."""
    path, bare, parameters = NAME_OF_TEST.fullmatch(name).groups("")  # type: ignore[union-attr]
    if bare:
        functions = [one for one in tests.definitions if one.function and one.name.split(".")[-1] == bare]
        places = [f"{one.file.name}::{one.name.replace('.', '::')}" for one in functions]
    else:
        places = [file.name for file in tests.files if Path(file.name).name == Path(path).name]
    lacking = [missing_parts(path, place.split("::")[0]) for place in places]
    places = [place for place, count in zip(places, lacking, strict=True) if count == min(lacking)]
    if not places:
        raise LookupError(f"no test is called {bare or path}; close: {', '.join(tests.close_names(bare or path)) or 'none'}")
    if len(places) > 1:
        raise LookupError(f"several tests are called {bare or path}: {', '.join(places)}")
    return places[0] + parameters
