"""Several labelled data sets as one source. The class of a text is NAME/label, so the classes of a data set are a block of all of them."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from transalg.data.files import Progress, no_progress
from transalg.data.sources import Record, Source


def dataset_name(data: str) -> str:
    """What a data set is called: its file without suffixes, or its folder.

    >>> dataset_name("texts/trec.csv"), dataset_name("sst2.tsv.gz"), dataset_name("stdlib")
    ('trec', 'sst2', 'stdlib')
    """
    path = Path(os.path.abspath(data))
    return path.name if path.is_dir() else Path(path.name.removesuffix(".gz")).stem


def blocks(labels: Sequence[str]) -> dict[str, range]:
    """Which of the classes belong to each data set.

    >>> blocks(["sst2/bad", "sst2/good", "trec/ENTY", "trec/HUM", "trec/NUM"])
    {'sst2': range(0, 2), 'trec': range(2, 5)}
    """
    names = [label.partition("/")[0] for label in labels]
    return {name: range(names.index(name), names.index(name) + names.count(name)) for name in dict.fromkeys(names)}


@dataclass(frozen=True)
class DataSets(Source):
    """Labelled data sets, one after the other."""

    parts: tuple[Source, ...] = ()
    heads: tuple[str, ...] = ()  # the name of each

    @classmethod
    def of(cls, parts: Sequence[Source], heads: Sequence[str]) -> "DataSets":
        return cls(", ".join(part.name for part in parts), "labelled", parts[0].columns, parts=tuple(parts), heads=tuple(heads))

    def __post_init__(self) -> None:
        """Each part has checked itself."""

    @property
    def builtin(self) -> bool:
        return False

    def records(self, progress: Progress = no_progress) -> Iterator[Record]:
        for head, part in zip(self.heads, self.parts, strict=True):
            yield from (record._replace(label=f"{head}/{record.label}") for record in part.records(progress))

    def notes(self) -> list[str]:
        return [note for part in self.parts for note in part.notes()]

    def size(self) -> int:
        return sum(part.size() for part in self.parts)

    def digest(self) -> str:
        digests = [(head, part.digest()) for head, part in zip(self.heads, self.parts, strict=True)]
        return hashlib.blake2b(json.dumps(digests).encode(), digest_size=16).hexdigest()

    def files(self) -> list[Path]:
        return [path for part in self.parts if not part.builtin for path in part.files()]
