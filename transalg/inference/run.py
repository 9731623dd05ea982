"""A trained model with its tokenizer: text in, text out. What it consists of: `loaded.py`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray

from transalg.checks import integer
from transalg.cpu import packed
from transalg.data.files import Progress, no_progress
from transalg.inference import beams as seq2seq
from transalg.inference import one_pass
from transalg.inference.agent import Decision, answers, control
from transalg.inference.decoding import ROWS, Continuation, Decoding, begin, by_length, sample_generators
from transalg.inference.detokenizer import IncrementalDetokenizer, stop_strings
from transalg.inference.ensemble import as_models
from transalg.inference.loaded import Loaded
from transalg.inference.options import PredictionOptions, SamplingOptions, TooLong
from transalg.inference.results import Classification, Completion, Score
from transalg.inference.samplers import Sampler, sampler_chain
from transalg.inference.text_only import TextOnly
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer, Gato
from transalg.tasks import find
from transalg.tokenization.modalities import Image, encode_observation
from transalg.tokenization.modalities import Sequence as TokenSequence
from transalg.worlds.world import World

Texts = list[str] | tuple[str, ...]


@dataclass(frozen=True)
class Run(Loaded):
    """A run, loaded: its model, tokenizer and configuration. Several runs of one vocabulary are an ensemble, whose P̂ is averaged."""

    # Algorithm 14 ------------------------------------------------------------------------------------------------------

    @overload
    def generate(self, prompt: str = "", *, samples: Literal[1] = 1, **options: Unpack[SamplingOptions]) -> str: ...
    @overload
    def generate(self, prompt: Texts, *, samples: Literal[1] = 1, **options: Unpack[SamplingOptions]) -> list[str]: ...
    @overload
    def generate(self, prompt: str = "", *, samples: int, **options: Unpack[SamplingOptions]) -> str | list[str]: ...
    @overload
    def generate(self, prompt: Texts, *, samples: int, **options: Unpack[SamplingOptions]) -> list[str] | list[list[str]]: ...
    def generate(
        self,
        prompt: str | Texts = "",
        *,
        ell_gen: int = 200,
        tau: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        samplers: Sequence[Sampler] | None = None,
        stop: str | Sequence[str] = (),
        samples: int = 1,
        seed: int | None = None,
        truncate: bool = False,
    ) -> str | list[str] | list[list[str]]:
        """Continue a prompt, or each of several, by at most ℓ_gen tokens. With samples > 1, a list of texts for each prompt.

        tau is the temperature, 0 for greedy decoding; top_k and top_p (nucleus sampling) restrict the choice; `samplers` replaces all of
        these. The text ends before a stop string. The same seed gives the same text. A prompt longer than ℓ_max tokens is an error, or
        with `truncate` its end is used.
        """
        results = self.completions(
            _as_list(prompt, "prompt"),
            ell_gen=ell_gen,
            tau=tau,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            samplers=samplers,
            stop=stop,
            samples=samples,
            seed=seed,
            truncate=truncate,
        )
        if samples == 1:
            texts = [completion.text for (completion,) in results]
            return texts[0] if isinstance(prompt, str) else texts
        lists = [[completion.text for completion in each] for each in results]
        return lists[0] if isinstance(prompt, str) else lists

    def stream(
        self,
        prompt: str = "",
        *,
        ell_gen: int = 200,
        tau: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        samplers: Sequence[Sampler] | None = None,
        stop: str | Sequence[str] = (),
        seed: int | None = None,
        truncate: bool = False,
    ) -> Iterator[str]:
        """Continue a prompt as `generate` does, and yield the text in pieces as it is generated; only complete characters."""
        chain, stops = _samplers(samplers, tau, top_k, top_p, repetition_penalty), stop_strings(stop)
        decoding = self._begin(self._decoders(1, ell_gen), [prompt], chain, ell_gen, 1, seed, truncate)
        detokenizer, shown = IncrementalDetokenizer(self.tokenizer, decoding.rows[0]), 0
        while decoding.active:
            detokenizer.add(token for _, token in decoding.step())
            ready = detokenizer.find_stop(stops)
            if ready is not None:
                decoding.end(0)
            elif decoding.active:
                ready = len(detokenizer.text) - detokenizer.pending(stops)
            else:
                ready = len(detokenizer.finish())
            if ready > shown:
                yield detokenizer.text[shown:ready]
                shown = ready

    def completions(
        self,
        prompts: Sequence[str],
        *,
        ell_gen: int = 200,
        tau: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        samplers: Sequence[Sampler] | None = None,
        stop: str | Sequence[str] = (),
        samples: int = 1,
        seed: int | None = None,
        truncate: bool = False,
        progress: Progress = no_progress,
    ) -> list[list[Completion]]:
        """The same as `generate`, with token IDs and log P̂: a list of `samples` completions for every prompt."""
        chain, stops = _samplers(samplers, tau, top_k, top_p, repetition_penalty), stop_strings(stop)
        models = self._decoders(len(prompts) * integer("samples", samples, 1), ell_gen)
        results: list[list[Completion]] = [[] for _ in prompts]
        for index in by_length(prompts, max(1, ROWS // samples)):
            decoding = self._begin(models, [prompts[i] for i in index], chain, ell_gen, samples, seed, truncate)
            detokenizers = [IncrementalDetokenizer(self.tokenizer, row) for row in decoding.rows]
            while decoding.active:
                for row, token in decoding.step():
                    if stops:
                        detokenizers[row].add([token])
                        if detokenizers[row].find_stop(stops) is not None:
                            decoding.end(row)
            for k, i in enumerate(index):
                rows = range(k * samples, (k + 1) * samples)
                results[i] = [self._completion(decoding.rows[row], decoding.continuations[row], stops) for row in rows]
                progress(1)
        return results

    def _decoders(self, rows: int, ell_gen: int) -> list[DTransformer] | list[TextOnly]:
        """The models, with packed weights where that pays. `packed` is called each time, for it notices changed weights."""
        self.can("generate")
        if isinstance(self.model, Gato):
            return [TextOnly(model, self.tokenizer.N_V) for model in as_models(self.models, Gato)]
        return packed(as_models(self.models, DTransformer), rows, integer("ell_gen", ell_gen, 0))

    def _begin(
        self,
        models: list[DTransformer] | list[TextOnly],
        prompts: Sequence[str],
        samplers: Sequence[Sampler],
        ell_gen: int,
        samples: int,
        seed: int | None,
        truncate: bool,
    ) -> Decoding:
        rows = [self.prompt_ids(prompt, truncate) for prompt in prompts]
        return begin(models, rows, samplers, ell_gen=ell_gen, generators=sample_generators(seeded(seed), samples)[1])

    def _completion(self, row: list[int], continuation: Continuation, stops: Sequence[str]) -> Completion:
        detokenizer = IncrementalDetokenizer(self.tokenizer, row[: len(row) - len(continuation.ids)])
        detokenizer.add(continuation.ids)
        stop = detokenizer.find_stop(stops)
        log_p = sum(continuation.log_p) + (continuation.log_p_eos or 0.0)
        return Completion(detokenizer.finish()[:stop], continuation.ids, log_p, continuation.ended)

    def prompt_ids(self, text: str, truncate: bool = False) -> list[int]:
        """bos and the tokens of a prompt."""
        ids = self.encode(text, "prompt", eos=False)
        if len(ids) > self.ell_max and not truncate:
            raise ValueError(
                f"prompt: {len(ids):,} tokens with bos; this model takes at most ℓ_max = {self.ell_max:,}. Shorten it, or --truncate it to its end"
            )
        return ids[-self.ell_max :]

    # Algorithm 15 ------------------------------------------------------------------------------------------------------

    @overload
    def predict(self, text: str, *, n_best: None = None, **options: Unpack[PredictionOptions]) -> str: ...
    @overload
    def predict(self, text: Texts, *, n_best: None = None, **options: Unpack[PredictionOptions]) -> list[str]: ...
    @overload
    def predict(self, text: str, *, n_best: int, **options: Unpack[PredictionOptions]) -> list[Completion]: ...
    @overload
    def predict(self, text: Texts, *, n_best: int, **options: Unpack[PredictionOptions]) -> list[list[Completion]]: ...
    def predict(
        self,
        text: str | Texts,
        *,
        n_best: int | None = None,
        beams: int = 1,
        alpha: float = 1.0,
        ell_gen: int | None = None,
        tau: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        too_long: TooLong = "cut",
    ) -> str | list[str] | list[Completion] | list[list[Completion]]:
        """Turn a text, or each of several, into another. With n_best, a list of that many completions with scores, best first.

        By greedy decoding, by beam search (beams > 1, ranked by log P̂ / ℓ^alpha), or by sampling (tau > 0, top_k, top_p). At most ell_gen
        tokens. A text longer than ℓ_max is cut with a warning, or refused with too_long="error".
        """
        results = self.predictions(
            _as_list(text, "text"),
            n_best=1 if n_best is None else n_best,
            beams=beams,
            alpha=alpha,
            ell_gen=ell_gen,
            tau=tau,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
            too_long=too_long,
        )
        if n_best is not None:
            return results[0] if isinstance(text, str) else results
        texts = [best[0].text for best in results]
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
        too_long: TooLong = "cut",
        progress: Progress = no_progress,
    ) -> list[list[Completion]]:
        """The same as `predict`: for every text the n best of a search, or n samples."""
        self.can("predict")
        models, z = as_models(self.models, EDTransformer), self.encode_all(texts, "input", too_long=too_long, context=True)
        integer("n_best", n_best, 1)
        if seq2seq.is_sampled(beams, tau, top_k, top_p, repetition_penalty):
            samplers = sampler_chain(tau, top_k, top_p, repetition_penalty)
            samples = seq2seq.sample(models, z, samplers, ell_gen=ell_gen, samples=n_best, generator=seeded(seed), progress=progress)
            return [[self._completion(sample.ids, sample, ()) for sample in each] for each in samples]
        width = max(beams, n_best)
        best = seq2seq.search(models, z, beams=width, alpha=alpha, ell_gen=ell_gen, n_best=n_best, progress=progress)
        return [
            [Completion(self.tokenizer.decode(one.ids), one.ids, one.log_p, one.ended, one.score) for one in hypotheses]
            for hypotheses in best
        ]

    # Gato ------------------------------------------------------------------------------------------------------------

    def play(
        self,
        worlds: Sequence[World],
        *,
        seeds: Sequence[int] = (0,),
        prompts: Sequence[TokenSequence | None] | None = None,
        tau: float | None = None,
        watch: Callable[[Decision], None] | None = None,
    ) -> list[float]:
        """The return of an episode in each of some worlds of one kind, each with a seed, and perhaps a demonstration as its prompt."""
        self.can("play")
        return control(self.gato, self.vocabulary, worlds, seeds, prompts, tau=tau, watch=watch)

    def caption(self, images: Sequence[Any], task: str | None = None, *, ell_gen: int = 64, tau: float = 0.0, seed: int = 0) -> list[str]:
        """A text for each image, as a task that captions images has them; its name, if there are several."""
        self.can("caption")
        model, vocabulary = self.gato, self.vocabulary
        spaces = self.spaces(self.captioned(task))
        return answers(
            model, vocabulary, [encode_observation(spaces, each, vocabulary) for each in images], ell_gen=ell_gen, tau=tau, seed=seed
        )

    @property
    def gato(self) -> Gato:
        """The model, which is one alone."""
        models = as_models(self.models, Gato)
        if len(models) > 1:
            raise ValueError("runs: expected one model of gato, got an ensemble")
        return models[0]

    def captioned(self, task: str | None = None) -> str:
        """The task whose images have captions; a ValueError if there is none, or if several are possible."""
        spaces = {each["name"]: self.spaces(each["name"]) for each in self.episodes}
        names = [name for name, each in spaces.items() if each.answers and isinstance(each.observation, Image)]
        if (task is not None and task not in names) or (task is None and len(names) != 1):
            got = "" if task is None else f"; got {task}"
            raise ValueError(f"--task: expected a task whose images have captions, {', '.join(names) or 'of which there is none'}{got}")
        return task or names[0]

    # One pass ----------------------------------------------------------------------------------------------------------

    def fill(self, text: str, k: int = 5, *, too_long: TooLong = "cut") -> list[list[tuple[str, float]]]:
        """For every <mask> in a text, the k most probable tokens and their P̂."""
        return self.fills([text], k, too_long=too_long)[0]

    def fills(
        self, texts: Sequence[str], k: int = 5, *, too_long: TooLong = "cut", progress: Progress = no_progress
    ) -> list[list[list[tuple[str, float]]]]:
        """The same as `fill` for several texts. A text longer than ℓ_max is cut with a warning, but never before a mask."""
        self.can("fill")
        for text in texts:
            self._check_masks(text)
        rows = self.encode_all(texts, "text", special=True, too_long=too_long)
        results = one_pass.fill(as_models(self.models, ETransformer), rows, k, progress)
        return [[[(self.tokenizer.token(token), p) for token, p in candidates] for candidates in masks] for masks in results]

    @overload
    def classify(self, text: str, *, head: str | None = None, too_long: TooLong = "cut", progress: Progress = ...) -> Classification: ...
    @overload
    def classify(
        self, text: Texts, *, head: str | None = None, too_long: TooLong = "cut", progress: Progress = ...
    ) -> list[Classification]: ...
    def classify(
        self, text: str | Texts, *, head: str | None = None, too_long: TooLong = "cut", progress: Progress = no_progress
    ) -> Classification | list[Classification]:
        """The class of a text, or of each of several, with P̂ of every class. A text longer than ℓ_max is cut with a warning.

        A model of several data sets takes the name of one, whose classes are meant.
        """
        self.can("classify")
        block, labels = self.head(head)
        rows = self.encode_all(_as_list(text, "text"), "text", too_long=too_long)
        P = one_pass.classify(as_models(self.models, Classifier), rows, progress, block).tolist()
        results = [Classification(labels[max(range(len(row)), key=row.__getitem__)], dict(zip(labels, row, strict=True))) for row in P]
        return results[0] if isinstance(text, str) else results

    def embed(
        self,
        text: str | Texts,
        *,
        pooling: one_pass.Pooling | None = None,
        normalize: bool | None = None,
        too_long: TooLong = "cut",
        progress: Progress = no_progress,
    ) -> NDArray[np.float32]:
        """A vector for a text, or a matrix with a row for each of several; of an ensemble, the first model's.

        Unless given, `pooling` is what the model was made for, or the mean; so is `normalize`, which scales every vector to length 1.
        Those of a seq2seq model are of z. A text longer than ℓ_max is cut with a warning.
        """
        self.can("embed")
        pooling = pooling or self.embedding.get("pooling", "mean")
        normalize = self.embedding.get("normalize", False) if normalize is None else normalize
        rows = self.encode_all(_as_list(text, "text"), "text", too_long=too_long, context=find(self.task).has_context)
        vectors = one_pass.embed(self.model, rows, pooling, progress)
        vectors = torch.nn.functional.normalize(vectors, dim=1) if normalize else vectors
        matrix: NDArray[np.float32] = vectors.numpy()
        return matrix[0] if isinstance(text, str) else matrix

    def score(self, text: str, *, context: str | None = None, eos: bool = False) -> Score:
        """log P̂ of every token of a text: given those before it, or, for an mlm, given all others; for a seq2seq model, given the context z.

        Only an mlm has P̂ of the first token without a bos before it; elsewhere the score then begins with the second.
        """
        return self.scores([text], contexts=None if context is None else [context], eos=eos)[0]

    def scores(
        self, texts: Sequence[str], *, contexts: Sequence[str] | None = None, eos: bool = False, progress: Progress = no_progress
    ) -> list[Score]:
        """The same as `score` for several texts."""
        self.can("score")
        task = find(self.task)
        if (contexts is not None) != task.has_context:
            raise ValueError(f"context: expected {'the text it comes from' if task.has_context else 'none'} for a model of {self.task}")
        if task.bidirectional:
            rows = self.encode_all(texts, "text", too_long="error")
            shown = [self.tokenizer.special_tokens.without(row) for row in rows]
        else:
            rows = [self.encode(text, "text", eos=eos) for text in texts]
            shown = [row[1:] for row in rows]
        z = None if contexts is None else self.encode_all(contexts, "context", too_long="error", context=True)
        log_p = one_pass.score(self.models, rows, z, progress)
        return [Score([self.tokenizer.token(token) for token in row], values) for row, values in zip(shown, log_p, strict=True)]


def _as_list(text: str | Sequence[str], symbol: str) -> list[str]:
    """One text or several as a list."""
    texts = [text] if isinstance(text, str) else list(text) if isinstance(text, Sequence) else [text]
    if not texts or not all(isinstance(each, str) for each in texts):
        raise ValueError(f"{symbol}: expected a text or a list of texts, got {text!r}")
    return texts


def _samplers(
    samplers: Sequence[Sampler] | None, tau: float, top_k: int | None, top_p: float | None, repetition_penalty: float
) -> tuple[Sampler, ...]:
    """The samplers, or the usual ones with these options."""
    if samplers is None:
        return sampler_chain(tau, top_k, top_p, repetition_penalty)
    if (tau, top_k, top_p, repetition_penalty) != (1.0, None, None, 1.0):
        raise ValueError("samplers: expected these or tau, top_k, top_p and repetition_penalty, got both")
    return tuple(samplers)


def seeded(seed: int | None) -> torch.Generator:
    """A generator with this seed, or with a random one."""
    if seed is None:
        generator = torch.Generator()
        generator.seed()
        return generator
    return torch.Generator().manual_seed(integer("seed", seed, 0, 2**63 - 1))
