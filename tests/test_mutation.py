"""A mutant finds its place after any rename, move or reformatting, and says so where it cannot."""

from pathlib import Path

import pytest

from tests.mutation import DoesNotApply, Mutant
from tests.mutation.fragments import matches, rename, tokens
from tests.mutation.run import check
from tests.mutation.tree import Tree, find_test
from tests.test_mutants import MUTANTS

CACHE = '''
class Cache:
    """Keys and values; keys < queries."""

    def mask(self, queries, keys, w):
        seen = keys <= queries
        return seen & (keys > queries - w) & self.limit(seen, "W_k", w=w)

    def move(self, order):
        self.rows = [self.rows[row] for row in order]  # line 3: rows
'''
MASK = Mutant("mask", "keys > queries - w", "keys >= queries - w", "test_x", "model/cache.py")


def tree(folder: Path, **files: str) -> Tree:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return Tree(folder)


def outcome(mutant: Mutant, package: Tree) -> str:
    """The changed line, without its indentation."""
    change = mutant.change(package)
    return change.changed.splitlines()[change.place.file.line(change.place.match.start) - 1].strip()


def test_every_mutant_of_the_list_applies_and_its_tests_exist() -> None:
    wrong, _ = check(MUTANTS)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("where", "old", "new", "line"),
    [
        ("Cache", "keys <= queries", "keys < queries", "seen = keys < queries"),
        ("Cache.mask", " & (keys > queries - w)", "", 'return seen  & self.limit(seen, "W_k", w=w)'),
        ("mask", '"W_k", w=w)', '"", w=1)', 'return seen & (keys > queries - w) & self.limit(seen, "", w=1)'),
        ("mask", "limit(", "mask(", 'return seen & (keys > queries - w) & self.mask(seen, "W_k", w=w)'),
        (
            "move",
            "for row in order]",
            "for row in reversed(order)]",
            "self.rows = [self.rows[row] for row in reversed(order)]  # line 3: rows",
        ),
        ("move", "# line 3", "# line 4", "self.rows = [self.rows[row] for row in order]  # line 4: rows"),
    ],
)
def test_fragments_need_not_be_complete(tmp_path: Path, where: str, old: str, new: str, line: str) -> None:
    mutant = Mutant(where, old, new, "test_x")
    package = tree(tmp_path, cache=CACHE)
    assert outcome(mutant, package) == line
    assert not mutant.change(package).note


def test_locals_may_be_renamed(tmp_path: Path) -> None:
    package = tree(tmp_path, model__cache=CACHE.replace("keys", "k").replace("queries", "positions"))
    assert outcome(MASK, package) == 'return seen & (k >= positions - w) & self.limit(seen, "W_k", w=w)'
    assert MASK.change(package).note == "keys → k, queries → positions"


def test_attributes_and_strings_may_be_renamed(tmp_path: Path) -> None:
    package = tree(tmp_path, cache=CACHE.replace("limit", "bound").replace("W_k", "key"))
    mutant = Mutant("mask", 'self.limit(seen, "W_k", w=w)', 'self.limit(seen, "W_k")', "test_x")
    assert outcome(mutant, package) == 'return seen & (keys > queries - w) & self.bound(seen, "key")'


def test_a_local_may_be_renamed_where_a_keyword_argument_of_its_name_is_not(tmp_path: Path) -> None:
    package = tree(tmp_path, cache=CACHE.replace("w=w", "w=band").replace("queries - w", "queries - band").replace(", w)", ", band)"))
    mutant = Mutant("mask", "w=w", "w=w + 1", "test_x")
    assert outcome(mutant, package).endswith('"W_k", w=band + 1)')


def test_the_file_and_the_definition_may_move(tmp_path: Path) -> None:
    function = "def mask(keys, queries, w):\n    return keys > queries - w\n"
    assert outcome(MASK, tree(tmp_path, runs__rows=function)) == "return keys >= queries - w"


@pytest.mark.parametrize("name", ["_mask", "key_mask", "visible"])
def test_the_definition_may_be_renamed(tmp_path: Path, name: str) -> None:
    package = tree(tmp_path, cache=CACHE.replace("def mask", f"def {name}"), other="def other(a, b):\n    return a > b - 1\n")
    assert outcome(MASK, package).startswith("return seen & (keys >= queries - w)")


def test_of_two_places_the_one_with_the_more_similar_name_is_the_renamed_one(tmp_path: Path) -> None:
    package = tree(tmp_path, a=CACHE.replace("def mask", "def sparse"), b=CACHE.replace("def mask", "def masks"))
    assert MASK.change(package).place.file.name == "b.py"


def test_the_layout_does_not_matter(tmp_path: Path) -> None:
    package = tree(
        tmp_path, cache=CACHE.replace('seen, "W_k", w=w', "\n            seen,  # which\n            'W_k',\n            w=w,\n        ")
    )
    mutant = Mutant("mask", 'self.limit(seen, "W_k", w=w)', "seen", "test_x")
    assert outcome(mutant, package) == "return seen & (keys > queries - w) & seen"


