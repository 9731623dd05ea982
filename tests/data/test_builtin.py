"""The built-in data: there is enough of it, it is the same each time, the answers are right and not in the questions."""

import re
import subprocess
import sys
import textwrap
from collections import Counter
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import pytest

from transalg.data import builtin
from transalg.data.builtin import NAMES, cut, dates, pydocs, stdlib

PACKAGES = {"asyncio", "ctypes", "email", "http", "importlib", "logging", "multiprocessing", "unittest", "urllib", "xml"}
COUNT = 5000


@pytest.fixture(scope="module")
def snippets() -> list[tuple[str, str]]:
    return list(stdlib())


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return list(dates(COUNT))


def test_the_reference_is_prose_topic_by_topic() -> None:
    documents = list(pydocs())
    assert len(documents) > 60 and sum(map(len, documents)) > 300_000
    assert all(document and document == document.rstrip() for document in documents)
    assert documents[0].startswith('The "assert" statement') and documents[-1].startswith('The "yield" statement')
    assert documents == list(pydocs())


def test_topics_come_in_the_order_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pydoc_data.topics.topics", {"b": "second \n\n", "a": " first\n"})
    assert list(pydocs()) == [" first", "second"]


def test_ten_packages_none_rare_none_above_the_cap(snippets: list[tuple[str, str]]) -> None:
    counts = Counter(label for _, label in snippets)
    assert set(counts) == PACKAGES
    assert max(counts.values()) == 400 and min(counts.values()) >= 100
    assert sum(count >= 300 for count in counts.values()) >= 8


def test_a_snippet_is_five_to_eight_lines_and_short(snippets: list[tuple[str, str]]) -> None:
    for text, _ in snippets:
        lines = text.split("\n")
        assert 5 <= len(lines) <= 8 and len(text) <= 300
        assert all(re.search(r"[^\s#]", line) and line == line.rstrip() for line in lines)
        assert textwrap.dedent(text) == text


def test_the_answer_is_not_in_the_text(snippets: list[tuple[str, str]]) -> None:
    for text, label in snippets:
        assert label not in text.casefold()
        for line in text.split("\n"):
            assert line.strip("#>. \t").split(" ")[0] not in ("import", "from"), line


def test_no_snippet_occurs_twice_or_in_two_packages(snippets: list[tuple[str, str]]) -> None:
    assert len({text for text, _ in snippets}) == len(snippets)


