"""A language model of your text: train it, let it write, score a text.

python examples/language_model.py book.txt runs/book
python examples/language_model.py book.txt runs/book steps=200      any option of `transalg train lm`, as NAME=VALUE
"""

import sys
from ast import literal_eval
from pathlib import Path

import transalg


def main(file: str, out: str, **options: object) -> transalg.Run:
    paragraphs = Path(file).read_text(encoding="utf-8").split("\n\n")
    losses: list[float] = []
    outcome = transalg.train(
        "lm",
        (text for text in paragraphs if text.strip()),  # any iterable of texts; it is read once
        out=out,
        on_validation=lambda step, figures, best: losses.append(figures["val_loss"]),
        **options,
    )
    print(f"validation loss: {', '.join(f'{loss:.2f}' for loss in losses)}")

    run = outcome.load()  # later, or in another program: transalg.load("runs/book")
    prompt = paragraphs[0].strip()[:3]
    print(run.generate(prompt, ell_gen=60, tau=0.8, seed=1))
    print(f"perplexity of the first paragraph: {run.score(paragraphs[0]).perplexity:.1f}")
    return run


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    file, out, *more = sys.argv[1:]
    main(file, out, **{name: literal_eval(value) for name, _, value in (one.partition("=") for one in more)})
