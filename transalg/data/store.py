"""Token files: a source's records as token IDs on disk, made once, memory-mapped, named by what they were made from."""

import hashlib
import json
import mmap
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from transalg.atomic import temporary_path
from transalg.checks import is_integer
from transalg.data.files import Progress, no_progress, open_regular
from transalg.data.sources import Record, Source
from transalg.terminal import listed, short
from transalg.tokenization import Tokenizer

FORMAT = 3  # of the files
META, LARGEST_META = "meta.json", 2**28  # bytes of it that are read
DTYPES, STREAMS = ("uint16", "uint32"), (["x"], ["z", "x"])
BATCH = 2**21  # characters tokenised at a time
BLOCK = 2**20  # records that are looked at together
TokenIDs = NDArray[np.integer]  # 16 or 32 bits, as the vocabulary needs


@dataclass(frozen=True)
class Meta:
    """The figures of a store."""

    records: int
    tokens: int
    text_bytes: int  # of the texts in UTF-8
    unknown: int  # characters or words that the vocabulary lacks
    dtype: str
    streams: tuple[str, ...]  # x, or z and x
    labels: tuple[str, ...]
    digest: str = ""  # of the source
    parts: int = 0  # all characters or words; 0 where the vocabulary can lack none


@dataclass(frozen=True)
class MappedFile:
    """A file that is mapped into memory, and how long it was then. Reading what it has lost since would end the process without a word."""

    path: Path
    content: mmap.mmap
    size: int

    def check(self) -> None:
        """A ValueError if the file has become shorter."""
        if (now := self.content.size()) < self.size:
            raise ValueError(f"{self.path}: expected {self.size:,} bytes, got {now:,}: something cut it while it was in use; start again")


@dataclass(frozen=True)
class Store:
    """The tokens of all records, one record after the other, and where each begins: bos … eos."""

    meta: Meta
    tokens: dict[str, TokenIDs]
    bounds: dict[str, NDArray[np.int64]]  # one more than there are records
    classes: NDArray[np.int32] | None = None  # of every record, an index into meta.labels
    eos: int | None = None  # ends a record that is cut
    N_V: int | None = None  # token IDs are below it
    files: tuple[MappedFile, ...] = ()

    def __len__(self) -> int:
        return self.meta.records

    def check(self) -> None:
        """Before reading: a ValueError if a file has become shorter."""
        for each in self.files:
            each.check()

    def check_ids(self, ids: NDArray[np.int64]) -> None:
        """A ValueError for a token that the vocabulary does not have."""
        if self.N_V is not None and ids.size and ids.max() >= self.N_V:
            where = self.files[0].path.parent if self.files else "tokens"
            raise ValueError(f"{where}: expected token IDs below {self.N_V:,}, got {ids.max():,}; delete the folder, and it is made again")


def store(source: Source, tokenizer: Tokenizer, folder: Path, *, labels: tuple[str, ...] = (), progress: Progress = no_progress) -> Store:
    """The tokens of a source, in a folder named by the hash of source and tokenizer, which is made if it does not exist.

    Labels are the classes of a trained model, in its order; without them they are those of the source, sorted.
    """
    digest = source.digest()
    made_from = [FORMAT, digest, tokenizer.digest()]
    name = hashlib.blake2b(json.dumps(made_from).encode(), digest_size=12).hexdigest()
    target = folder / name
    if not (target / META).exists():
        temporary = temporary_path(target)  # another run may be making the same
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary.mkdir()
            _write(source, tokenizer, temporary, digest, progress)
            if not target.exists():
                temporary.rename(target)
        except OSError as error:
            if not (target / META).exists():
                raise ValueError(f"{target}: cannot be written: {error.strerror}") from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return _in_order(replace(load(target), eos=tokenizer.eos_token, N_V=tokenizer.N_V), labels, source)


def _in_order(data: Store, labels: tuple[str, ...], source: Source) -> Store:
    """The store with its classes as a model numbers them."""
    if data.classes is None or not labels or data.meta.labels == labels:
        if data.classes is not None and len(data.meta.labels) == 1 and not labels:
            raise ValueError(
                f"{source.name}: expected texts of at least 2 classes, got {len(data)} that are all {short(data.meta.labels[0], 60)!r}"
            )
        return data
    for i, label in enumerate(data.meta.labels):
        if label not in labels:
            where = source.where(int(np.flatnonzero(data.classes == i)[0]))
            raise ValueError(f"{where}: expected one of the model's classes, {listed(labels)}; got {short(label, 60)!r}")
    index = np.array([labels.index(label) for label in data.meta.labels], np.int32)
    return replace(data, meta=replace(data.meta, labels=labels), classes=index[data.classes])


