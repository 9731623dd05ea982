"""The figures: against the formal algorithms, sacrebleu and plain counting."""

import copy
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import torch

from tests.tolerance import tolerance
from tests.training.runs import TASKS, config, files, options
from transalg.evaluation import measure
from transalg.evaluation.baselines import most_frequent, naive_bayes
from transalg.evaluation.measure import _bytes, evaluate, held_out
from transalg.evaluation.pairs import edits
from transalg.hyper import SpecialTokens
from transalg.inference.run import Run
from transalg.model.counterpart import formal_counterpart
from transalg.runs.config import Config
from transalg.tokenization import Tokenizer
from transalg.training.report import Report
from transalg.training.start import train
from transalg.verify.trained import verify


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = files(tmp_path_factory.mktemp("runs"))
    for task in TASKS:
        steps = 60 if task == "seq2seq" else 6  # until it predicts no mask or bos, which text does not show
        train(config(task, folder, {"label_smoothing": 0.1}, steps=steps, dtype="float64"), folder / task)
    return {task: Run.load(folder / task) for task in TASKS}


@pytest.mark.parametrize("task", TASKS)
def test_evaluating_finds_the_validation_loss_of_the_run(task: str, trained: dict[str, Run]) -> None:
    from transalg.runs import folder as run_folder

    evaluation = evaluate(trained[task])
    assert evaluation.figures["loss"] == pytest.approx(run_folder.model_metadata(trained[task].folder).val_loss, abs=1e-10)


def test_language_models_against_the_formal_algorithm(trained: dict[str, Run]) -> None:
    run = trained["lm"]
    lines = (run.folder.parent / "lines.txt").read_text().splitlines()
    total, tokens = 0.0, 0
    for line in lines:
        x = torch.tensor(run.tokenizer.encode(line))
        P = formal_counterpart(run.model.hyper)(x, run.model.theta())
        total -= float(P[x[1:], torch.arange(len(x) - 1)].log().sum())
        tokens += len(x) - 1
    figures = evaluate(run, str(run.folder.parent / "lines.txt")).figures
    assert figures["predicted tokens"] == tokens
    assert figures["loss"] == pytest.approx(total / tokens, abs=1e-10)
    assert figures["perplexity"] == pytest.approx(math.exp(total / tokens))
    assert figures["bits per byte"] == pytest.approx(total / math.log(2) / sum(len(line) for line in lines))


def test_every_token_of_a_long_text_is_predicted_once(trained: dict[str, Run], tmp_path: Path) -> None:
    """A chunk begins with the last token of the one before, which was predicted there."""
    run, text = trained["lm"], "a cat sat on the mat " * 11
    (tmp_path / "long.txt").write_text(text + "\n")
    figures = evaluate(run, str(tmp_path / "long.txt")).figures
    assert len(text) > 7 * run.ell_max and figures["predicted tokens"] == len(text) + 1
    assert figures["bits per byte"] == pytest.approx(figures["loss"] * (len(text) + 1) / math.log(2) / len(text))


def test_pairs_are_counted_as_plainly_as_can_be(trained: dict[str, Run]) -> None:
    evaluation = evaluate(trained["seq2seq"], str(trained["seq2seq"].folder.parent / "pairs.txt"), predictions=True)
    records = evaluation.predictions
    assert len(records) == evaluation.figures["pairs"] == 8 and all(one["target"] == one["source"][::-1] for one in records)
    guesses, references = [one["prediction"] for one in records], [one["target"] for one in records]
    assert evaluation.figures["exact match"] == sum(a == b for a, b in zip(guesses, references, strict=True)) / 8
    assert evaluation.figures["BLEU"] == pytest.approx(sacrebleu.corpus_bleu(guesses, [references]).score)
    wrong = sum(edits(list(map(ord, a)), list(map(ord, b))) for a, b in zip(guesses, references, strict=True))
    assert evaluation.figures["token error rate"] == pytest.approx(wrong / sum(map(len, references)))


def test_classes_are_counted_as_plainly_as_can_be(trained: dict[str, Run]) -> None:
    evaluation = evaluate(trained["classify"], str(trained["classify"].folder.parent / "labels.txt"), predictions=True)
    records = evaluation.predictions
    assert evaluation.figures["accuracy"] == sum(one["label"] == one["prediction"] for one in records) / 8
    for label, figures in evaluation.classes.items():
        true = [one for one in records if one["label"] == label]
        said = [one for one in records if one["prediction"] == label]
        both = [one for one in true if one in said]
        assert figures["texts"] == len(true) and figures["recall"] == len(both) / len(true)
        assert figures["precision"] == (len(both) / len(said) if said else 0)
        assert figures["F1"] == pytest.approx(2 * len(both) / (len(true) + len(said)))


