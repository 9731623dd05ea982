"""What comes from outside and where it goes: names, labels and tokens are shown, never obeyed; streams may be closed, full or narrow."""

import ast
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.table import Table
from rich.text import Text

import transalg as package
from transalg import cli
from transalg.cli import streams, using
from transalg.cli.failures import message
from transalg.cli.pictures import confusion_picture, write_picture
from transalg.data.sources import Source
from transalg.memory import out_of_memory
from transalg.terminal import console, listed, marked, short, shown
from transalg.trace.page import embedded
from transalg.training.watch import Watch

ROOT = Path(package.__file__).parent
RUNS = Path(__file__).parent.parent / "runs" / "format-1"
HOSTILE = [
    "[/oops]",
    "[bold]x[/bold]",
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x9b31m",
    "a\rb",
    "\u202eabc",
    ":smile:",
    "\udcff",
    "[link=x]y[/link]",
    "\\",
]


# Terminal ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_a_console_shows_what_others_obey(text: str) -> None:
    for value in (text, Text(text), _table(text)):
        file = io.StringIO()
        console(file=file, width=80, force_terminal=True).print(value)
        printed = re.sub(r"\x1b\[\d*m", "", file.getvalue())  # the console's own
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", printed)
        assert shown(text).strip("\\x07") in printed.replace(" ", "") or "\r" in text or "\x07" in text


def _table(text: str) -> Table:
    table = Table(text)
    table.add_row(text)
    return table


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_marked_stands_between_markup(text: str) -> None:
    file = io.StringIO()
    console(file=file, width=80, color_system=None).print(f"[bold]{marked(text)}[/] end", markup=True)
    assert file.getvalue().rstrip("\n").replace("\\\\", "\\") == f"{shown(text)} end"


def test_every_console_is_that_one() -> None:
    """And where markup is read, each value that is filled in passes `marked`, unless it is a number or the program's own."""
    own = {
        "words[outcome.reason]",
        "minutes",
        "_count(state.tokens)",
        "command.format(name)",
        "name",
        "by",
        "i",
        "TITLES[name]",
        "explanation",
        "EPISODES",
    }
    for path in ROOT.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if path.name != "terminal.py":
            assert not re.search(r"(?<![\w.\"])(?:Plain)?Console\(", source), path
        for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
            if any(word.arg == "markup" and getattr(word.value, "value", None) is True for word in call.keywords):
                for part in (node for node in ast.walk(call.args[0]) if isinstance(node, ast.FormattedValue)):
                    written = ast.unparse(part.value)
                    assert part.format_spec or written.startswith("marked(") or written in own or isinstance(part.value, ast.IfExp), (
                        path,
                        written,
                    )


def test_narrow_terminals(monkeypatch: pytest.MonkeyPatch, transalg: Callable[..., tuple[int, str, str]]) -> None:
    for columns in ("0", "1", "20"):
        monkeypatch.setenv("COLUMNS", columns)
        assert console(file=io.StringIO()).width == 20
    monkeypatch.setenv("COLUMNS", "33")
    assert console(file=io.StringIO()).width == 33


def test_lists_and_values_have_an_end() -> None:
    assert listed(f"class {i}" for i in range(2000)).endswith("class 11 and 1,988 more")
    assert len(short("x" * 10**6)) <= 200 and short("abc") == "abc"


