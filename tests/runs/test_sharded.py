"""Sharded checkpoints are checked as single files are."""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import save_file

import transalg
from tests.runs.damage import Tensors, copied, read
from transalg.runs import checkpoints
from transalg.runs.metadata import Metadata
from transalg.training.start import train


@pytest.fixture(scope="module", autouse=True)
def one_process() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run of the first version with sharded checkpoints."""
    monkeypatch.chdir(tmp_path)
    run = copied(tmp_path)
    for name in ("best", "last"):
        shard(run, name)
    return run


def shard(run: Path, name: str, change: Callable[[Tensors], object] = lambda _: None) -> None:
    tensors, metadata = read(
        run.parent.joinpath("lm", f"{name}.safetensors") if (run / f"{name}.safetensors").exists() else kept(run, name)
    )
    if name == "best":
        tensors = {f"model.{each}": tensor for each, tensor in tensors.items()}
    change(tensors)
    checkpoints.save_sharded(run / name, tensors, Metadata.from_json(json.dumps(metadata)))
    if (run / f"{name}.safetensors").exists():
        (run / f"{name}.safetensors").rename(kept(run, name))


def kept(run: Path, name: str) -> Path:
    return run.parent / f"kept-{name}.safetensors"


def resume(run: Path) -> int:
    step: int = train(None, run, resume=True, changes={"train": {"steps": 7, "threads": 1}}).state.step
    return step


def test_a_sharded_run_loads_and_resumes(run: Path) -> None:
    single = read(kept(run, "best"))[0]
    assert all(tensor.equal(single[name]) for name, tensor in transalg.load(run).model.state_dict().items())
    assert not list(run.glob(".*.part")) and resume(run) == 7


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("model.W_e"), "best: lacks tensors of its model: W_e"),
        (lambda t: t.update({"model.x": torch.ones(3)}), "best: has tensors that its model does not have: x"),
        (
            lambda t: t.update({"model.W_e": t["model.W_e"][:1]}),
            r"best: W_e: expected float32 \[25, 8\] for its model, got float32 \[1, 8\]",
        ),
        (lambda t: t.update({"model.W_e": t["model.W_e"].bfloat16()}), "best: W_e: expected float32 .* got bfloat16"),
        (lambda t: t["model.W_e"][2].fill_(math.inf), "best: W_e: an infinite number"),
    ],
)
def test_tensors_of_a_sharded_model(change: Callable[[Tensors], object], said: str, run: Path) -> None:
    shard(run, "best", change)
    with pytest.raises(ValueError, match=said):
        transalg.load(run)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("model.W_e"), "last: lacks tensors of the run's model: model.W_e"),
        (lambda t: t.pop("optimiser.W_e.exp_avg"), "last: lacks tensors of the optimiser that .* optimiser.W_e.exp_avg"),
        (lambda t: [t.pop(name) for name in list(t) if name.startswith("optimiser")], "last: lacks tensors of the optimiser"),
        (lambda t: t.update({"optimiser.W_e.exp_avg": torch.ones(3)}), "last: optimiser.W_e.exp_avg: expected float32"),
        (lambda t: t["optimiser.W_e.exp_avg"].fill_(math.nan), "last: optimiser.W_e.exp_avg: NaN"),
        (lambda t: t["model.W_e"].fill_(math.nan), "last: model.W_e: NaN"),
    ],
)
def test_tensors_of_a_sharded_run_before_training_continues(change: Callable[[Tensors], object], said: str, run: Path) -> None:
    shard(run, "last", change)
    before = (run / "config.toml").read_bytes()
    with pytest.raises(ValueError, match=said):
        resume(run)
    assert (run / "config.toml").read_bytes() == before


@pytest.mark.parametrize("facts", ["{}", "null", "[]", "3", "[" * 10**5, '{"format": 1}', "no JSON", "\xff"], ids=lambda text: text[:9])
def test_facts_of_a_sharded_checkpoint(facts: str, run: Path) -> None:
    (run / "best" / "facts.json").write_bytes(facts.encode("latin-1"))
    with pytest.raises(ValueError, match=r"best/facts\.json: ") as caught:
        transalg.load(run)
    assert len(str(caught.value)) < 400
    (run / "best" / "facts.json").unlink()
    with pytest.warns(match="there is no best checkpoint"):
        transalg.load(run)


def damage_header(path: Path) -> None:
    """The same file with other facts about where its part of a tensor lies."""
    with safe_open(path, "pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata())  # noqa: SIM118
    key = next(name for name in metadata if "SHARD" in name.upper())
    offsets = json.loads(metadata[key])
    name = next(name for name in offsets if name.endswith("W_e"))
    offsets[name] = {key: [9] * len(value) for key, value in offsets[name].items()}
    save_file(tensors, path, metadata | {key: json.dumps(offsets)})


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-7]),
        lambda path: path.write_bytes(b"x" * path.stat().st_size),
        lambda path: path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:]),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"dtype":"F32"', b'"dtype":"F99"')),
        lambda path: path.unlink(),
        lambda path: shutil.copy(path, path.with_name("more.safetensors")),
        damage_header,
    ],
)
def test_damaged_shards(change: Callable[[Path], object], run: Path) -> None:
    (path,) = (run / "best").glob("*.safetensors")
    size = path.stat().st_size
    change(path)
    facts = run / "best" / "facts.json"
    if path.exists() and path.stat().st_size != size and change is damage_header:  # so that only the header is wrong
        facts.write_text(json.dumps(json.loads(facts.read_text()) | {"files": {path.name: path.stat().st_size}}))
    with pytest.raises(ValueError, match=r"best: (not a complete checkpoint of transalg|W_e|lacks|model)") as caught:
        transalg.load(run)
    assert len(str(caught.value)) < 600 and "\n" not in str(caught.value)


def test_rows_that_no_shard_has(run: Path) -> None:
    """Two files with the first and the last rows of a matrix: its size is right, and nothing is known of those between."""
    (path,) = (run / "best").glob("*.safetensors")
    with safe_open(path, "pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata())  # noqa: SIM118
    key = next(name for name in metadata if "SHARD" in name.upper())
    offsets, W_e = json.loads(metadata[key]), tensors.pop("model.W_e")
    save_file(tensors | {"model.W_e": W_e[:10].clone()}, path, metadata)
    (inner,) = offsets["model.W_e"]
    more = {key: json.dumps({"model.W_e": {inner: [15, 0]}})}
    other = path.with_name("shard-00002-model-00001-of-00001.safetensors")
    save_file({"model.W_e": W_e[15:].clone()}, other, metadata | more)
    facts = run / "best" / "facts.json"
    sizes = {each.name: each.stat().st_size for each in (path, other)}
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"files": sizes}))
    with pytest.raises(ValueError, match="best: W_e: NaN"):
        transalg.load(run)