def test_an_ensemble_averages_probabilities(trained: dict[str, Run], tmp_path: Path) -> None:
    for task in ("lm", "classify", "mlm"):
        run = trained[task]
        folder = run.folder.parent
        other = folder / f"{task}-other"
        if not other.exists():
            train(config(task, folder, {"label_smoothing": 0.1}, steps=6, dtype="float64", eta=0.03), other)
        alone = [evaluate(Run.load(each)).figures["loss"] for each in (run.folder, other)]
        together = evaluate(Run.load(run.folder, other)).figures["loss"]
        assert evaluate(Run.load(run.folder, run.folder)).figures["loss"] == pytest.approx(
            alone[0], abs=tolerance(torch.float64, terms=29, depth=2, size=10)
        )
        assert together < sum(alone) / 2, "log is concave"
    with pytest.raises(ValueError, match="expected the task, the vocabulary and the classes"):
        Run.load(trained["lm"].folder, trained["mlm"].folder)


@pytest.mark.parametrize("task", TASKS)
def test_a_trained_model_is_the_formal_algorithm(task: str, trained: dict[str, Run]) -> None:
    verdict = verify(trained[task])
    assert verdict.holds and max(verdict.of_P, verdict.of_gradients) > 0, "two computations"
    broken = replace(trained[task], models=(copy.deepcopy(trained[task].model),))
    with torch.no_grad():
        broken.model.W_e[3] += 1e-3
    assert verify(broken).holds, "another θ is another model, and still equal to its formal algorithm"


def test_what_cannot_be_evaluated(trained: dict[str, Run], tmp_path: Path) -> None:
    run = trained["classify"]
    (tmp_path / "a.txt").write_text("dog\tthe cat\n")
    with pytest.raises(ValueError, match=r"a\.txt:1: expected one of the model's classes, cat, other; got 'dog'"):
        evaluate(run, str(tmp_path / "a.txt"))
    with pytest.raises(ValueError, match="has no validation set; give --data"):
        evaluate(replace(run, configs=(replace(run.config, split=0.0),)))
    (tmp_path / "b.txt").write_text("cat\t" + "a cat " * 99)
    with pytest.raises(ValueError, match=r"b\.txt:1: \d+ tokens, and the model takes 29"):
        evaluate(run, str(tmp_path / "b.txt"), too_long="error")
    (tmp_path / "c.txt").write_text("Привет, a cat")
    assert "bits per byte" not in evaluate(trained["lm"], str(tmp_path / "c.txt")).figures
    with pytest.raises(ValueError, match=r"was trained on the validation set of .*; give --data"):
        evaluate(replace(run, folders=run.folders * 2, models=run.models * 2, configs=(run.config, replace(run.config, split=0.5))))


class OtherSpecialTokens(Tokenizer):
    """Its special tokens are the first three, not the last."""

    special_tokens = SpecialTokens(mask=0, bos=1, eos=2)


def test_bytes_are_those_of_ordinary_tokens(trained: dict[str, Run]) -> None:
    run = trained["lm"]
    rows, other = held_out(run), OtherSpecialTokens(run.tokenizer.core)
    ids, lengths = rows.batch(np.arange(len(rows))).streams["x"]
    predicted = [int(token) for row, length in zip(ids, lengths, strict=True) for token in row[1:length]]
    for tokenizer in (run.tokenizer, other):
        texts = [str(tokenizer.core.id_to_token(token)) for token in predicted if token not in tokenizer.special_tokens]
        assert _bytes(rows, tokenizer) == len("".join(texts).encode()) > 0
    assert _bytes(rows, run.tokenizer) != _bytes(rows, other)


class Notes(Report):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_longer_text_than_in_training_is_taken_or_cut_with_a_note(tmp_path: Path) -> None:
    """ℓ_max from the data leaves room; what is longer still is cut, and said so."""
    files(tmp_path)
    for task, longer in (("classify", "cat\ta dog and a cat ran\n"), ("seq2seq", "a dog and a cat ran\tnar tac a dna god a\n")):
        chosen = options(task, tmp_path, steps=1)
        del chosen["model"]["ell_max"]
        train(Config.from_dict(chosen), tmp_path / task)
        run = Run.load(tmp_path / task)
        longest = max(len(line.split("\t")[1]) for line in Path(chosen["data"]).read_text().splitlines())
        assert longest < 19 and run.ell_max == 32
        (tmp_path / "longer.txt").write_text(longer)
        notes = Notes()
        assert evaluate(run, str(tmp_path / "longer.txt"), report=notes).figures["loss"] > 0 and notes.notes == []
        (tmp_path / "long.txt").write_text(longer + longer.replace("a dog", "a dog and a cat and a mat and a dog"))
        figures = evaluate(run, str(tmp_path / "long.txt"), report=notes).figures
        assert figures["texts" if task == "classify" else "pairs"] == 2
        assert notes.notes == [f"{tmp_path / 'long.txt'}: 1 of 2 texts are longer than ℓ_max = 32 and are cut"]
        assert evaluate(run, str(tmp_path / "long.txt"), too_long="skip").figures["loss"] > 0
        with pytest.raises(ValueError, match=r"long\.txt:2: \d+ tokens, and the model takes 3"):
            evaluate(run, str(tmp_path / "long.txt"), too_long="error")


