"""Vocabularies that lack bos or eos, or have them elsewhere: a run adds the ends that exist, cuts no token of the text, and generates."""

import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Core
from tokenizers import models, pre_tokenizers

import transalg
from tests.strategies import rng
from tests.tolerance import PROMISED
from transalg.hyper import DHyper, EDHyper, EHyper, Hyper, SpecialTokens
from transalg.inference import generate, predict
from transalg.inference.beams import search
from transalg.inference.one_pass import fill
from transalg.inference.results import CutText
from transalg.inference.run import Run
from transalg.model import build
from transalg.runs import checkpoints
from transalg.runs.metadata import Metadata
from transalg.tokenization import Tokenizer, train
from transalg.verify.cases import randomised, small

HYPERS: dict[str, type[Hyper]] = {"lm": DHyper, "mlm": EHyper, "seq2seq": EDHyper}
TEXT = "The cat"
LETTERS = train("char", [TEXT + " sat on the mat.!"])
LAST = LETTERS.special_tokens
WITHOUT = {
    "both": LAST,
    "no eos": SpecialTokens(LAST.mask, LAST.bos, None),
    "no bos": SpecialTokens(LAST.mask, None, LAST.eos),
    "neither": SpecialTokens(LAST.mask, None, None),
}


def untrained(task: str, special: SpecialTokens, tokenizer: Tokenizer = LETTERS) -> Run:
    hyper = small(HYPERS[task], N_V=tokenizer.N_V, ell_max=13, special=special)
    model = randomised(build(hyper, dtype=torch.float64), rng(0)).eval()
    return Run((Path(task),), task, (model,), Tokenizer(tokenizer.core, special=special), (), ())


def ends(special: SpecialTokens) -> tuple[list[int], list[int]]:
    return [special.bos] if special.bos is not None else [], [special.eos] if special.eos is not None else []


@pytest.mark.parametrize("special", WITHOUT.values(), ids=WITHOUT)
def test_every_token_of_a_text_is_scored_that_the_model_can_score(special: SpecialTokens) -> None:
    """Without bos nothing stands before the first token, so only an encoder has its P̂."""
    assert untrained("mlm", special).score(TEXT).tokens == list(TEXT)
    first = 0 if special.bos is not None else 1
    lm = untrained("lm", special)
    assert lm.score(TEXT).tokens == list(TEXT)[first:] == untrained("seq2seq", special).score(TEXT, context="mat").tokens
    assert len(lm.score(TEXT, eos=True).tokens) == len(TEXT) - first + len(ends(special)[1])


@pytest.mark.parametrize("special", WITHOUT.values(), ids=WITHOUT)
def test_a_prompt_loses_none_of_its_tokens(special: SpecialTokens) -> None:
    run = untrained("lm", special)
    assert run.prompt_ids(TEXT) == [*ends(special)[0], *LETTERS.encode(TEXT, ends=False)]


@pytest.mark.parametrize("special", WITHOUT.values(), ids=WITHOUT)
def test_a_cut_text_has_the_ends_that_exist(special: SpecialTokens) -> None:
    run, (before, after) = untrained("lm", special), ends(special)
    ids = LETTERS.encode("The cat sat on the mat.", ends=False)
    with pytest.warns(CutText):
        (row,) = run.encode_all(["The cat sat on the mat."], "text", too_long="cut")
    assert row == [*before, *ids[: 13 - len(before) - len(after)], *after]
    room = 12 - len(before) - len(after)
    assert len(untrained("mlm", special).fill("a" * room + "<mask>")) == 1, "ℓ_max tokens"
    with pytest.raises(ValueError, match="expected every <mask> in the first"):
        untrained("mlm", special).fill("a" * (room + 1) + "<mask>")


def test_a_mask_of_id_0_is_not_taken_for_padding() -> None:
    model = untrained("mlm", SpecialTokens(0, LAST.bos, LAST.eos)).model
    rows = [[5, 0, 7], [3, 2, 0, 4, 0], [1]]
    assert [len(masks) for masks in fill([model], rows, 2)] == [1, 2, 0]
    for together, alone in zip(fill([model], rows, 2), [fill([model], [row], 2)[0] for row in rows], strict=True):
        for some, others in zip(together, alone, strict=True):
            assert [p for _, p in some] == pytest.approx([p for _, p in others], abs=PROMISED)


def test_without_eos_the_length_limit_ends_a_text() -> None:
    run, pairs = untrained("lm", WITHOUT["no eos"]), untrained("seq2seq", WITHOUT["no eos"])
    assert [len(ids) for ids in generate(run.model, [[1, 2], [3]], ell_gen=7, generator=rng(0))] == [7, 7]
    (one,) = run.completions([TEXT], ell_gen=7, seed=1)[0]
    assert len(one.ids) == 7 and not one.ended
    assert len("".join(run.stream(TEXT, ell_gen=7, samplers=(), seed=1))) <= 7
    assert [len(ids) for ids in predict(pairs.model, [[1, 2]], ell_gen=5)] == [5]
    (hypotheses,) = search(pairs.model, [[1, 2]], beams=3, n_best=3, ell_gen=5)
    assert [(len(each.ids), each.ended) for each in hypotheses] == [(5, False)] * 3
    with pytest.raises(ValueError, match="bos_token: this vocabulary has none"):
        untrained("lm", WITHOUT["neither"]).generate("")


def test_words_that_the_vocabulary_lacks_are_unknown_by_any_name() -> None:
    core = Core(models.WordLevel({"cat": 0, "mat": 1, "sat": 2, "[UNK]": 3, "<mask>": 4, "<bos>": 5, "<eos>": 6}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = Tokenizer(core)
    run = untrained("lm", tokenizer.special_tokens, tokenizer)
    assert run.known("a cat") and not run.known("a dog")
    with pytest.raises(ValueError, match="nothing of 'a dog' is in the vocabulary"):
        run.generate("a dog")


RUNS = Path(__file__).parents[1] / "runs" / "format-1"


def rewritten(folder: Path, special: SpecialTokens | None) -> Path:
    """A copy of an earlier run whose model has these special tokens."""
    shutil.copytree(RUNS / "lm", folder)
    tensors, metadata = checkpoints.load(folder / "best.safetensors")
    hyper = metadata.hyper.replace(special=special)
    checkpoints.save(folder / "best.safetensors", tensors, Metadata(task="lm", hyper=hyper, data=metadata.data))
    return folder


def test_the_special_tokens_of_a_run_are_those_of_its_model(tmp_path: Path) -> None:
    special = SpecialTokens(0, 1, 2)
    usual, other = rewritten(tmp_path / "usual", None), rewritten(tmp_path / "other", special)
    run = transalg.load(other)
    assert run.tokenizer.special_tokens == run.model.hyper.special_tokens == special
    assert run.prompt_ids("cat")[0] == 1
    assert len(transalg.load(usual, usual).models) == 2
    with pytest.raises(ValueError, match="expected the task, the vocabulary and the classes"):
        transalg.load(usual, other)
