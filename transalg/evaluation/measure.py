"""The metrics of every task on a validation set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from transalg.data.rows import Rows
from transalg.data.sources import TooLong
from transalg.inference.beams import predict
from transalg.inference.ensemble import as_models
from transalg.inference.run import Run
from transalg.model import Classifier, EDTransformer
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.tasks import find
from transalg.tasks.evaluation import evaluation_batches, evaluation_examples
from transalg.tasks.predictions import class_log_probabilities
from transalg.tokenization import Tokenizer
from transalg.training import prepare
from transalg.training.report import Report


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
    models, task = run.models, find(run.task)
    if task.has_labels:
        return _classes(run, as_models(models, Classifier), rows, predictions)
    total, right, count = 0.0, 0, 0
    with report.work("Evaluating", len(rows)) as progress:
        for batch, example in evaluation_examples(task, rows, run.model.hyper):
            inputs, _ = example.part(0, 1, models[0].device)
            log_p, most_probable = task.log_probabilities(models, inputs)
            total, right, count = total - float(log_p.sum()), right + int(most_probable.sum()), count + len(log_p)
            progress(len(batch))
    if not count:
        raise ValueError(f"{data or run.folder}: expected tokens to predict, got none")
    loss = total / count
    figures = {"loss": loss, "perplexity": exp(min(loss, 700.0))}
    if "generate" in task.abilities:  # it predicts every token of the text once
        text_bytes = _bytes(rows, run.tokenizer) if complete else 0
        figures |= {"bits per byte": total / log(2) / text_bytes} if text_bytes else {}
    figures["accuracy"] = right / count
    figures["predicted tokens"] = count
    if "predict" in task.abilities:
        return _pairs(run, as_models(models, EDTransformer), rows, figures, predictions, report)
    return Evaluation(figures, {}, [])


def held_out(run: Run) -> Rows:
    """The validation set of a run."""
    return _data(run, None, None, Report())[0]


def _validation_set(config: Config) -> tuple[object, ...]:
    """The options that determine the validation set of a run."""
    return config.data, config.valid, config.split, config.folds, config.fold


def _data(run: Run, data: str | None, too_long: TooLong | None, report: Report) -> tuple[Rows, bool]:
    """The rows to evaluate on, and whether the vocabulary has every character of the text.

    What is too long in other data is cut, unless `too_long` says otherwise; the validation set of a run is what it was in training.
    """
    config = replace(run.config, too_long=too_long or ("cut" if data else run.config.treats_long))
    share = None if data or config.valid else config.share()
    if not data and not config.valid and share is None:
        raise ValueError(f"{run.folder}: this run has no validation set; give --data")
    source = config.source(data or config.valid or config.data)
    store = prepare.tokens(source, run.tokenizer, run.folder, report, run.labels)
    if share and store.meta.digest != run_folder.model_metadata(run.folder).data:
        raise ValueError(f"{config.data}: has changed since {run.folder} was trained; give --data")
    train, valid = prepare.rows(config if share else replace(config, pack=False), store, source, run.model.hyper, share)
    rows = (train if valid is None else valid).rows()
    if rows.cut:
        report.note(f"{source.name}: {rows.cut:,} of {len(rows):,} texts are longer than ℓ_max = {run.model.hyper.ell_max:,} and are cut")
    return rows, not store.meta.unknown


def _bytes(rows: Rows, tokenizer: Tokenizer) -> int:
    """The length of the predicted text in UTF-8; 0 for a vocabulary of words, whose text cannot be restored exactly."""
    if tokenizer.kind == "word":
        return 0
    special, N_V = tokenizer.special_tokens, tokenizer.N_V
    texts = ["" if token in special else tokenizer.core.id_to_token(token) or "" for token in range(N_V)]
    # a character of a byte-level token stands for a byte
    token_bytes = np.array([len(text) if tokenizer.kind == "bpe" else len(text.encode()) for text in texts])
    total = 0
    for _, batch in evaluation_batches(rows):
        ids, lengths = batch.streams["x"]
        predicted = np.arange(ids.shape[1]) < lengths[:, None]
        predicted[:, 0] = False
        total += int(token_bytes[ids][predicted].sum())
    return total


def _classes(run: Run, models: Sequence[Classifier], rows: Rows, predictions: bool) -> Evaluation:
    N_C = len(run.labels)
    confusion = np.zeros((N_C, N_C), int)  # [true, predicted]
    loss, records = 0.0, list[dict[str, str | float]]()
    for _, example in evaluation_examples(find(run.task), rows, run.model.hyper):
        (x, c, lengths), _ = example.part(0, 1, models[0].device)
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


def _pairs(
    run: Run, models: Sequence[EDTransformer], rows: Rows, figures: dict[str, float], predictions: bool, report: Report
) -> Evaluation:
    import sacrebleu

    sources, references, guesses = list[str](), list[str](), list[str]()
    exact = wrong = length = 0
    with report.work("Predicting", len(rows)) as progress:
        for batch, example in evaluation_examples(find(run.task), rows, run.model.hyper):
            (z, x, z_lengths, x_lengths), _ = example.part(0, 1, models[0].device)
            outputs = predict(
                models,
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
            progress(len(batch))
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
