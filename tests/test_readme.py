"""What the README and the pages of docs/ show: Python runs, commands are understood, and what is quoted is so."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
import tyro

from tests.training.runs import WORDS, config, files
from transalg.cli import Verb
from transalg.formal import DTheta, DTransformer
from transalg.training.start import train
from transalg.verify.module_laws import LAWS

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
}
RUNS = {"book": "lm", "bert": "mlm", "dates": "seq2seq", "labels": "classify"}  # those that the pages name


def code(page: str) -> list[str]:
    """The Python of a page."""
    return re.findall(r"```python\n(.*?)```", PAGES[page], re.S)


def commands(page: str) -> list[str]:
    """What follows transalg, also after torchrun, in the lines of a page that begin so, up to the explanation."""
    blocks = "".join(block for block in PAGES[page].split("```")[1::2] if block.startswith("\n"))
    return re.findall(r"^(?:torchrun .* -m )?transalg (.*?)(?: {2,}.*)?$", re.sub(r"\\\n +", "", blocks), re.M)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_shown_is_understood(page: str) -> None:
    """As the command line parses it."""
    for line in commands(page):
        words = shlex.split(line.split(" > ")[0])
        if words[-1] != "--help":
            tyro.cli(Verb, args=words, config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff))


def test_commands_are_found() -> None:
    assert commands("README.md")[0] == "train lm --data book.txt --out runs/book"
    assert any(line.endswith('--prompt "Once upon" --tau 0.8 --top-p 0.95') for line in commands("README.md"))
    assert any(line.endswith("--train.no-shift") for line in commands("docs/training.md")), "continued lines are one command"


# Python ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small run of every task."""
    folder = tmp_path_factory.mktemp("pages")
    files(folder)
    with open(folder / "lines.txt", "a", encoding="utf-8") as file:
        file.writelines(f"{word} Once upon a time.\n" for word in WORDS)
    for name, task in RUNS.items():
        train(config(task, folder, {"ell_max": 61}), folder / "runs" / name)
    return folder


@pytest.mark.slow
def test_the_readme_runs(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(runs)
    names: dict[str, Any] = {}
    for block in code("README.md"):
        exec(block, names)
    assert capsys.readouterr().out.strip()
    P = names["model"](torch.tensor([[9, 3, 1, 4]]))[0].softmax(-1).mT
    assert torch.allclose(P, names["P"], rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore::UserWarning")  # characters that the small vocabularies do not have
def test_using_runs(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    names: dict[str, Any] = {}
    for block in code("docs/using.md"):
        exec(block, names)
    assert names["small"] is not names["model"] and names["run"].completions(["Once"], ell_gen=2)


def test_the_data_of_gato_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in code("docs/gato.md"):
        exec(block, names)
    assert len(names["batch"]) == 8 and (tmp_path / "episodes/mine/meta.json").exists()


@pytest.mark.slow
def test_the_library_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in code("docs/library.md"):
        exec(block, names)
    assert names["outcome"].reason == "done" and len(names["losses"]) == 10
    assert names["findings"].broken == ("causality", "positions", "padding", "batch")
    for law in LAWS:
        assert re.search(rf"^\| .*\b{law}\b.* \|", PAGES["docs/library.md"], re.M), law


@pytest.mark.slow
def test_the_paper_in_python_runs_and_gives_what_is_said() -> None:
    excerpt, *rest = code("docs/formal.md")
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    for block in rest:
        exec(block, names)
    assert names["P"].shape == (11, 7)
    assert names["y"].tolist() == [1, 4, 1, 5, 10]
    assert names["trace"].steps and names["html"].startswith("<!")
    source = (ROOT / "transalg/formal/architectures.py").read_text(encoding="utf-8")
    assert "\n".join(f"        {line}" for line in excerpt.strip().splitlines()) in source, "the excerpt is the source"


def test_the_engine_in_python_runs_and_gives_what_is_said() -> None:
    batch, mixed, decoding, *_ = code("docs/architecture.md")
    names: dict[str, Any] = {}
    exec(batch + mixed, names)
    assert names["prefill"].shape == names["action"].shape == (1, 300)
    exec(batch + decoding, names)
    assert names["logits"].shape == (2, 3, 300) and not names["logits"][1, 2].any()
    assert len(names["X"]) == 5
    assert names["prefill"].shape == (2, 2, 300) and names["step"].shape == (2, 300)
    assert names["cache"].lengths == [3, 3]
    assert all(ours.equal(same) for ours, same in zip(names["model"].parameters(), names["same"].parameters(), strict=True))


def test_the_message_shown_is_the_real_one() -> None:
    theta = DTheta.init(N_V=11, ell_max=12, L=1, H=2, d_e=16, d_mlp=32)
    with pytest.raises(ValueError) as refusal:  # noqa: PT011
        DTransformer([1] * 13, theta)
    assert f"`{refusal.value}`" in PAGES["docs/formal.md"]


# Links and words -------------------------------------------------------------------------------------------------------


def anchors(page: str) -> set[str]:
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", PAGES[page], re.M)}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", re.sub(r"```.*?```|`[^`]*`", "", PAGES[page], flags=re.S)):
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        assert file.exists(), target
        name = file.resolve().relative_to(ROOT).as_posix()
        assert not anchor or name not in PAGES or anchor in anchors(name), target


@pytest.mark.parametrize("page", PAGES)
def test_the_fields_words(page: str) -> None:
    for word in ("asked for", "hold it against", "held against", "goes on with", "go on with", "begins anew"):
        assert word not in PAGES[page], word