# Encodings -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize("command", [("presets",), ("algorithm", "10"), ("--help",)])
def test_other_encodings_get_what_they_have(
    monkeypatch: pytest.MonkeyPatch, transalg: Callable[..., tuple[int, str, str]], encoding: str, command: tuple[str, ...]
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    status, _, err = transalg(*command)
    sys.stdout.flush()
    assert status == 0 and err == "" and len(raw.getvalue()) > 500


def test_json_lines_are_json_in_every_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, text in (("utf-8", "naïve \U0001f600"), ("ascii", "naïve \U0001f600"), ("utf-8", "half \ud800")):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
        line = using.json_line({"text": text})
        assert json.loads(line.encode(encoding)) == {"text": text}


@pytest.mark.parametrize("option", ["--prompt", "--stop"])
def test_bytes_that_are_no_text(transalg: Callable[..., tuple[int, str, str]], option: str) -> None:
    status, _, err = transalg("generate", str(RUNS / "lm"), option, "a\udcff")
    assert (status, err) == (2, f"transalg: {option}: expected UTF-8, got \\xff in 'a\\xff'\n")


def test_file_names_may_have_any_bytes(transalg: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    texts, out = tmp_path / "texts\udcff.txt", tmp_path / "out\udcff.txt"
    texts.write_text("one two\n")
    status, _, err = transalg("classify", str(RUNS / "classify"), "--file", str(texts), "--out", str(out))
    assert status == 0 and "%" in out.read_text(), err


# Labels, tokens, pages -----------------------------------------------------------------------------------------------------


def test_labels_are_shown(transalg: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    from transalg.inference.run import Run

    before = Run._one.__func__
    hostile = ("[/oops]", "\x1b[2Jx")
    monkeypatch.setattr(Run, "_one", classmethod(lambda cls, *given: dataclasses.replace(before(cls, *given), labels=hostile)))
    for more in ((), ("--all",), ("--json",)):
        status, out, err = transalg("classify", str(RUNS / "classify"), "--text", "one two", *more)
        assert status == 0 and "\x1b" not in out and ("[/oops]" in out or "\\x1b[2Jx" in out), err


def test_texts_are_shown_on_a_terminal_and_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal, expected in ((True, "a\\x1b[2J\nb"), (False, "a\x1b[2J\nb")):
        out = io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(out, "isatty", lambda terminal=terminal: terminal)
        using.standard_output().write("a\x1b[2J\nb")
        assert out.getvalue() == expected


@pytest.mark.parametrize("token", ["<!--<script>", "</script>", "\u2028", "\ud800", "<"])
def test_no_token_breaks_the_page(token: str) -> None:
    """In a script element, <!--<script> begins what only another </script> ends."""
    text = embedded({"vocabulary": [token], "pi": 3.5})
    assert "<" not in text and "\u2028" not in text
    assert json.loads(text.encode()) == {"vocabulary": [token], "pi": 3.5}


def test_dollars_in_labels_are_no_mathematics_and_many_classes_no_large_picture(tmp_path: Path) -> None:
    figure = confusion_picture(np.eye(3, dtype=np.int64), ["$\\frac$", "a$b$c", "\U0001f600"])
    write_picture(figure, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000
    wide = confusion_picture(np.zeros((2000, 2000), np.int64), [f"class {i}" for i in range(2000)])
    assert max(wide.get_size_inches()) < 70


# Streams and signals -------------------------------------------------------------------------------------------------------


def test_a_full_device(transalg: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        status, _, err = transalg("presets")
    assert (status, err) == (2, "transalg: standard output: cannot be written: No space left on device\n")


class Left(io.StringIO):
    """A pipe whose reader has left."""

    def write(self, text: str, /) -> int:
        raise BrokenPipeError


def test_who_reads_may_leave(transalg: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Left())
    monkeypatch.setattr(streams, "abandon_output", lambda: None)
    assert transalg("presets")[0] == 0


def test_training_goes_on_without_a_reader() -> None:
    watch = Watch(console(file=Left(), width=80))
    watch.note("a line")
    watch.validation(3, {"val_loss": 1.5}, True)


CLOSED = "import os, sys; os.close({number}); os.execv(sys.executable, [sys.executable, '-m', 'transalg', 'tokenizer', 'encode', {run!r}])"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status", "said"), [(0, 0, ""), (1, 2, "standard output: is closed"), (2, 0, "")])
def test_closed_streams(number: int, status: int, said: str) -> None:
    """A file that is opened later does not take the number of a closed stream."""
    code = CLOSED.format(number=number, run=str(RUNS / "lm"))
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == status and done.stdout == "" and said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_while_python_imports() -> None:
    """At any moment of the imports: here at the first, of tyro."""
    code = (
        "import os, signal, sys\n"
        "class Press:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'tyro': os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Press())\n"
        "from transalg.__main__ import main\n"
        "sys.argv = ['transalg', 'presets']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nInterrupted\n")


def test_ctrl_c_that_a_library_hides(transalg: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """torch or NumPy, interrupted in their imports, raise what they like."""

    def hides(self: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as error:
            raise ImportError("cannot import name") from error

    monkeypatch.setattr("transalg.cli.presets.Presets.run", hides)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in the background without it
    try:
        status, _, err = transalg("presets")
    finally:
        signal.signal(signal.SIGINT, before)
    assert status == 130 and err == "\nInterrupted\n"


def test_ctrl_c_while_an_error_is_said(transalg: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception comes where another is handled already."""
    say, said = cli._say, list[str]()

    def pressed(text: Text) -> None:
        said.append(text.plain)
        if len(said) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        say(text)

    monkeypatch.setattr(cli, "_say", pressed)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status, _, err = transalg("evaluate", "nowhere")
    finally:
        signal.signal(signal.SIGINT, before)
    assert status == 130 and err == "\nInterrupted\n" and "nowhere" in said[0]


def test_sigterm_while_tokenising_leaves_nothing(
    transalg: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("The cat sat on the mat.\n" * 50)
    before, passes = Source.records, []

    def records(self: Source, *progress: object) -> object:
        passes.append(1)
        for i, record in enumerate(before(self, *progress)):
            if i == 30 and (list(tmp_path.glob(".transalg-cache/.*.part"))):  # half of the token files is written
                os.kill(os.getpid(), signal.SIGTERM)
            yield record

    monkeypatch.setattr(Source, "records", records)
    status, _, _ = transalg("train", "lm", "--data", str(tmp_path / "a.txt"), "--documents", "line", "--out", str(tmp_path / "run"))
    assert status == 128 + signal.SIGTERM and len(passes) > 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".transalg-cache", "a.txt"]


def test_a_deleted_working_directory(
    transalg: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    status, _, err = transalg("presets")
    assert (status, err) == (2, "transalg: working directory: does not exist any more; cd to one that does\n")


# Messages ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(2, "No such file or directory", "a/b.txt"), "a/b.txt: no such file or directory"),
        (OSError(28, "No space left on device"), "standard output: cannot be written: No space left on device"),
        (
            UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"),
            "text: expected UTF-8, got '\\udcff', which is no character",
        ),
        (ValueError("a.csv:3: \x1b[2J"), "a.csv:3: \\x1b[2J"),
        (ValueError("a\nb\nc\nd"), "a\nb c d"),
        (ValueError(""), "failed without a word"),
    ],
)
def test_messages(error: Exception, said: str) -> None:
    assert message(error) == said


def test_messages_have_an_end() -> None:
    text = message(ValueError("\n".join("x" * 10**5 for _ in range(100))))
    assert len(text) <= 1001 and text.count("\n") == 1


def test_too_little_memory_in_plain_words() -> None:
    torchs = RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried to allocate 799999999992 bytes."
    )
    numpys = MemoryError("Unable to allocate 3.00 GiB for an array with shape (3,) and data type float64")
    assert re.match(r"memory: there is too little, 800 GB more were asked for, [\d.]+ GB are free; use smaller", message(torchs))
    assert "3.22 GB more were asked for" in out_of_memory(numpys, "tokens") and "for tokens" in out_of_memory(numpys, "tokens")
    assert message(MemoryError()).startswith("memory: there is too little")
