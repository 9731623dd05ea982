"""The text of tokens that come one by one: whole characters only, and where a stop string ends it."""

from collections.abc import Iterable, Sequence

from tokenizers.decoders import DecodeStream

from transalg.tokenization import Tokenizer


class IncrementalDetokenizer:
    """The text of the tokens behind a prompt, as it grows."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self.tokenizer, self.text = tokenizer, ""
        self.prompt = [one for one in prompt if one < tokenizer.mask_token]
        self.ids: list[int] = []
        self.stream = DecodeStream(ids=self.prompt, skip_special_tokens=False)

    def add(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            if token < self.tokenizer.mask_token:
                self.ids.append(token)
                self.text += self.stream.step(self.tokenizer.core, token) or ""

    def whole(self) -> str:
        """With bytes at the end that are not yet, and now never will be, a character."""
        before, after = self.tokenizer.decode(self.prompt), self.tokenizer.decode([*self.prompt, *self.ids])
        self.text = after[len(before) :] if after.startswith(before) else self.tokenizer.decode(self.ids)
        return self.text

    def cut(self, stops: Sequence[str]) -> int | None:
        """Where the first stop string begins."""
        found = [place for stop in stops if (place := self.text.find(stop)) >= 0]
        return min(found) if found else None

    def pending(self, stops: Sequence[str]) -> int:
        """How many characters at its end may be the beginning of a stop string."""
        ends = (n for stop in stops for n in range(min(len(stop) - 1, len(self.text)), 0, -1) if self.text.endswith(stop[:n]))
        return max(ends, default=0)


def stop_strings(stop: str | Sequence[str]) -> tuple[str, ...]:
    """One string or several, none of them empty."""
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(stops):
        raise ValueError("stop: expected strings that are not empty")
    return stops
