"""Detokenization of tokens that arrive one by one: complete characters only, and where a stop string begins."""

from collections.abc import Iterable, Sequence

from tokenizers.decoders import DecodeStream

from transalg.tokenization import Tokenizer


class IncrementalDetokenizer:
    """The text of the tokens after a prompt. `text` grows with every `add`."""

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int]) -> None:
        self.tokenizer, self.text = tokenizer, ""
        self.special_tokens = tokenizer.special_tokens
        self.prompt_ids = self.special_tokens.without(prompt_ids)
        self.new_ids: list[int] = []
        self.stream = DecodeStream(ids=self.prompt_ids, skip_special_tokens=False)

    def add(self, tokens: Iterable[int]) -> None:
        """Append tokens; special tokens have no text."""
        for token in self.special_tokens.without(tokens):
            self.new_ids.append(token)
            self.text += self.stream.step(self.tokenizer.core, token) or ""

    def finish(self) -> str:
        """The complete text; bytes at its end that are no character become U+FFFD."""
        before, after = self.tokenizer.decode(self.prompt_ids), self.tokenizer.decode([*self.prompt_ids, *self.new_ids])
        self.text = after[len(before) :] if after.startswith(before) else self.tokenizer.decode(self.new_ids)
        return self.text

    def find_stop(self, stops: Sequence[str]) -> int | None:
        """Where the first stop string begins; None if there is none."""
        return min((start for stop in stops if (start := self.text.find(stop)) >= 0), default=None)

    def pending(self, stops: Sequence[str]) -> int:
        """The number of characters at the end that may be the beginning of a stop string."""
        ends = (n for stop in stops for n in range(min(len(stop) - 1, len(self.text)), 0, -1) if self.text.endswith(stop[:n]))
        return max(ends, default=0)


def stop_strings(stop: str | Sequence[str]) -> tuple[str, ...]:
    """One stop string or several, none of them empty."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(stops):
        raise ValueError("stop: expected strings that are not empty")
    return stops
