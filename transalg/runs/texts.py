"""The texts of a Python program in the folder of their run, as JSON lines: a run can be resumed, evaluated and moved without the program."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from transalg.atomic import atomic_write, temporary_path

TEXTS = "texts"  # the folder in a run's folder


@dataclass(frozen=True)
class Texts:
    """JSON lines by the names of their files in RUN/texts, each line once."""

    lines: dict[str, Iterator[str]]

    @contextmanager
    def written(self, out: Path) -> Iterator[None]:
        """Write them to the folder of a run. If the block fails, what was there before is there again."""
        is_new, replaced = not out.exists(), dict[Path, Path | None]()
        try:
            for name, lines in self.lines.items():
                path = file(out, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                replaced[path] = path.rename(temporary_path(path)) if path.exists() else None
                with atomic_write(path) as opened:
                    opened.writelines(f"{line}\n" for line in lines)
            yield
        except BaseException:
            for path, previous in replaced.items():
                if previous is not None:
                    previous.replace(path)
                else:
                    path.unlink(missing_ok=True)
                _remove_empty(path.parent)
            _remove_empty(out / TEXTS)
            if is_new:
                _remove_empty(out)
            raise
        for previous in replaced.values():
            if previous is not None:
                previous.unlink(missing_ok=True)

    def compare(self, out: Path) -> None:
        """A ValueError if the run in this folder was started with other texts."""
        for name, lines in self.lines.items():
            path, option = file(out, name), Path(name).parts[0].removesuffix(".jsonl")
            if not path.exists():
                raise ValueError(f"{option}: {out} was not started with texts from Python, for there is no {path}; resume it without")
            with path.open(encoding="utf-8", newline="\n") as saved:
                for i, (ours, line) in enumerate(zip_longest(lines, saved), 1):
                    if ours is None or line is None or ours != line.removesuffix("\n"):
                        raise ValueError(
                            f"{option}, record {i:,}: is not what it was when {out} was started; give the same texts, or none, or start over"
                        )


def file(out: Path, name: str) -> Path:
    """Where texts of this name lie in the folder of a run."""
    return out / TEXTS / name


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