def test_snippets_come_in_one_mixed_order(snippets: list[tuple[str, str]]) -> None:
    assert snippets == list(stdlib())
    for tenth in (snippets[: len(snippets) // 10], snippets[-len(snippets) // 10 :]):
        assert {label for _, label in tenth} == PACKAGES


def test_snippets_are_spaced_through_the_whole_package(snippets: list[tuple[str, str]]) -> None:
    """Of every large file of a package there is something."""
    for package in PACKAGES:
        texts = {text for text, label in snippets if label == package}
        for path in builtin._sources(package):
            pieces = cut(path.read_text(encoding="utf-8"), package)
            assert len(pieces) < 20 or texts.intersection(pieces), path.name


def test_sources_are_no_tests() -> None:
    """3.11 has the tests of ctypes and unittest inside them."""
    for package in PACKAGES:
        folder = Path(find_spec(package).origin).parent
        files = [path.relative_to(folder).parts for path in builtin._sources(package)]
        assert ("__init__.py",) in files and not [parts for parts in files if parts[0] in ("test", "tests")]


def test_cut_leaves_out_imports_in_full_and_the_name_of_the_package() -> None:
    source = """
        from a import (
            b,
            c,
        )
        import d, \\
            e
        # import f
        >>> from g import h
        one = 1
        two = XMLReader()
        #

        three = 3
        important = from_here
        five = 5
        six = 6
    """
    assert cut(source, "xml") == ["one = 1\nthree = 3\nimportant = from_here\nfive = 5\nsix = 6"]


def test_cut_begins_at_a_function_once_there_are_five_lines() -> None:
    lines = [
        "a = 1",
        "def f():",
        "    b = 2",
        "    c = 3",
        "    d = 4",
        "    @g",
        "    def h(self):",
        "        e = 5",
        "        f = 6",
        "        g = 7",
    ]
    first, second = cut("\n".join(lines), "xml")
    assert first.split("\n") == lines[:5]
    assert second.split("\n") == [line[4:] for line in lines[5:]]


def test_cut_ends_a_full_snippet_and_drops_short_rests() -> None:
    assert [len(one.split("\n")) for one in cut("a = 1\n" * 20, "xml")] == [8, 8]
    assert [len(one) for one in cut(("x" * 59 + "\n") * 15, "xml")] == [299, 299, 299]
    assert cut(("x" * 301 + "\n") * 15, "xml") == []


def test_missing_sources_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "find_spec", lambda package: None)
    with pytest.raises(FileNotFoundError, match="asyncio"):
        next(stdlib())


# The date that a text says, read by its words and signs rather than by the forms.
MONTHS = ["jan", "f[eé]", "mars?$|march|märz", "a[pv]r", "ma[yi]", "jui?n", "jui?l", "ao|aug", "sep", "o[ck]t", "nov", "d[eé][cz]"]
WEEKDAYS = ["mon|lun", "tue|die|mardi", "wed|mit|mer", "thu|don|jeu", "fri|fre|ven", "sat|sam", "sun|son|dim"]
COUNTED = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"]
FILLING = {"the", "of", "st", "nd", "rd", "th", "den", "le", "er", "年", "月", "日"}


def place(word: str, patterns: list[str]) -> int | None:
    return next((i for i, pattern in enumerate(patterns) if re.match(pattern, word)), None)


def counted(word: str) -> int:
    """second is 2, fourteenth 14, twentieth 20; twenty-second comes as 20 and 2."""
    if word in COUNTED:
        return COUNTED.index(word) + 1
    tens = {"twentieth": 20, "twenty": 20, "thirtieth": 30, "thirty": 30}
    if word in tens:
        return tens[word]
    teens = ["thir", "four", "fif", "six", "seven", "eigh", "nine"]
    assert word.endswith("teenth"), word
    return 13 + teens.index(word.removesuffix("teenth"))


def value(numeral: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10}[letter] for letter in numeral]
    return sum(-one if one < max(values[i:]) else one for i, one in enumerate(values))


def read(text: str) -> tuple[date, int | None]:
    """The date, and the day of the week if one is written."""
    text = text.lower()
    words = [word for word in re.findall(r"[^\W\d_]+", text) if word not in FILLING]
    numbers = re.findall(r"\d+", text)
    if len(numbers) == 1 and len(numbers[0]) == 8:
        numbers = [numbers[0][:4], numbers[0][4:6], numbers[0][6:]]
    if len(numbers) == 3:
        assert not words
        if len(numbers[0]) == 4:
            year, month, day = map(int, numbers)
        elif "/" in text:
            month, day, year = map(int, numbers)
        else:
            assert text.count(".") == 2
            day, month, year = map(int, numbers)
        return date(year, month, day), None
    year = int(next(number for number in numbers if len(number) == 4))
    days = [int(number) for number in numbers if len(number) < 4]
    month, weekday = 0, None
    for word in words:
        if set(word) <= set("ivx"):
            month = value(word)
        elif (index := place(word, WEEKDAYS)) is not None:
            weekday = index
        elif (index := place(word, MONTHS)) is not None:
            month = index + 1
        else:
            days.append(counted(word))
    return date(year, month, sum(days)), weekday


@pytest.mark.parametrize(
    ("text", "iso", "weekday"),
    [
        ("Wed, Mar 3 2021", "2021-03-03", 2),
        ("the Twenty-Second of August 1999", "1999-08-22", None),
        ("14.ix.1914", "1914-09-14", None),
        ("MARDI 2 MARS 2021", "2021-03-02", 1),
        ("4/3/2021", "2021-04-03", None),
        ("4.3.2021", "2021-03-04", None),
    ],
)
def test_the_reader_of_these_tests_reads(text: str, iso: str, weekday: int | None) -> None:
    assert read(text) == (date.fromisoformat(iso), weekday)


