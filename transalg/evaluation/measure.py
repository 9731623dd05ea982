"""The metrics of every task on a validation set."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from transalg.data.batches import Plan
from transalg.data.rows import Batch, Rows
from transalg.data.shuffle import derive_seed
from transalg.data.sources import TooLong
from transalg.evaluation.probabilities import class_log_probabilities, log_probabilities
from transalg.inference.beams import predict
from transalg.inference.ensemble import as_models
from transalg.inference.run import Run
from transalg.model import EDTransformer
from transalg.model.architectures import Transformer
from transalg.model.layout import KERNEL_CALL_COST
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.tasks.examples import example
from transalg.tokenization import Tokenizer
from transalg.training import prepare
from transalg.training.report import Report

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Evaluation:
    """The figures in the order to show them, those of every class, and the predictions if they were wanted."""

    figures: dict[str, float]
    classes: dict[str, dict[str, float]]
    predictions: Sequence[Mapping[str, str | float]]


def evaluate(
    run: Run,
    data: str | None = None,
    *,
    too_long: TooLong | None = None,
    predictions: bool = False,
    report: Report | None = None,
) -> Evaluation:
    """The figures of a run, or of an ensemble, on data, or on the validation set of the run."""
    for folder, config in zip(run.folders[1:], run.configs[1:], strict=True):
        if not data and _validation_set(config) != _validation_set(run.config):
            raise ValueError(f"{folder}: was trained on the validation set of {run.folder}; give --data")
    report = report or Report()
    rows, complete = _data(run, data, too_long, report)
    if run.ell_max < run.model.hyper.ell_max:
        raise ValueError(f"ell_max: expected at least {run.model.hyper.ell_max} in all runs, as in {run.folder}")
    models = run.models
    if run.task == "classify":
        return _classes(run, models, rows, predictions)
    device = models[0].device
    total, right, count = 0.0, 0, 0
    with report.work("Evaluating", len(rows)) as progress:
        for i, index, batch in _batches(rows):
            seed = derive_seed(2**31, 0, i)
            arguments, _ = example(run.task, batch, run.model.hyper, seed).part(0, 1, device)
            log_P, best = log_probabilities(models, run.task, arguments)
            total, right, count = total - float(log_P.sum()), right + int(best.sum()), count + len(log_P)
            progress(len(index))
    if not count:
        raise ValueError(f"{data or run.folder}: expected tokens to predict, got none")
    loss = total / count
    figures = {"loss": loss, "perplexity": exp(min(loss, 700.0))}
    if run.task == "lm":
        text_bytes = _bytes(rows, run.tokenizer) if complete else 0
        figures |= {"bits per byte": total / log(2) / text_bytes} if text_bytes else {}
    figures["accuracy"] = right / count
    figures["predicted tokens"] = count
    if run.task == "seq2seq":
        return _pairs(run, models, rows, figures, predictions, report)
    return Evaluation(figures, {}, [])


def held_out(run: Run) -> Rows:
    """The validation set of a run."""
    return _data(run, None, None, Report())[0]


def _validation_set(config: Config) -> tuple[object, ...]:
    """The options that determine the validation set of a run."""
    return config.data, config.valid, config.split, config.folds, config.fold


def _data(run: Run, data: str | None, too_long: TooLong | None, report: Report) -> tuple[Rows, bool]:
    """The rows to evaluate on, and whether the vocabulary has every character of the text."""
    config = run.config if too_long is None else replace(run.config, too_long=too_long)
    share = None if data or config.valid else config.share()
    if not data and not config.valid and share is None:
        raise ValueError(f"{run.folder}: this run has no validation set; give --data")
    source = config.source(data or config.valid or config.data)
    store = prepare.tokens(source, run.tokenizer, run.folder, report, run.labels)
    if share and store.meta.digest != run_folder.facts(run.folder).get("data"):
        raise ValueError(f"{config.data}: has changed since {run.folder} was trained; give --data")
    train, valid = prepare.rows(config if share else replace(config, pack=False), store, source, run.model.hyper, share)
    return (valid if share else train).rows(), not store.meta.unknown


def _batches(rows: Rows) -> Iterator[tuple[int, NDArray[np.int64], Batch]]:
    for i, index in enumerate(Plan(1, tokens=KERNEL_CALL_COST, shuffle=False).batches(rows)):
        yield i, index, rows.batch(np.asarray(index))


def _bytes(rows: Rows, tokenizer: Tokenizer) -> int:
    """The length of the predicted text in UTF-8; 0 for a vocabulary of words, whose text cannot be restored exactly."""
    if tokenizer.kind == "word":
        return 0
    special, N_V = tokenizer.special_tokens, tokenizer.N_V
    texts = ["" if token in special else tokenizer.core.id_to_token(token) or "" for token in range(N_V)]
    # a character of a byte-level token stands for a byte
    token_bytes = np.array([len(text) if tokenizer.kind == "bpe" else len(text.encode()) for text in texts])
    total = 0
    for _, _, batch in _batches(rows):
        ids, lengths = batch.streams["x"]
        predicted = np.arange(ids.shape[1]) < lengths[:, None]
        predicted[:, 0] = False
        total += int(token_bytes[ids][predicted].sum())
    return total


def _classes(run: Run, models: Sequence[Transformer], rows: Rows, predictions: bool) -> Evaluation:
    N_C = len(run.labels)
    confusion = np.zeros((N_C, N_C), int)  # [true, predicted]
    loss, records = 0.0, list[dict[str, str | float]]()
    for _, _, batch in _batches(rows):
        x, c, lengths = example("classify", batch, run.model.hyper, 0).part(0, 1, models[0].device)[0]
        log_P = class_log_probabilities(models, x, lengths)
        loss -= float(log_P.gather(1, c[:, None]).sum())
        guess = log_P.argmax(dim=1).cpu().numpy()
        np.add.at(confusion, (c.cpu().numpy(), guess), 1)
        if predictions:
            texts = [run.tokenizer.decode(row[:length].tolist()) for row, length in zip(x, lengths, strict=True)]
            probable = log_P.exp().max(dim=1).values.tolist()
            records += [
                {"text": text, "label": run.labels[true], "prediction": run.labels[predicted], "probability": p}
                for text, true, predicted, p in zip(texts, c.tolist(), guess.tolist(), probable, strict=True)
            ]
    right, predicted, true = np.diag(confusion), confusion.sum(axis=0), confusion.sum(axis=1)
    precision, recall = right / np.maximum(1, predicted), right / np.maximum(1, true)
    f1 = 2 * right / np.maximum(1, predicted + true)
    classes = {
        label: {"precision": float(precision[i]), "recall": float(recall[i]), "F1": float(f1[i]), "texts": int(true[i])}
        for i, label in enumerate(run.labels)
    }
    figures = {"accuracy": float(right.sum() / true.sum()), "macro F1": float(f1[true > 0].mean())}
    figures |= {"loss": loss / int(true.sum()), "texts": int(true.sum())}
    return Evaluation(figures, classes, records)


def _pairs(run: Run, models: Sequence[Transformer], rows: Rows, figures: dict[str, float], predictions: bool, report: Report) -> Evaluation:
    import sacrebleu

    sources, references, guesses = list[str](), list[str](), list[str]()
    exact = wrong = length = 0
    with report.work("Predicting", len(rows)) as progress:
        for _, index, batch in _batches(rows):
            (z, x, z_lengths, x_lengths), _ = example("seq2seq", batch, run.model.hyper, 0).part(0, 1, models[0].device)
            outputs = predict(
                as_models(models, EDTransformer),
                [row[:end].tolist() for row, end in zip(z, z_lengths, strict=True)],
                ell_gen=2 * max(x_lengths) + 8,
            )
            truth = [row[1 : end - 1].tolist() for row, end in zip(x, x_lengths, strict=True)]
            exact += sum(ours == theirs for ours, theirs in zip(outputs, truth, strict=True))
            wrong += sum(edits(ours, theirs) for ours, theirs in zip(outputs, truth, strict=True))
            length += sum(len(theirs) for theirs in truth)
            sources += [run.tokenizer.decode(row[:end].tolist()) for row, end in zip(z, z_lengths, strict=True)]
            references += [run.tokenizer.decode(row) for row in truth]
            guesses += [run.tokenizer.decode(row) for row in outputs]
            progress(len(index))
    figures |= {"exact match": exact / len(guesses), "token error rate": wrong / max(1, length)}
    figures |= {"BLEU": float(sacrebleu.corpus_bleu(guesses, [references]).score), "pairs": len(guesses)}
    records = (
        [{"source": z, "target": x, "prediction": guess} for z, x, guess in zip(sources, references, guesses, strict=True)]
        if predictions
        else []
    )
    return Evaluation(figures, {}, records)


def edits(one: Sequence[int], other: Sequence[int]) -> int:
    """Levenshtein's distance: the least number of insertions, deletions and replacements that turn one into the other."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        corner, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (left != right))
    return row[-1]
