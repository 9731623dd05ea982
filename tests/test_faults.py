"""Some of the faults of `make faults`; and the judge, the damage and the table do what they say."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.faults import contents, fields, flags, places, table, tensors
from tests.faults.documents import JSON
from tests.faults.judge import complaints
from tests.faults.sandbox import Outcome, snapshot

ROOT = Path(__file__).parents[1]
MESSAGE = "transalg: run/config.toml: steps: expected more than 0, got -1\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the bounds of processes are Linux's")
def test_some_faults_of_every_kind(record_property: Callable[[str, object], None]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--quick", "0", "1"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, (_, _, tried, held, _) = [line.split("|") for line in done.stdout.strip().splitlines()]
    record_property("summary", f"faults: {held.strip()} held / {tried.strip()}")
    assert int(held) == int(tried) >= 200


def judged(status: int, out: str = "", err: str = "", arguments: str = "generate run", **more: object) -> list[str]:
    before = more.pop("before", {})
    outcome = Outcome(status, out, err, before, more.pop("after", before), bool(more.pop("hangs", False)))  # type: ignore[arg-type]
    return complaints(outcome, arguments.split(), more.pop("owned", []), **more)  # type: ignore[arg-type]


def test_a_sound_answer_or_two_lines_hold() -> None:
    assert not judged(0, "a cat\n")
    assert not judged(0, '{"loss": 1.5}\n', arguments="evaluate run --json")
    assert not judged(2, err=MESSAGE) and not judged(2, err=MESSAGE * 2)
    assert not judged(130, err="Interrupted\n", interrupted=True)
    assert not judged(0, silent=True)


@pytest.mark.parametrize(
    ("said", "status", "out", "err"),
    [
        ("no answer", 0, "", ""),
        ("no JSON: NaN is no number", 0, '{"loss": NaN}\n', ""),
        ("no JSON", 0, "a cat\n", ""),
        ("signal 11", -11, "", ""),
        ("exit status 1", 1, "", ""),
        ("exit status 130", 130, "", "Interrupted\n"),
        ("without a message", 2, "", "\n"),
        ("a message of 3 lines", 2, "", MESSAGE * 3),
        ("characters", 2, "", "x" * 3000),
        ("says 'Traceback'", 1, "", "Traceback (most recent call last):\n"),
        ("says 'unhashable'", 2, "", "transalg: unhashable type: 'list'\n"),
        (r"the control character '\x1b'", 2, "", "transalg: \x1b[31m\n"),
    ],
)
def test_everything_else_does_not(said: str, status: int, out: str, err: str) -> None:
    assert said in "; ".join(judged(status, out, err, "generate run --json"))


def test_answers_without_numbers_and_hanging_do_not_hold() -> None:
    assert judged(0, "perplexity nan\n") == ["the answer has nan"] and not judged(0, "a banana of nancy\n")
    assert judged(0, "a\n", hangs=True) == ["it hangs"]


def test_only_files_that_a_command_owns_may_change(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "file").write_text("a")
    before = snapshot(work)
    (work / "file").write_text("b")
    (work / "out").mkdir()
    (work / "out" / "x").touch()
    after = snapshot(work)
    owned = ["work/out", "work/out/*"]
    assert judged(0, "a", before=before, after=after, owned=owned) == ["changed: work/file (other bytes)"]
    assert "work/out (new)" in "".join(judged(2, err=MESSAGE, before=before, after=after, owned=owned)), "a refused command writes nothing"
    assert not judged(0, "a", before=before, after=after, owned=[*owned, "work/file"])


def test_damage_is_the_same_every_time_and_changes_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"b": {"c": [1, 2]}, "d": "x"}))
    listed, again = (list(fields.changes(tmp_path, "a.json", JSON, Random(7), 3)) for _ in range(2))
    assert list(map(str, listed)) == list(map(str, again)) and len(listed) > 15
    fields.Field("a.json", JSON, ("b", "c", 1), "set", "y")(tmp_path)
    fields.Field("a.json", JSON, ("d",), "rename")(tmp_path)
    assert json.loads((tmp_path / "a.json").read_text()) == {"b": {"c": [1, "y"]}, "d_": "x"}
    for change in contents.changes("a.json", Random(7), 1):
        (tmp_path / "a.json").write_text('{"abc": "abcabc"}')
        change(tmp_path)
        if change.act != "exchange":
            assert (tmp_path / "a.json").read_bytes() != b'{"abc": "abcabc"}', change
    for act in tensors.ACTS:
        save_file({"a": torch.arange(6.0).view(2, 3) + 1, "b": torch.ones(5)}, tmp_path / "t", {"k": "v"})
        intact = (tmp_path / "t").read_bytes()
        tensors.Changed("t", "a", act)(tmp_path)
        assert (tmp_path / "t").read_bytes() != intact, act
    assert load_file(tmp_path / "t")["a"].dtype == torch.bool, "the last act"


def test_links_lead_to_the_canary(tmp_path: Path) -> None:
    for name in ("work/run", "canary"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "canary" / "file").write_text("untouched")
    (tmp_path / "work" / "run" / "a").touch()
    places.Placed("run/a", "link to the canary")(tmp_path / "work")
    assert (tmp_path / "work" / "run" / "a").read_text() == "untouched"


def test_the_options_of_every_verb_are_found() -> None:
    found = {(option.verb, option.name): option for option in flags.options()}
    assert found["train", "--train.steps"].kind == "integer" and found["train", "--model.d-e"].kind == "integer"
    assert found["train", "--init"].kind == "path" and found["train", "--train.eta"].kind == "real"
    assert found["trace", "--run"].kind == "path" and found["tokenizer train", "--vocab-size"].kind == "integer"
    assert found["train", "--train.no-shuffle"].kind == "flag" and found["play", "--tau"].kind == "real"
    assert found["train", "--model.L-enc"].task == "seq2seq" and len(found) > 200
    given = flags.Given(found["train", "--train.steps"], "-1").arguments()
    assert "--train.steps=-1" in given and "--train.steps" not in given


def test_the_table_goes_between_its_marks(tmp_path: Path) -> None:
    rows = table.table([("bytes", 1200, 1199), ("kills", 3, 3)])
    assert rows.splitlines()[2:] == ["| bytes | 1,200 | 1,199 |", "| kills | 3 | 3 |", "| **all** | 1,203 | 1,202 |"]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    table.write(page, rows)
    assert page.read_text() == f"before\n{table.BEGIN}\n{rows}\n{table.END}\nafter\n"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="expected the marks"):
        table.write(page, rows)