def test_what_is_written_is_the_date(pairs: list[tuple[str, str]]) -> None:
    days_of_the_week = 0
    for text, iso in pairs:
        day, weekday = read(text)
        assert day.isoformat() == iso, text
        assert weekday in (None, day.weekday()), text
        days_of_the_week += weekday is not None
    assert days_of_the_week > COUNT / 10


def test_every_form_of_every_day_of_a_leap_year_is_read() -> None:
    for ordinal in range(date(2024, 1, 1).toordinal(), date(2025, 1, 1).toordinal()):
        day = date.fromordinal(ordinal)
        for form in builtin.FORMS:
            text = form.format(**builtin._parts(day))
            assert read(text)[0] == day, text


def test_ordinals_end_as_english_has_it(pairs: list[tuple[str, str]]) -> None:
    endings = {match[0].lower() for text, _ in pairs for match in re.finditer(r"\d+(st|nd|rd|th)", text, re.IGNORECASE)}
    others = {f"{day}th" for day in (*range(4, 21), *range(24, 31))}
    assert endings == {"1st", "2nd", "3rd", "21st", "22nd", "23rd", "31st"} | others


def shape(text: str) -> str:
    """Signs and small words stay; a name is a letter, a year Y, another number N, be it with an ending."""
    text = re.sub(r"[^\W\d_]+(-[^\W\d_]+)*", lambda match: match[0] if match[0] in FILLING else "a", text.lower())
    return re.sub(r"(\d+)(st|nd|rd|th)?", lambda match: "Y" if len(match[1]) == 4 else "Nth" if match[2] else "N", text)


def test_there_are_many_forms_in_capitals_and_small_letters(pairs: list[tuple[str, str]]) -> None:
    shapes = Counter(shape(text) for text, _ in pairs)
    assert sum(count > COUNT / 100 for count in shapes.values()) >= 25
    assert sum(text.isupper() for text, _ in pairs) > COUNT / 10 < sum(text.islower() for text, _ in pairs)


def test_dates_lie_between_1900_and_2099(pairs: list[tuple[str, str]]) -> None:
    days = sorted(iso for _, iso in pairs)
    assert "1900-01-01" <= days[0] < "1901" and "2099" < days[-1] <= "2099-12-31"
    assert {iso[5:7] for iso in days} == {f"{month:02}" for month in range(1, 13)}


def test_dates_follow_from_the_seed(pairs: list[tuple[str, str]]) -> None:
    assert list(dates(COUNT)) == pairs and len(pairs) == COUNT
    assert list(dates(7)) == pairs[:7]
    assert list(dates(7, seed=1)) != pairs[:7]
    assert len(set(pairs)) > 0.99 * COUNT


def test_dates_ask_no_locale_for_names(monkeypatch: pytest.MonkeyPatch, pairs: list[tuple[str, str]]) -> None:
    class Nameless(date):
        def strftime(self, format: str) -> str:
            raise AssertionError("the names of strftime are those of the locale")

        __format__ = strftime

    monkeypatch.setattr(builtin, "date", Nameless)
    monkeypatch.setitem(sys.modules, "calendar", None)
    assert list(dates(COUNT)) == pairs


def test_names() -> None:
    assert {name: data.kind for name, data in NAMES.items()} == {"pydocs": "documents", "stdlib": "labelled", "dates": "pairs"}
    assert all(data.name == name and data.doc for name, data in NAMES.items())
    assert isinstance(next(NAMES["pydocs"].make()), str)
    assert next(NAMES["stdlib"].make())[1] in PACKAGES
    assert len(list(NAMES["dates"].make())) == 20_000


def test_nothing_but_the_standard_library_is_imported() -> None:
    code = "import sys, transalg.data.builtin as b; [list(one.make()) for one in b.NAMES.values()]; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "tokenizers"}.intersection(loaded)
