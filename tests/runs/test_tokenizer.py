"""A run's tokenizer.json is checked against its model: every ID has one token, and nothing in the file changes how texts are read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import transalg
from tests.runs.damage import copied

Json = dict[str, Any]


def edit(run: Path, change: Callable[[Json], object]) -> None:
    path = run / "tokenizer.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def duplicate(data: Json) -> None:
    data["model"]["vocab"]["A"] = data["model"]["vocab"]["T"]


def missing(data: Json) -> None:
    """The last ordinary token goes, and one of the special tokens takes another ID, as a careful editor would have it."""
    del data["model"]["vocab"]["A"]


def gap(data: Json) -> None:
    """As many IDs as before, but one of them twice as large."""
    data["model"]["vocab"] = {token: one + (one >= 3) for token, one in data["model"]["vocab"].items()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (duplicate, "model.vocab: expected an ID for every token, got .* for both 'A' and 'T'"),
        (missing, "(expected an ID for every token|expected a token for every ID|tokens)"),
        (gap, "(expected an ID for every token|expected a token for every ID|tokens)"),
        (lambda data: data["model"].update(unk_token="<none>"), "model.unk_token: expected a token of the vocabulary, got '<none>'"),
        (lambda data: data.update(added_tokens=[]), "the model has N_V = 25, but tokenizer.json has 22 tokens"),
        (lambda data: data["model"]["vocab"].clear(), "tokens"),
        (lambda data: data.update(model=3), "not a tokenizer.json"),
        (lambda data: data.clear(), "not a tokenizer.json"),
    ],
)
def test_a_vocabulary_that_does_not_fit(change: Callable[[Json], object], said: str, tmp_path: Path) -> None:
    run = copied(tmp_path)
    edit(run, change)
    with pytest.raises(ValueError, match=f"tokenizer.json.*{said}|{said}") as caught:
        transalg.load(run)
    assert "tokenizer.json" in str(caught.value)


def test_every_id_has_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap in a vocabulary whose size is right; the library itself does not make one of a file."""
    from transalg.runs import folder
    from transalg.tokenization.tokenizer import read_core

    run = copied(tmp_path)

    class Gap:
        def __init__(self, core: Any) -> None:
            self.core = core

        model = None

        def get_vocab(self) -> dict[str, int]:
            return {token: one for token, one in self.core.get_vocab().items() if one != 5}

    monkeypatch.setattr(folder, "read_core", lambda path: Gap(read_core(path)))
    with pytest.raises(ValueError, match=r"tokenizer\.json: model\.vocab: expected a token for every ID below 25, got none for 5"):
        transalg.load(run)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(post_processor=None),
        lambda data: data.pop("post_processor"),
        lambda data: data.update(truncation={"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}),
        lambda data: data.update(
            padding={
                "strategy": {"Fixed": 20},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "a",
            }
        ),
    ],
    ids=["no post-processor", "none at all", "truncation", "padding"],
)
def test_what_is_not_used_changes_no_answer(change: Callable[[Json], object], tmp_path: Path) -> None:
    """bos and eos are added here; and no text is cut or padded by the file."""
    run = copied(tmp_path)
    expected = transalg.load(run).score("The cat")
    edit(run, change)
    assert transalg.load(run).score("The cat") == expected


@pytest.mark.parametrize("text", ["[" * 10**5, "\xff", "", "{}", "null", '{"model": ' + "9" * 5000 + "}"], ids=lambda text: text[:9])
def test_a_file_that_is_no_tokenizer(text: str, tmp_path: Path) -> None:
    run = copied(tmp_path)
    (run / "tokenizer.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"tokenizer\.json: (not a tokenizer\.json|expected UTF-8)") as caught:
        transalg.load(run)
    assert len(str(caught.value)) < 400