def load(folder: Path) -> Store:
    """A store that is on disk, whoever wrote it: nothing is taken for granted of what its files say of each other."""
    meta = _read_meta(folder / META)
    opened = list[MappedFile]()

    def mapped(name: str, dtype: str, length: int | None = None) -> NDArray[Any]:
        path, each = folder / name, np.dtype(dtype).itemsize
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else None
        except OSError as error:
            raise _damaged(path, f"cannot be read: {error.strerror}") from error
        if size % each or (length is not None and size != length * each):
            expected = f"{length * each:,}" if length is not None else f"a multiple of {each}"
            raise _damaged(path, f"expected {expected} bytes, got {size:,}")
        if content is None:
            return np.empty(0, dtype)
        opened.append(MappedFile(path, content, size))
        return np.frombuffer(content, dtype)

    tokens: dict[str, TokenIDs] = {stream: mapped(f"{stream}.tokens", meta.dtype) for stream in meta.streams}
    bounds: dict[str, NDArray[np.int64]] = {stream: mapped(f"{stream}.bounds", "int64", meta.records + 1) for stream in meta.streams}
    for stream in meta.streams:
        if bounds[stream][0] != 0 or bounds[stream][-1] != len(tokens[stream]) or not _ascends(bounds[stream]):
            raise _damaged(folder / f"{stream}.bounds", f"expected positions from 0 up to {len(tokens[stream]):,}")
    if meta.tokens != sum(map(len, tokens.values())):
        raise _damaged(folder / META, f"tokens: expected {sum(map(len, tokens.values())):,}, as the files have, got {meta.tokens:,}")
    classes = mapped("classes", "int32", meta.records) if meta.labels else None
    if classes is not None and not (classes.min() >= 0 and classes.max() < len(meta.labels)):
        raise _damaged(folder / "classes", f"expected numbers from 0 to {len(meta.labels) - 1}, of the labels in {META}")
    return Store(meta, tokens, bounds, classes, files=tuple(opened))


def _damaged(path: Path, what: str) -> ValueError:
    return ValueError(f"{path}: damaged: {what}; delete {path.parent}, and it is made again")


def _ascends(bounds: NDArray[np.int64]) -> bool:
    blocks = (bounds[i : i + BLOCK + 1] for i in range(0, len(bounds) - 1, BLOCK))
    return all(bool((block[:-1] <= block[1:]).all()) for block in blocks)


def _read_meta(path: Path) -> Meta:
    """The figures of a store; a ValueError with the field that is none."""
    try:
        with open_regular(path) as file:
            values = json.loads(file.read(LARGEST_META).decode())
    except OSError as error:
        raise _damaged(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "not JSON") from error
    if not isinstance(values, dict):
        raise _damaged(path, "expected a JSON object")
    checks: dict[str, tuple[Callable[[Any], bool], str]] = {
        **dict.fromkeys(
            ("records", "tokens", "text_bytes", "unknown", "parts"), (lambda value: is_integer(value) and value >= 0, "a whole number")
        ),
        "dtype": (lambda value: value in DTYPES, " or ".join(DTYPES)),
        "streams": (lambda value: value in STREAMS, " or ".join(map(str, STREAMS))),
        "labels": (lambda value: isinstance(value, list) and all(isinstance(label, str) for label in value), "a list of texts"),
        "digest": (lambda value: isinstance(value, str), "a text"),
    }
    for name, (holds, expected) in checks.items():
        if name not in values or not holds(values[name]):
            raise _damaged(path, f"{name}: expected {expected}, got {short(values.get(name, 'nothing'), 60)}")
    if values["records"] < 1:
        raise _damaged(path, "records: expected at least 1, got 0")
    if unknown := sorted(values.keys() - checks.keys()):
        raise _damaged(path, f"{short(unknown[0], 60)}: there is no such field")
    return Meta(**values | {"streams": tuple(values["streams"]), "labels": tuple(values["labels"])})


