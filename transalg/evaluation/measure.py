"""The metrics of every task on a validation set."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transalg.checks import integer
from transalg.data.mixture import of_head, set_numbers
from transalg.data.rows import Rows
from transalg.data.sources import Record, Source, TooLong
from transalg.evaluation.classes import Bin, calibration, class_figures, confusion_matrix, expected_calibration_error
from transalg.evaluation.pairs import bleu, exact_match, token_error_rate
from transalg.inference.beams import ROWS, predict
from transalg.inference.ensemble import as_models
from transalg.inference.results import number
from transalg.inference.run import Run
from transalg.model import Classifier, EDTransformer
from transalg.runs import folder as run_folder
from transalg.runs.config import Config, several
from transalg.tasks import TASKS, find
from transalg.tasks.evaluation import evaluation_batches, evaluation_examples
from transalg.tasks.predictions import block_log_probabilities, class_log_probabilities
from transalg.tokenization import Tokenizer
from transalg.training import prepare
from transalg.training.report import Report

References = Literal["merge", "separate"]  # pairs with the same source: one text with several references, or a text each


@dataclass(frozen=True)
class Evaluation:
    """The figures in the order to show them, and the predictions if they were wanted; of a classifier, more about its classes."""

    figures: dict[str, float]
    predictions: Sequence[Mapping[str, str | float | list[str]]] = ()
    classes: dict[str, dict[str, float]] = field(default_factory=dict)  # by their labels
    confusion: NDArray[np.int64] | None = None  # [true, predicted], in the order of the labels
    calibration: Sequence[Bin] = ()


def evaluate(
    run: Run,
    data: str | None = None,
    *,
    head: str | None = None,
    too_long: TooLong | None = None,
    predictions: bool = False,
    beams: int | None = None,
    references: References = "merge",
    report: Report | None = None,
) -> Evaluation:
    """The figures of a run, or of an ensemble, on data, or on the validation set of the run.

    A model of several data sets is evaluated on the validation sets of all of them, or with the name of a head on one; data of your own take
    a head. Texts are predicted greedily, or by beam search. Pairs with the same source are one text with several references, unless these are to be
    `separate`.
    """
    task = find(run.task)
    if beams is not None and "predict" not in task.abilities:
        others = ", ".join(name for name, other in TASKS.items() if "predict" in other.abilities)
        raise ValueError(f"beams: expected a model for {others}, which predicts texts; got one for {run.task}")
    if "score" in task.abilities:
        run.can("score")  # a model that lacks its head says nothing about tokens
    integer("beams", 1 if beams is None else beams, 1)
    for folder, config in zip(run.folders[1:], run.configs[1:], strict=True):
        if not data and _validation_set(config) != _validation_set(run.config):
            raise ValueError(f"{folder}: was trained on the validation set of {run.folder}; give --data")
    report = report or Report()
    if head is not None or (data and task.has_heads):
        run.head(head)
        head = head or next(iter(run.heads))
    rows, source, complete = _data(run, data, too_long, report, head)
    if run.ell_max < run.model.hyper.ell_max:
        raise ValueError(f"ell_max: expected at least {run.model.hyper.ell_max} in all runs, as in {run.folder}")
    models = run.models
    if task.has_labels:
        return _classes(run, as_models(models, Classifier), rows, source if predictions else None, head)
    total, right, count = 0.0, 0, 0
    with report.work("Evaluating", len(rows)) as progress:
        for batch, example in evaluation_examples(task, rows, run.model.hyper):
            inputs, _ = example.part(0, 1, models[0].device)
            log_p, most_probable = task.log_probabilities(models, inputs)
            total, right, count = total - float(log_p.sum()), right + int(most_probable.sum()), count + len(log_p)
            progress(len(batch))
    if not count:
        raise ValueError(f"{data or run.folder}: expected tokens to predict, got none")
    loss = number(total / count)
    figures = {"loss": loss, "perplexity": exp(min(loss, 700.0))}
    if "generate" in task.abilities:  # it predicts every token of the text once
        text_bytes = _bytes(rows, run.tokenizer) if complete else 0
        figures |= {"bits per byte": total / log(2) / text_bytes} if text_bytes else {}
    figures["accuracy"] = right / count
    figures["predicted tokens"] = count
    if "predict" in task.abilities:
        return _pairs(run, as_models(models, EDTransformer), rows, source, figures, beams or 1, references, predictions, report)
    return Evaluation(figures)


def held_out(run: Run) -> Rows:
    """The validation set of a run."""
    return _data(run, None, None, Report())[0]


def _validation_set(config: Config) -> tuple[object, ...]:
    """The options that determine the validation set of a run."""
    data, valid = (
        [Path(name).resolve() if Path(name).exists() else name for name in several(names)] for names in (config.data, config.valid)
    )
    return data, valid, config.split, config.folds, config.fold


def _data(run: Run, data: str | None, too_long: TooLong | None, report: Report, head: str | None = None) -> tuple[Rows, Source, bool]:
    """The rows to evaluate on, of one head if it is named, where they come from, and whether the vocabulary has every character of the text.

    What is too long in other data is cut, unless `too_long` says otherwise; the validation set of a run is what it was in training.
    """
    config = replace(run.config, too_long=too_long or ("cut" if data else run.config.treats_long))
    share = None if data or config.valid else config.share()
    if not data and not config.valid and share is None:
        raise ValueError(f"{run.folder}: this run has no validation set; give --data")
    try:
        source = config.source(data, head) if data else config.source(config.valid or config.data)
    except ValueError as error:
        raise error if data else ValueError(f"{run.folder}: its own data cannot be used: {error}; give --data") from error
    store = prepare.tokens(source, run.tokenizer, run.folder, report, run.labels, in_summary=share is not None)
    if share and store.meta.digest != run_folder.model_metadata(run.folder).data:
        raise ValueError(f"{source.name}: has changed since {run.folder} was trained; give --data")
    train, valid = prepare.rows(config if share else replace(config, pack=False), store, source, run.model.hyper, share)
    rows = (train if valid is None else valid).rows()
    rows = rows if head is None else of_head(rows, run.heads, head)
    if rows.cut:
        report.note(f"{source.name}: {rows.cut:,} of {len(rows):,} texts are longer than ℓ_max = {run.model.hyper.ell_max:,} and are cut")
    return rows, source, not store.meta.unknown


def _records(source: Source, rows: Rows) -> list[tuple[int, Record]]:
    """The record of every row, with the original text, and its number in the data, from 1."""
    numbers = rows.records(np.arange(len(rows)))
    wanted = set(numbers.tolist())
    records = {i: record for i, record in enumerate(source.records()) if i in wanted}
    return [(i + 1, records[i]) for i in numbers.tolist()]


def _bytes(rows: Rows, tokenizer: Tokenizer) -> int:
    """The length of the predicted text in UTF-8; 0 for a vocabulary whose tokens do not tell it."""
    if tokenizer.kind == "word" or (tokenizer.kind == "bpe" and not tokenizer.byte_level):
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


def _classes(run: Run, models: Sequence[Classifier], rows: Rows, source: Source | None, head: str | None) -> Evaluation:
    """With a source, the predictions as well. Of several heads, loss and accuracy are means over the data sets."""
    task, heads = find(run.task), tuple(run.heads.values())
    block, labels = run.head(head) if head is not None or len(heads) < 2 else (range(len(run.labels)), run.labels)
    log_p, true, guesses, confidence = list[float](), list[int](), list[int](), list[float]()
    for _, example in evaluation_examples(task, rows, run.model.hyper):
        (x, c, lengths), _ = example.part(0, 1, models[0].device)
        log_P = block_log_probabilities(models, x, c, heads, lengths) if heads else class_log_probabilities(models, x, lengths)
        log_p += log_P.gather(1, c[:, None])[:, 0].tolist()
        most = log_P.max(dim=1)
        confidence += most.values.exp().tolist()
        true, guesses = true + (c - block.start).tolist(), guesses + (most.indices - block.start).tolist()
    confusion = confusion_matrix(np.array(true), np.array(guesses), len(labels))
    bins = calibration(np.array(confidence), np.array(true) == np.array(guesses))
    classes = class_figures(confusion, labels)
    sets = {name: each for name, each in run.heads.items() if head is None and len(heads) > 1}
    numbers = set_numbers(np.array(true), sets) if sets else np.zeros(len(true), np.int64)
    of_sets = {name: numbers == i for i, name in enumerate(sets or [""]) if (numbers == i).any()}
    right, losses = np.array(true) == np.array(guesses), -np.array([number(one) for one in log_p])
    accuracies = {name: float(right[which].mean()) for name, which in of_sets.items()}
    figures = {
        "accuracy": float(np.mean(list(accuracies.values()))),
        **({f"accuracy of {name}": accuracy for name, accuracy in accuracies.items()} if sets else {}),
        "macro F1": float(np.mean([each["F1"] for each in classes.values() if each["texts"]])),
        "loss": float(np.mean([losses[which].mean() for which in of_sets.values()])),
        "calibration error": expected_calibration_error(bins),
        "texts": len(true),
    }
    evaluation = Evaluation(figures, (), classes, confusion, bins)
    if source is None:
        return evaluation
    predictions = [
        {"row": row, "where": record.where, "text": record.texts[0], "label": labels[c], "prediction": labels[guess], "probability": p}
        for (row, record), c, guess, p in zip(_records(source, rows), true, guesses, confidence, strict=True)
    ]
    return replace(evaluation, predictions=predictions)


def _pairs(
    run: Run,
    models: Sequence[EDTransformer],
    rows: Rows,
    source: Source,
    figures: dict[str, float],
    beams: int,
    references: References,
    predictions: bool,
    report: Report,
) -> Evaluation:
    numbered = _records(source, rows)
    records = [record for _, record in numbered]
    z, x = _stream(rows, "z"), [row[1:-1] for row in _stream(rows, "x")]
    texts: dict[object, list[int]] = {}  # which rows have the same source
    for i, record in enumerate(records):
        texts.setdefault(record.texts[0] if references == "merge" else i, []).append(i)
    groups = list(texts.values())
    guesses = list[list[int]]()
    with report.work("Predicting", len(groups)) as progress:
        for first in range(0, len(groups), ROWS):
            batch = groups[first : first + ROWS]
            longest = max(len(x[i]) for group in batch for i in group) + 2
            guesses += predict(models, [z[group[0]] for group in batch], beams=beams, ell_gen=2 * longest + 8)
            progress(len(batch))
    shown, originals = [run.tokenizer.decode(ids) for ids in guesses], [[records[i].texts[1] for i in group] for group in groups]
    truth = [[x[i] for i in group] for group in groups]
    figures |= {"exact match": exact_match(guesses, truth), "token error rate": token_error_rate(guesses, truth)}
    figures |= {"BLEU": bleu(shown, originals), "pairs": len(rows)}
    if len(groups) < len(rows):
        figures["sources"] = len(groups)
        report.note(f"{source.name}: {len(groups):,} sources, {len(rows):,} references")
    lines = [
        {
            "row": numbered[group[0]][0],
            "where": records[group[0]].where,
            "source": records[group[0]].texts[0],
            "target": targets[0] if len(targets) == 1 else targets,
            "prediction": text,
        }
        for group, targets, text in zip(groups, originals, shown, strict=True)
    ]
    return Evaluation(figures, lines if predictions else ())


def _stream(rows: Rows, name: str) -> list[list[int]]:
    """The token IDs of every row, bos and eos among them."""

    def each() -> Iterator[list[int]]:
        for _, batch in evaluation_batches(rows):
            ids, lengths = batch.streams[name]
            yield from (row[:length].tolist() for row, length in zip(ids, lengths, strict=True))

    return list(each())