def test_pairs_of_one_source_are_one_text_with_several_references(
    trained: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, notes, guess = trained["seq2seq"], list[str](), "tac a"
    report = Report()
    report.note = notes.append  # type: ignore[method-assign]
    encode, answers = run.tokenizer.encode, {"a cat": guess, "ran": "na"}
    monkeypatch.setattr(measure, "predict", lambda _, z, **options: [encode(answers[run.tokenizer.decode(row)], ends=False) for row in z])
    (tmp_path / "p.txt").write_text(f"a cat\tdog\nran\tnar\na cat\t{guess}\n")
    (tmp_path / "p.jsonl").write_text(
        json.dumps({"source": "a cat", "target": ["dog", guess]}) + "\n" + json.dumps({"source": "ran", "target": "nar"}) + "\n"
    )
    for name in ("p.txt", "p.jsonl"):
        evaluation = evaluate(run, str(tmp_path / name), predictions=True, report=report)
        figures, (first, second) = evaluation.figures, evaluation.predictions
        assert (figures["pairs"], figures["sources"]) == (3, 2)
        assert notes.pop() == f"{tmp_path / name}: 2 sources, 3 references"
        assert figures["exact match"] == 1 / 2 and figures["token error rate"] == 1 / len("tac a" + "nar")
        assert first == {"row": 1, "where": f"{tmp_path / name}:1", "source": "a cat", "target": ["dog", guess], "prediction": guess}
        assert second["target"] == "nar" and second["where"] == f"{tmp_path / name}:2"
    apart = evaluate(run, str(tmp_path / "p.txt"), references="separate", predictions=True, report=report)
    assert not notes and "sources" not in apart.figures and apart.figures["exact match"] == 1 / 3
    assert [one["where"].rpartition(":")[2] for one in apart.predictions] == ["1", "2", "3"]
    (tmp_path / "p.jsonl").write_text('{"source": "a", "target": []}\n')
    with pytest.raises(ValueError, match=r"p\.jsonl:1: expected a text or several as 'target', got an empty list"):
        evaluate(run, str(tmp_path / "p.jsonl"))


def test_beams_are_those_of_predict(trained: dict[str, Run]) -> None:
    run = trained["seq2seq"]
    data = str(run.folder.parent / "pairs.txt")
    records = {beams: evaluate(run, data, beams=beams, predictions=True).predictions for beams in (None, 1, 5)}
    assert records[None] == records[1]
    for beams in (1, 5):
        assert [one["prediction"] for one in records[beams]] == run.predict([one["source"] for one in records[beams]], beams=beams)
    for task in ("lm", "mlm", "classify"):
        with pytest.raises(ValueError, match=f"beams: expected a model for seq2seq, which predicts texts; got one for {task}"):
            evaluate(trained[task], beams=2)
    with pytest.raises(ValueError, match="beams: expected 1 or more, got 0"):
        evaluate(run, data, beams=0)


def test_predictions_have_the_original_text_and_its_place(trained: dict[str, Run], tmp_path: Path) -> None:
    """Also where some rows are skipped, and where the vocabulary lacks something."""
    run = trained["classify"]
    (tmp_path / "a.csv").write_text(f'label,text\ncat,"a cat,\nÜ"\nother,{"a dog " * 9}\nother,ran\n')
    for too_long, lines in (("skip", (3, 5)), ("cut", (3, 4, 5))):
        records = evaluate(run, str(tmp_path / "a.csv"), predictions=True, too_long=too_long).predictions
        assert [one["where"] for one in records] == [f"{tmp_path / 'a.csv'}:{line}" for line in lines]
        assert [one["row"] for one in records] == [1, 2, 3][:: 2 if too_long == "skip" else 1]
        assert [one["text"] for one in records] == ["a cat,\nÜ", "a dog " * 9, "ran"][:: 2 if too_long == "skip" else 1]
    predictions = evaluate(run, predictions=True).predictions
    lines = (run.folder.parent / "labels.txt").read_text().splitlines()
    for one in predictions:
        assert lines[int(one["where"].rpartition(":")[2]) - 1] == f"{one['label']}\t{one['text']}"


def test_the_confusion_matrix_and_the_calibration_of_a_run(trained: dict[str, Run]) -> None:
    run = trained["classify"]
    evaluation = evaluate(run, str(run.folder.parent / "labels.txt"), predictions=True)
    counts = Counter((one["label"], one["prediction"]) for one in evaluation.predictions)
    assert evaluation.confusion is not None
    assert evaluation.confusion.tolist() == [[counts[true, said] for said in run.labels] for true in run.labels]
    assert sum(each.texts for each in evaluation.calibration) == 8
    mean = sum(one["probability"] for one in evaluation.predictions) / 8
    assert evaluation.figures["calibration error"] >= abs(evaluation.figures["accuracy"] - mean) - 1e-12


def test_baselines(trained: dict[str, Run]) -> None:
    run = trained["classify"]
    validation = held_out(run)
    rows = replace(validation, subset=replace(validation.subset, inside=False, lo=0, hi=0))
    classes = rows.batch(np.arange(len(rows))).classes
    assert classes is not None and len(classes) == 8
    assert most_frequent(rows, rows) == max(np.bincount(classes)) / 8
    assert naive_bayes(rows, rows, run.tokenizer.N_V) > most_frequent(rows, rows)