class _Stream:
    """The token file of one stream, as it grows."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer, dtype: str) -> None:
        _ = tokenizer.eos_token  # a record needs an end: a ValueError where the vocabulary has none
        with_ends, context = tokenizer.with_ends, name == "z"
        self.ends = tuple(np.array(with_ends([], bos=bos, eos=not bos, context=context), dtype) for bos in (True, False))
        self.dtype, self.written, self.records = dtype, 0, 0
        self.tokens: IO[bytes] = (folder / f"{name}.tokens").open("wb")
        self.bounds: IO[bytes] = (folder / f"{name}.bounds").open("wb")
        self.bounds.write(np.int64(0).tobytes())

    def add(self, pieces: list[TokenIDs], begins: list[bool], ends: list[bool]) -> None:
        """The IDs of some pieces, with bos before each that begins a record and eos after each that ends one, if the vocabulary has them."""
        flat = np.concatenate(pieces)
        starts = np.concatenate(([0], np.cumsum([len(piece) for piece in pieces])))
        complete = np.array(ends, bool)
        begin, end = np.array(begins, bool) & bool(len(self.ends[0])), complete & bool(len(self.ends[1]))
        places = np.concatenate((starts[:-1][begin], starts[1:][end]))
        order = np.concatenate((np.flatnonzero(begin) * 2, np.flatnonzero(end) * 2 + 1))  # an empty piece has bos before eos
        values = np.concatenate((np.repeat(self.ends[0], begin.sum()), np.repeat(self.ends[1], end.sum())))
        sort = np.argsort(order, kind="stable")
        tokens = np.insert(flat, places[sort], values[sort])
        self.tokens.write(tokens.data)
        lasts = starts[1:] + np.cumsum(begin) + np.cumsum(end)  # where each piece ends in `tokens`
        self.bounds.write((self.written + lasts[complete]).astype(np.int64).tobytes())
        self.written += len(tokens)
        self.records += int(complete.sum())

    def close(self) -> None:
        self.tokens.close()
        self.bounds.close()


def _write(source: Source, tokenizer: Tokenizer, folder: Path, digest: str, progress: Progress) -> None:
    dtype = "uint16" if tokenizer.N_V <= 2**16 else "uint32"
    streams = ("z", "x") if source.kind == "pairs" else ("x",)
    files = [_Stream(folder, stream, tokenizer, dtype) for stream in streams]
    text_bytes, unknown, parts, classes = 0, 0, 0, list[str]()
    try:
        for batch, pieces in _encoded(source, tokenizer, dtype, progress):
            begins, ends = [record.begins for record in batch], [record.ends for record in batch]
            for i, file in enumerate(files):
                file.add(pieces[i :: len(files)], begins, ends)
            text_bytes += sum(len(text.encode()) for record in batch for text in record.texts)
            batch_unknown, batch_parts = _unknown(tokenizer, batch, pieces)
            unknown, parts = unknown + batch_unknown, parts + batch_parts
            if source.kind == "labelled":
                classes += [record.label or "" for record in batch]
    finally:
        for file in files:
            file.close()
    labels = tuple(sorted(set(classes)))
    if source.kind == "labelled":
        index = {label: i for i, label in enumerate(labels)}
        np.array([index[label] for label in classes], np.int32).tofile(folder / "classes")
    meta = Meta(files[0].records, sum(file.written for file in files), text_bytes, unknown, dtype, streams, labels, digest, parts)
    (folder / META).write_text(json.dumps(asdict(meta), ensure_ascii=False), encoding="utf-8")


def _encoded(source: Source, tokenizer: Tokenizer, dtype: str, progress: Progress) -> Iterator[tuple[list[Record], list[TokenIDs]]]:
    """Batches of records with the IDs of their texts. The library tokenises one on all cores while the one before is written."""
    table = _table(tokenizer)
    with ThreadPoolExecutor(1) as worker:
        waiting: tuple[list[Record], Future[list[tokenizers.Encoding]]] | None = None
        for batch in _batches(source, progress):
            texts = [text for record in batch for text in record.texts]
            if table is not None:
                yield batch, [_looked_up(text, table).astype(dtype) for text in texts]
                continue
            following = batch, worker.submit(tokenizer.encodings, texts)
            if waiting:
                yield waiting[0], [np.array(encoding.ids, dtype) for encoding in waiting[1].result()]
            waiting = following
        if waiting:
            yield waiting[0], [np.array(encoding.ids, dtype) for encoding in waiting[1].result()]


def _table(tokenizer: Tokenizer) -> NDArray[np.int32] | None:
    """Where tokens are characters, the token ID of every Unicode character, −1 for those that have none; the library takes fifty times as long."""
    if tokenizer.kind != "char":
        return None
    table = np.full(sys.maxunicode + 1, -1, np.int32)
    for token, one in tokenizer.core.get_vocab().items():
        if len(token) == 1:  # mask, bos and eos have longer names
            table[ord(token)] = one
    return table


def _looked_up(text: str, table: NDArray[np.int32]) -> NDArray[np.int32]:
    ids = table[np.frombuffer(text.encode("utf-32-le"), np.uint32)]
    return np.asarray(ids[ids >= 0])


def _batches(source: Source, progress: Progress) -> Iterator[list[Record]]:
    batch, size = list[Record](), 0
    for record in source.records(progress):
        batch.append(record)
        size += sum(len(text) for text in record.texts)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _unknown(tokenizer: Tokenizer, batch: list[Record], pieces: list[TokenIDs]) -> tuple[int, int]:
    """How many characters, or words, of the batch the vocabulary lacks, and how many there are."""
    tokens = sum(len(piece) for piece in pieces)
    if tokenizer.kind == "char":
        characters = sum(len(text) for record in batch for text in record.texts)
        return characters - tokens, characters
    unknown = tokenizer.unknown_token
    return (0, 0) if unknown is None else (sum(int((piece == unknown).sum()) for piece in pieces), tokens)
