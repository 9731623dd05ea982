"""Translate: an encoder-decoder learns to turn one text into another, here numbers in words into digits.

python examples/translate.py runs/numbers
"""

import sys

import transalg

ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"


def in_words(number: int) -> str:
    """
    >>> in_words(7), in_words(42), in_words(315)
    ('seven', 'forty two', 'three hundred fifteen')
    """
    if number < 20:
        return ONES.split()[number]
    if number < 100:
        return f"{TENS.split()[number // 10 - 2]} {in_words(number % 10) if number % 10 else ''}".strip()
    return f"{in_words(number // 100)} hundred {in_words(number % 100) if number % 100 else ''}".strip()


def main(out: str, **options: object) -> transalg.Run:
    pairs = {"words": [in_words(number) for number in range(1000)], "digits": [str(number) for number in range(1000)]}
    outcome = transalg.train("seq2seq", pairs, out=out, source_column="words", target_column="digits", **options)
    run = outcome.load()
    print(f"exact match on numbers it has not seen: {outcome.figures.get('val_exact_match', 0):.1%}")
    for number in (7, 42, 315):
        print(f"{in_words(number)} → {run.predict(in_words(number), beams=3)}")
    return run


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/numbers")
