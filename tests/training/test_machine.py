"""How many threads, and which arithmetic: by what the machine is said to be, never by what it is."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.runs import config, files
from transalg.training import machine, start
from transalg.training.machine import (
    BFLOAT16_WIDTH,
    FASTER,
    bfloat16_speed,
    busy_cores,
    choose_dtype,
    choose_threads,
    computes_in_bfloat16,
    usable_cores,
)
from transalg.training.prepare import prepare
from transalg.training.processes import World
from transalg.training.report import Report
from transalg.training.start import train


class Notes(Report):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize(
    ("most", "cores", "busy", "threads", "said"),
    [
        (2, 2, 0.2, 2, None),
        (2, 2, 0.8, 1, "1 thread: the other core is busy"),
        (2, 2, 1.9, 1, "1 thread: both cores are busy"),
        (2, 2, 7.0, 1, "1 thread: both cores are busy"),
        (8, 8, 5.1, 3, "3 threads: 5 of 8 cores are busy"),
        (4, 8, 3.4, 4, None),
        (4, 8, 7.0, 1, "1 thread: 7 of 8 cores are busy"),
    ],
)
def test_threads_are_as_many_as_cores_are_free(most: int, cores: int, busy: float, threads: int, said: str | None) -> None:
    assert choose_threads(most, cores, lambda: busy) == (threads, said)


def test_a_process_that_may_use_few_cores_has_few_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be bound to some cores, or be in a container with a quota."""
    monkeypatch.setattr(machine, "CPU_MAX", tmp_path / "cpu.max")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 3, 5, 7, 8}, raising=False)
    assert usable_cores() == 5
    for said, cores in (("max 100000", 5), ("300000 100000", 3), ("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 5), ("?", 5)):
        machine.CPU_MAX.write_text(said)
        assert usable_cores() == cores, said
    machine.CPU_MAX.write_text("200000 100000")
    monkeypatch.setattr(start, "busy_cores", lambda: 0.0)
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 64)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    options = start._with_threads(config("lm", tmp_path), Report())
    assert options.train.threads == 2


def test_where_there_is_one_thread_nobody_looks() -> None:
    def look() -> float:
        raise AssertionError

    assert choose_threads(1, 8, look) == (1, None)


def test_the_load_of_others_is_what_the_cores_did_without_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3 s on all cores, half a second of it ours, in 2 s: 1.25 cores. Idle and waiting time do not count."""
    clock = {"now": 10.0, "mine": 1.0}
    ticks = 100
    monkeypatch.setattr(machine, "STAT", tmp_path / "stat")
    monkeypatch.setattr(machine.os, "sysconf", lambda _: ticks)

    def write(user: int, nice: int, idle: int, wait: int) -> None:
        machine.STAT.write_text(f"cpu  {user} {nice} 7 {idle} {wait} 3 2 1 0 0\ncpu0 1 2 3\n")

    def sleep(seconds: float) -> None:
        clock["now"] += 2.0
        clock["mine"] += 0.5
        write(500 + 200, 50 + 100, 9999, 777)

    write(500, 50, 1000, 5)
    monkeypatch.setattr(machine.time, "sleep", sleep)
    monkeypatch.setattr(machine.time, "perf_counter", lambda: clock["now"])
    monkeypatch.setattr(machine.time, "process_time", lambda: clock["mine"])
    assert busy_cores() == pytest.approx(1.25)
    machine.STAT.unlink()
    monkeypatch.setattr(machine.os, "getloadavg", lambda: (0.7, 5.0, 9.0))
    assert busy_cores() == 0.7
    monkeypatch.delattr(machine.os, "getloadavg")
    assert busy_cores() == 0.0


def test_bfloat16_needs_instructions_width_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked() -> float:
        raise AssertionError

    widths = (128, BFLOAT16_WIDTH - 1, BFLOAT16_WIDTH, 768)
    assert [choose_dtype(d_e, True, lambda: FASTER)[0] for d_e in widths] == ["float32"] * 2 + ["bfloat16"] * 2
    assert choose_dtype(768, True, lambda: FASTER - 0.01) == ("float32", None)
    assert choose_dtype(768, False, unasked) == choose_dtype(128, True, unasked) == ("float32", None)
    said = "bfloat16: 1.7 times as fast as float32 here; --train.dtype float32 is exact"
    assert choose_dtype(768, True, lambda: 1.7) == ("bfloat16", said)
    for avx, amx in ((False, False), (True, False), (False, True)):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda avx=avx: avx)
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda amx=amx: amx)
        assert computes_in_bfloat16(torch.device("cpu")) == (avx or amx)
    assert not computes_in_bfloat16(torch.device("mps"))


def test_the_speed_of_bfloat16_is_the_median_ratio_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves by 6 in float32 and by 2 in bfloat16, but for turns at the start, which allocate, and one that was disturbed."""
    now, turns, computed = [0.0], [0], list[torch.dtype]()

    def product(X: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
        Y = torch.nn.functional.linear(X, W)
        if W.shape[0] == 17:  # the second product of a turn
            computed.append(Y.dtype)
            turns[0] += 1
            now[0] += 100.0 if turns[0] in (1, 2, 6) else 6.0 if Y.dtype == torch.float32 else 2.0
        return Y

    monkeypatch.setattr(machine, "linear", product)
    monkeypatch.setattr(machine.time, "perf_counter", lambda: now[0])
    assert bfloat16_speed(17, torch.device("cpu"), tokens=3, rounds=5) == 3.0
    assert computed == [torch.float32, torch.bfloat16] * 6


def test_other_processes_take_what_the_first_one_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path)
    prepared = prepare(config("lm", tmp_path, dtype="auto"), tmp_path / "run", Report())
    (tmp_path / "config.toml").write_text(config("lm", tmp_path, dtype="bfloat16").toml())
    monkeypatch.setattr(start, "choose_dtype", lambda *_: ("float32", None))
    for rank, dtype in ((0, "float32"), (1, "bfloat16")):
        world = World(rank, 2, torch.device("cpu"))
        assert start._with_dtype(prepared, tmp_path, world, Report()).config.train.dtype == dtype


def saved(run: Path) -> dict[str, Any]:
    return tomllib.loads((run / "config.toml").read_text())["train"]


def test_what_was_chosen_is_recorded_and_resumed_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load and the CPU are others when the run continues; its threads and its arithmetic are not."""
    files(tmp_path)
    threads, asked = torch.get_num_threads(), []
    monkeypatch.setattr(start, "choose_threads", lambda *_: asked.append("threads") or (threads, "so many threads"))
    monkeypatch.setattr(start, "choose_dtype", lambda d_e, *_: asked.append(d_e) or ("bfloat16", "bfloat16: so"))
    notes = Notes()
    train(config("lm", tmp_path, steps=2, threads=None, dtype="auto"), tmp_path / "run", report=notes)
    assert asked == ["threads", 10] and notes.notes[:2] == ["so many threads", "bfloat16: so"]
    assert (saved(tmp_path / "run")["threads"], saved(tmp_path / "run")["dtype"]) == (threads, "bfloat16")
    again = {"train": {"steps": 4, "dtype": "auto", "select": "auto"}}  # the same command once more
    train(None, tmp_path / "run", resume=True, changes=again)
    assert len(asked) == 2 and saved(tmp_path / "run")["dtype"] == "bfloat16"
    with pytest.raises(ValueError, match=r"--train\.dtype: .* was started with bfloat16"):
        train(None, tmp_path / "run", resume=True, changes={"train": {"dtype": "float32"}})
    train(config("lm", tmp_path, steps=2), tmp_path / "chosen")
    assert len(asked) == 2, "what the user chose stays"