def test_the_first_of_equal_places_in_one_definition_is_meant(tmp_path: Path) -> None:
    mutant = Mutant("mask", "seen", "keys", "test_x")
    assert outcome(mutant, tree(tmp_path, cache=CACHE)) == "keys = keys <= queries"


def test_the_hint_decides_between_equal_places(tmp_path: Path) -> None:
    assert MASK.change(tree(tmp_path, formal__cache=CACHE, model__cache=CACHE)).place.file.name == "model/cache.py"
    (tmp_path / "model/cache.py").rename(tmp_path / "model/rows.py")
    (tmp_path / "formal/cache.py").rename(tmp_path / "formal/rows.py")
    assert MASK.change(Tree(tmp_path)).place.file.name == "model/rows.py"


def test_two_equal_places_are_an_error_that_names_both(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApply, match=r"2 places\n *a.py:7 .*\n *b.py:7 "):
        MASK.change(tree(tmp_path, a=CACHE, b=CACHE))
    renamed = "def f(a, b):\n    return a > 1 and b > 1\n"
    with pytest.raises(DoesNotApply, match=r"2 places\n *c.py:2 f: a > 1\n *c.py:2 f: b > 1"):
        Mutant("f", "x > 1", "x > 2", "test_x").change(tree(tmp_path, c=renamed))


def test_a_removed_place_is_an_error_that_shows_the_closest_line(tmp_path: Path) -> None:
    package = tree(tmp_path, cache=CACHE.replace("keys > queries - w", "keys > queries"), other="def other(a, b):\n    return a > b - 1\n")
    with pytest.raises(DoesNotApply, match=r"nowhere\n *close: cache.py:7: return seen & \(keys > queries\)"):
        MASK.change(package)
    with pytest.raises(DoesNotApply, match=r"nothing is called limit \(close: none\)"):
        Mutant("limit", "a * b", "a", "test_x").change(package)


def test_a_name_that_is_still_in_use_was_not_renamed(tmp_path: Path) -> None:
    text = "def f(q, u, w):\n    return q + w, u\n"
    with pytest.raises(DoesNotApply, match="nowhere"):
        Mutant("f", "q + u", "q", "test_x").change(tree(tmp_path, a=text))


def test_an_attribute_that_is_still_in_use_was_not_renamed(tmp_path: Path) -> None:
    package = tree(tmp_path, a="def g(theta):\n    return 1 + theta.b_f[:, None]\n", b="def h(theta):\n    return theta.b_u\n")
    with pytest.raises(DoesNotApply, match="nowhere"):
        Mutant("f", "1 + theta.b_u[:, None]", "1", "test_x").change(package)


def test_two_names_do_not_become_one(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApply, match="nowhere"):
        Mutant("f", "a + b", "a", "test_x").change(tree(tmp_path, a="def f(x):\n    return x + x\n"))


@pytest.mark.parametrize("new", ["keys > lost", "keys.lost_attribute > queries"])
def test_names_that_nothing_defines_are_an_error(tmp_path: Path, new: str) -> None:
    with pytest.raises(DoesNotApply, match="nothing is called lost"):
        Mutant("mask", "keys > queries", new, "test_x").change(tree(tmp_path, cache=CACHE))


def test_what_is_no_python_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApply, match="gives no Python"):
        Mutant("mask", "keys > queries", "keys > )", "test_x").change(tree(tmp_path, cache=CACHE))


@pytest.mark.parametrize("mutant", MUTANTS[::5], ids=lambda mutant: mutant.key)
def test_a_renamed_fragment_of_the_list_is_found_again(mutant: Mutant) -> None:
    identifiers = {token.identifier for token in tokens(mutant.old) if token.identifier}
    renaming = {(kind, text): f"new_{text}" for kind, text in identifiers}
    (match,) = matches(mutant.old, tokens(rename(mutant.old, renaming)))
    assert match.renaming == renaming


def test_tests_are_found_by_name(tmp_path: Path) -> None:
    one, two = "def test_one():\n    pass\n", "def test_two(x):\n    pass\n\n\nclass TestA:\n    def test_in_class(self):\n        pass\n"
    tests = tree(tmp_path, model__test_a=one + two, cpu__test_b=one)
    assert find_test("test_two[1-x::y]", tests) == "model/test_a.py::test_two[1-x::y]"
    assert find_test("model/test_a.py::test_one", tests) == "model/test_a.py::test_one"
    assert find_test("gone/test_b.py::test_one", tests) == "cpu/test_b.py::test_one"
    assert find_test("test_in_class", tests) == "model/test_a.py::TestA::test_in_class"
    assert find_test("gone/test_b.py", tests) == "cpu/test_b.py"
    with pytest.raises(LookupError, match=r"several tests are called test_one: cpu/test_b.py::test_one, model/test_a.py::test_one"):
        find_test("test_one", tests)
    with pytest.raises(LookupError, match="no test is called test_tow; close: test_two"):
        find_test("model/test_a.py::test_tow", tests)
