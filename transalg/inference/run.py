"""A trained model with its tokenizer: text in, text out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from transalg.cpu.kernels import pack
from transalg.cpu.kernels import quantize as quantized
from transalg.inference import beams as seq2seq
from transalg.inference import one_pass
from transalg.inference.decoding import ROWS, Continuation, Decoding, begin, by_length, own_numbers, shortest
from transalg.inference.detokenizer import IncrementalDetokenizer, stop_strings
from transalg.inference.results import Classification, Completion, Score
from transalg.inference.samplers import Sampler, samplers
from transalg.runs import folder as run_folder
from transalg.runs.config import Config, read
from transalg.runs.models import device_named, load_best
from transalg.tasks import Ability, find
from transalg.tokenization import Tokenizer
from transalg.tokenization.tokenizer import UNKNOWN

Quantize = Literal["int8"] | None
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Run:
    """A run, read back: its best model, its tokenizer, its options. Several runs of one vocabulary are an ensemble, whose P̂ is averaged."""

    folders: tuple[Path, ...]
    task: str
    models: tuple[Any, ...]
    tokenizer: Tokenizer
    labels: tuple[str, ...]
    configs: tuple[Config, ...]
    packed: dict[bool, tuple[Any, ...]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, *folders: str | Path, device: str = "cpu", quantize: Quantize = None) -> "Run":
        """The runs in these folders, on this device; with their weights in 8 bits if asked for."""
        if not folders:
            raise ValueError("expected the folder of a run")
        found = [cls._one(Path(folder), device) for folder in folders]
        first = found[0]
        for other in found[1:]:
            if (other.task, other.labels, other.tokenizer.core.to_str()) != (first.task, first.labels, first.tokenizer.core.to_str()):
                raise ValueError(f"{other.folder}: expected the task, the vocabulary and the classes of {first.folder}, got others")
        models = [quantized(each.model, quantize) if quantize else each.model for each in found]
        configs = tuple(each.configs[0] for each in found)
        return cls(tuple(each.folder for each in found), first.task, tuple(models), first.tokenizer, first.labels, configs)

    @classmethod
    def _one(cls, folder: Path, device: str) -> "Run":
        model, metadata = load_best(folder, device_named(device))
        tokenizer = Tokenizer.load(folder / run_folder.TOKENIZER)
        if tokenizer.N_V != model.hyper.N_V:
            raise ValueError(f"{folder}: the model has N_V = {model.hyper.N_V}, but tokenizer.json has {tokenizer.N_V} tokens")
        config = Config.from_dict(read(folder / run_folder.CONFIG))
        return cls((folder,), metadata.task, (model,), tokenizer, metadata.labels, (config,))

    @property
    def folder(self) -> Path:
        return self.folders[0]

    @property
    def model(self) -> Any:
        return self.models[0]

    @property
    def config(self) -> Config:
        return self.configs[0]

    @property
    def ell_max(self) -> int:
        return shortest(self.models)

    def _decoders(self, rows: int) -> tuple[Any, ...]:
        """The models in the form that is fastest for so many rows at a time, made when first asked for."""
        alone = rows == 1
        if alone not in self.packed:
            self.packed[alone] = tuple(pack(model, 1 if alone else None) for model in self.models)
        return self.packed[alone]

    # Algorithm 14 ------------------------------------------------------------------------------------------------------

    def generate(self, prompt: str | Sequence[str] = "", *, samples: int = 1, **options: Any) -> Any:
        """What follows a prompt, or each of several; a list of as many as `samples` says, if it is more than 1.

        Options: ell_gen (200), tau (1), top_k, top_p, repetition_penalty, samplers instead of these, stop strings, seed, truncate.
        """
        found = self.written(_several(prompt, "prompt"), samples=samples, **options)
        texts = [[one.text for one in each] if samples > 1 else each[0].text for each in found]
        return texts[0] if isinstance(prompt, str) else texts

    def stream(self, prompt: str = "", *, stop: str | Sequence[str] = (), **options: Any) -> Iterator[str]:
        """What follows a prompt, piece by piece as it comes, whole characters only."""
        decoding = self._begin([prompt], 1, **options)
        stops, text, seen = stop_strings(stop), IncrementalDetokenizer(self.tokenizer, decoding.rows[0]), 0
        while decoding.going:
            came = decoding.step()
            text.add(token for _, token in came)
            cut = text.cut(stops)
            if cut is not None:
                decoding.end(0)
            ready = len(text.text) - text.pending(stops) if cut is None and decoding.going else len(text.whole()) if cut is None else cut
            if ready > seen:
                yield text.text[seen:ready]
                seen = ready

    def written(
        self,
        prompts: Sequence[str],
        *,
        samples: int = 1,
        stop: str | Sequence[str] = (),
        progress: Progress = lambda _: None,
        **options: Any,
    ) -> list[list[Completion]]:
        """The same as `generate`, with token IDs and log P̂; so many samples for every prompt."""
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise ValueError(f"samples: expected 1 or more, got {samples}")
        stops = stop_strings(stop)
        results: list[list[Completion]] = [[] for _ in prompts]
        for index in by_length(prompts, max(1, ROWS // samples)):
            decoding = self._begin([prompts[i] for i in index], samples, **options)
            texts = [IncrementalDetokenizer(self.tokenizer, row) for row in decoding.rows]
            while decoding.going:
                for row, token in decoding.step():
                    if stops:
                        texts[row].add([token])
                        if texts[row].cut(stops) is not None:
                            decoding.end(row)
            for k, i in enumerate(index):
                rows = range(k * samples, (k + 1) * samples)
                results[i] = [self._written(decoding.rows[row], decoding.found[row], stops) for row in rows]
                progress(1)
        return results

    def _begin(
        self,
        prompts: Sequence[str],
        count: int,
        *,
        ell_gen: int = 200,
        tau: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        chosen: Sequence[Sampler] | None = None,
        seed: int | None = None,
        truncate: bool = False,
    ) -> Decoding:
        self.can("generate")
        given = tuple(chosen) if chosen is not None else samplers(tau, top_k, top_p, repetition_penalty)
        rows = [self.prompt_ids(prompt, truncate) for prompt in prompts]
        _, twins = own_numbers(seeded(seed), count)
        return begin(self._decoders(len(rows) * count), rows, given, ell_gen=ell_gen, generators=twins)

    def _written(self, row: list[int], found: Continuation, stops: Sequence[str]) -> Completion:
        text = IncrementalDetokenizer(self.tokenizer, row[: len(row) - len(found.ids)])
        text.add(found.ids)
        cut = text.cut(stops)
        whole = text.whole()
        log_p = sum(found.log_p) + (found.log_p_eos or 0.0)
        return Completion(whole if cut is None else whole[:cut], found.ids, log_p, found.ended)

    def prompt_ids(self, text: str, truncate: bool = False) -> list[int]:
        """bos and the tokens of a prompt."""
        ids = self.encode(text, "prompt")[:-1]
        if len(ids) > self.ell_max and not truncate:
            raise ValueError(
                f"prompt: {len(ids):,} tokens with bos; this model takes at most ℓ_max = {self.ell_max:,}. Shorten it, or truncate it to its end"
            )
        return ids[-self.ell_max :]

    # Algorithm 15 ------------------------------------------------------------------------------------------------------

    def predict(self, text: str | Sequence[str], *, n_best: int | None = None, **options: Any) -> Any:
        """What a text, or each of several, is turned into; with n_best, a list of that many `Completion` with scores, best first.

        Options: beams (1), alpha (1), ell_gen, tau (0), top_k, top_p, repetition_penalty, seed.
        """
        found = self.predictions(_several(text, "text"), n_best=n_best or 1, **options)
        texts = [each if n_best else each[0].text for each in found]
        return texts[0] if isinstance(text, str) else texts

    def predictions(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        beams: int = 1,
        alpha: float = 1.0,
        ell_gen: int | None = None,
        tau: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        progress: Progress = lambda _: None,
    ) -> list[list[Completion]]:
        """The same as `predict`, n for every text: the best that beams find, or, with τ above 0, so many samples."""
        self.can("predict")
        draws = bool(tau) or top_k is not None or top_p is not None or repetition_penalty != 1
        if draws and beams > 1:
            raise ValueError("beams: a search draws nothing; give beams, or tau, top_k, top_p and repetition_penalty")
        z = [self.whole_ids(text, "input") for text in texts]
        results: list[list[Completion]] = [[] for _ in texts]
        for index in by_length(z, 64):
            part = [z[i] for i in index]
            if draws:
                chosen = samplers(tau, top_k, top_p, repetition_penalty)
                drawn = seq2seq.samples(
                    self._decoders(len(part) * n_best), part, chosen, ell_gen=ell_gen, count=n_best, generator=seeded(seed)
                )
                found = [[self._written([self.model.hyper.bos_token, *one.ids], one, ()) for one in each] for each in drawn]
            else:
                searched = seq2seq.search(
                    self._decoders(len(part) * max(beams, n_best)),
                    part,
                    beams=max(beams, n_best),
                    alpha=alpha,
                    ell_gen=ell_gen,
                    n_best=n_best,
                )
                found = [
                    [Completion(self.tokenizer.decode(one.ids), one.ids, one.log_p, one.ended, one.score) for one in each]
                    for each in searched
                ]
            for i, each in zip(index, found, strict=True):
                results[i] = each
            progress(len(index))
        return results

    # One pass ----------------------------------------------------------------------------------------------------------

    def fill(self, text: str, k: int = 5) -> list[list[tuple[str, float]]]:
        """For every <mask> in a text, the k most probable tokens and their P̂."""
        return self.fills([text], k)[0]

    def fills(self, texts: Sequence[str], k: int = 5) -> list[list[list[tuple[str, float]]]]:
        self.can("fill")
        rows = [self.whole_ids(text, "text", special=True) for text in texts]
        for text, row in zip(texts, rows, strict=True):
            if self.tokenizer.mask_token not in row:
                raise ValueError(f"text: expected a <mask> to fill in {_short(text)}")
        return [[[(self.tokenizer.token(one), p) for one, p in mask] for mask in row] for row in one_pass.fill(self.models, rows, k)]

    def classify(self, text: str | Sequence[str]) -> Any:
        """The class of a text, or of each of several, with P̂ of all classes."""
        self.can("classify")
        texts = _several(text, "text")
        P = one_pass.classify(self.models, [self.whole_ids(one, "text") for one in texts]).tolist()
        found = [
            Classification(self.labels[max(range(len(row)), key=row.__getitem__)], dict(zip(self.labels, row, strict=True))) for row in P
        ]
        return found[0] if isinstance(text, str) else found

    def embed(self, text: str | Sequence[str], *, pooling: one_pass.Pooling = "mean", normalize: bool = False) -> NDArray[np.float32]:
        """A vector for a text, or a matrix with a row for each of several; of length 1 with `normalize`. Of an ensemble, the first model's."""
        self.can("embed")
        rows = [self.whole_ids(one, "text") for one in _several(text, "text")]
        found = one_pass.embed(self.model, rows, pooling)
        found = torch.nn.functional.normalize(found, dim=1) if normalize else found
        matrix: NDArray[np.float32] = found.numpy()
        return matrix[0] if isinstance(text, str) else matrix

    def score(self, text: str, *, context: str | None = None, eos: bool = False) -> Score:
        """log P̂ of every token of a text: given those before it, or, for an mlm, given all others; of a seq2seq model, given the context z."""
        return self.scores([text], contexts=None if context is None else [context], eos=eos)[0]

    def scores(self, texts: Sequence[str], *, contexts: Sequence[str] | None = None, eos: bool = False) -> list[Score]:
        self.can("score")
        task = find(self.task)
        if (contexts is not None) != task.has_context:
            raise ValueError(f"context: expected {'the text it comes from' if task.has_context else 'none'} for a model of {self.task}")
        if task.bidirectional:
            rows = [self.whole_ids(text, "text") for text in texts]
            shown = [row[1:-1] for row in rows]
        else:
            rows = [self.encode(text, "text") if eos else self.encode(text, "text")[:-1] for text in texts]
            shown = [row[1:] for row in rows]
        z = None if contexts is None else [self.whole_ids(text, "context") for text in contexts]
        found = one_pass.score(self.models, rows, z)
        return [Score([self.tokenizer.token(one) for one in row], log_p) for row, log_p in zip(shown, found, strict=True)]

    # Text --------------------------------------------------------------------------------------------------------------

    def can(self, what: Ability) -> None:
        """A ValueError if a model of this task cannot do this."""
        abilities = find(self.task).abilities
        if what not in abilities:
            raise ValueError(f"{self.folder}: a model for {self.task} cannot {what}; it can {', '.join(abilities)}")

    def encode(self, text: str, what: str, *, special: bool = False) -> list[int]:
        """bos … eos of a text, which must have a token that the vocabulary has, unless it is empty."""
        if not isinstance(text, str):
            raise ValueError(f"{what}: expected a text, got {type(text).__name__}")
        ids = self.tokenizer.encode(text, special=special)
        if text and not self.known(text, special):
            raise ValueError(f"{what}: nothing of {_short(text)} is in the vocabulary of {self.folder}")
        return ids

    def known(self, text: str, special: bool = False) -> bool:
        """Whether the vocabulary has anything of a text."""
        unknown = self.tokenizer.core.token_to_id(UNKNOWN) if self.tokenizer.kind == "word" else None
        return any(one != unknown for one in self.tokenizer.encode(text, ends=False, special=special))

    def whole_ids(self, text: str, what: str, *, special: bool = False) -> list[int]:
        """bos … eos, which the model takes as a whole."""
        ids = self.encode(text, what, special=special)
        if len(ids) > self.ell_max:
            raise ValueError(
                f"{what}: {len(ids):,} tokens with bos and eos in {_short(text)}; this model takes at most ℓ_max = {self.ell_max:,}"
            )
        return ids


def _several(text: str | Sequence[str], what: str) -> list[str]:
    """A text, or several, as several."""
    found = [text] if isinstance(text, str) else list(text) if isinstance(text, Sequence) else [text]
    if not found or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{what}: expected a text or a list of texts, got {text!r}")
    return found


def seeded(seed: int | None) -> torch.Generator:
    """Random numbers of this seed, or others each time."""
    if seed is None:
        generator = torch.Generator()
        generator.seed()
        return generator
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ValueError(f"seed: expected a number from 0 to 2^63 − 1, got {seed}")
    return torch.Generator().manual_seed(seed)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")
