"""The figures of every task."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

import numpy as np

from transalg.data.rows import Rows
from transalg.data.sources import TooLong
from transalg.inference.beams import predict
from transalg.inference.run import Run
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.tasks import find
from transalg.tasks.evaluation import evaluation_examples
from transalg.tasks.predictions import class_log_probabilities
from transalg.tokenization import Tokenizer
from transalg.training.prepare import rows, tokens
from transalg.training.report import Report

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Measured:
    """What was found: figures in the order to show them, those of every class, and predictions, where there are some."""

    figures: dict[str, float]
    classes: dict[str, dict[str, float]]
    predictions: list[dict[str, Any]]


def evaluate(
    run: Run,
    data: str | None = None,
    *,
    too_long: TooLong | None = None,
    predictions: bool = False,
    report: Report | None = None,
) -> Measured:
    """The figures of a run, or of several whose P̂ is averaged, on data, or on what they held back for validation."""
    for folder, config in zip(run.folders[1:], run.configs[1:], strict=True):
        if not data and _held(config) != _held(run.config):
            raise ValueError(f"{folder}: has trained on what {run.folder} held back; give --data")
    report = report or Report()
    held, everything = _data(run, data, too_long, report)
    if run.ell_max < run.model.hyper.ell_max:
        raise ValueError(f"ell_max: expected at least {run.model.hyper.ell_max} in all runs, as in {run.folder}")
    models, task = list(run.models), find(run.task)
    if task.has_labels:
        return _classes(run, models, held, predictions)
    total, right, count = 0.0, 0, 0
    with report.work("Evaluating", len(held)) as progress:
        for batch, example in evaluation_examples(task, held, run.model.hyper):
            inputs, _ = example.part(0, 1, models[0].device)
            log_p, most_probable = task.log_probabilities(models, inputs)
            total, right, count = total - float(log_p.sum()), right + int(most_probable.sum()), count + len(log_p)
            progress(len(batch))
    if not count:
        raise ValueError(f"{data or run.folder}: there is nothing to predict")
    loss = total / count
    figures = {"loss": loss, "perplexity": exp(min(loss, 700.0))}
    if "generate" in task.abilities:  # it predicts every token of the text once
        text_bytes = _bytes(run, held) if everything else 0
        figures |= {"bits per byte": total / log(2) / text_bytes} if text_bytes else {}
    figures["accuracy"] = right / count
    figures["predicted tokens"] = count
    if "predict" in task.abilities:
        return _pairs(run, models, held, figures, predictions, report)
    return Measured(figures, {}, [])


def held_out(run: Run) -> Rows:
    """What a run held back for validation."""
    return _data(run, None, None, Report())[0]


def _held(config: Config) -> tuple[Any, ...]:
    """What tells which part of which data a run held back."""
    return config.data, config.valid, config.split, config.folds, config.fold


def _data(run: Run, data: str | None, too_long: TooLong | None, report: Report) -> tuple[Rows, bool]:
    """The rows to look at, and whether every character of the text is among their tokens.

    Of other data, what is too long is cut, with a note, unless too_long says otherwise; a run's own validation data is what it was in training.
    """
    config = replace(run.config, too_long=too_long or ("cut" if data else run.config.too_long))
    share = None if data or config.valid else config.share()
    if not data and not config.valid and share is None:
        raise ValueError(f"{run.folder}: this run held nothing back for validation; give --data")
    source = config.source(data or config.valid or config.data)
    store = tokens(source, run.tokenizer, run.folder, report, run.labels)
    if share and store.meta.digest != run_folder.best_metadata(run.folder).data:
        raise ValueError(f"{config.data}: is not what it was when {run.folder} was trained; give --data")
    train, valid = rows(config if share else replace(config, pack=False), store, source, run.model.hyper, share)
    documents = (train if valid is None else valid).rows()
    if documents.cut:
        report.note(
            f"{source.name}: {documents.cut:,} of {len(documents):,} records are longer than ℓ_max = {run.model.hyper.ell_max:,} and are cut"
        )
    return documents, not store.meta.unknown


def _bytes(run: Run, held: Rows) -> int:
    """Of the text that is predicted, in UTF-8; 0 for a vocabulary of words, which does not give text back as it was."""
    tokenizer = run.tokenizer
    if tokenizer.kind == "word":
        return 0
    sizes = np.array([_token_bytes(tokenizer, token) for token in range(tokenizer.N_V)])
    total = 0
    for batch, _ in evaluation_examples(find(run.task), held, run.model.hyper):
        ids, lengths = batch.streams["x"]
        predicted = np.arange(ids.shape[1]) < lengths[:, None]
        predicted[:, 0] = False
        total += int(sizes[ids][predicted].sum())
    return total


def _token_bytes(tokenizer: Tokenizer, token: int) -> int:
    """A special token stands for no text; a character of a byte-level token stands for a byte."""
    if token in tokenizer.special_tokens:
        return 0
    text = str(tokenizer.core.id_to_token(token))
    return len(text) if tokenizer.kind == "bpe" else len(text.encode())


def _classes(run: Run, models: list[Any], held: Rows, keep: bool) -> Measured:
    N_C = len(run.labels)
    table = np.zeros((N_C, N_C), int)  # [true, found]
    loss, kept = 0.0, []
    for _, example in evaluation_examples(find(run.task), held, run.model.hyper):
        (x, c, lengths), _ = example.part(0, 1, models[0].device)
        log_P = class_log_probabilities(models, x, lengths)
        loss -= float(log_P.gather(1, c[:, None]).sum())
        guess = log_P.argmax(dim=1).cpu().numpy()
        np.add.at(table, (c.cpu().numpy(), guess), 1)
        if keep:
            texts = [run.tokenizer.decode(row[:length].tolist()) for row, length in zip(x, lengths, strict=True)]
            probable = log_P.exp().max(dim=1).values.tolist()
            kept += [
                {"text": text, "label": run.labels[true], "prediction": run.labels[found], "probability": p}
                for text, true, found, p in zip(texts, c.tolist(), guess.tolist(), probable, strict=True)
            ]
    right, found, there = np.diag(table), table.sum(axis=0), table.sum(axis=1)
    precision, recall = right / np.maximum(1, found), right / np.maximum(1, there)
    f1 = 2 * right / np.maximum(1, found + there)
    classes = {
        label: {"precision": float(precision[i]), "recall": float(recall[i]), "F1": float(f1[i]), "texts": int(there[i])}
        for i, label in enumerate(run.labels)
    }
    figures = {"accuracy": float(right.sum() / there.sum()), "macro F1": float(f1[there > 0].mean())}
    figures |= {"loss": loss / int(there.sum()), "texts": int(there.sum())}
    return Measured(figures, classes, kept)


def _pairs(run: Run, models: list[Any], held: Rows, figures: dict[str, float], keep: bool, report: Report) -> Measured:
    import sacrebleu

    sources, references, guesses = list[str](), list[str](), list[str]()
    exact = wrong = length = 0
    with report.work("Predicting", len(held)) as progress:
        for batch, example in evaluation_examples(find(run.task), held, run.model.hyper):
            (z, x, z_lengths, x_lengths), _ = example.part(0, 1, models[0].device)
            found = predict(models, [row[:end].tolist() for row, end in zip(z, z_lengths, strict=True)], ell_gen=2 * max(x_lengths) + 8)
            truth = [row[1 : end - 1].tolist() for row, end in zip(x, x_lengths, strict=True)]
            exact += sum(ours == theirs for ours, theirs in zip(found, truth, strict=True))
            wrong += sum(edits(ours, theirs) for ours, theirs in zip(found, truth, strict=True))
            length += sum(len(theirs) for theirs in truth)
            sources += [run.tokenizer.decode(row[:end].tolist()) for row, end in zip(z, z_lengths, strict=True)]
            references += [run.tokenizer.decode(row) for row in truth]
            guesses += [run.tokenizer.decode(row) for row in found]
            progress(len(batch))
    figures |= {"exact match": exact / len(guesses), "token error rate": wrong / max(1, length)}
    figures |= {"BLEU": float(sacrebleu.corpus_bleu(guesses, [references]).score), "pairs": len(guesses)}
    kept = (
        [{"source": z, "target": x, "prediction": guess} for z, x, guess in zip(sources, references, guesses, strict=True)] if keep else []
    )
    return Measured(figures, {}, kept)


def edits(one: Sequence[int], other: Sequence[int]) -> int:
    """How many insertions, deletions and replacements make one of the other (Levenshtein's distance)."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        corner, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (left != right))
    return row[-1]
