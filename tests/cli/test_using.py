"""The verbs that use a trained model, through the command line."""

import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import transalg as package
from tests.training.runs import TASKS, config, files
from transalg.cli.evaluate import confusion_table
from transalg.cli.using import TextVerb, working
from transalg.evaluation.classes import class_figures
from transalg.evaluation.measure import Evaluation
from transalg.tasks import find
from transalg.training.start import train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = files(tmp_path_factory.mktemp("runs"))
    for task in TASKS:
        train(config(task, folder, steps=20, dtype="float64"), folder / task)
    return folder


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_generate(transalg, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = package.load(folder / "lm")
    options = ("--ell-gen", "9", "--seed", "3", "--tau", "0.8")
    settings = {"ell_gen": 9, "seed": 3, "tau": 0.8}
    assert transalg("generate", str(folder / "lm"), "--prompt", "the ", *options)[1] == "the " + run.generate("the ", **settings) + "\n"
    assert (
        transalg("generate", str(folder / "lm"), "--prompt", "the ", "--only-new", *options)[1] == run.generate("the ", **settings) + "\n"
    )
    assert transalg("generate", str(folder / "lm"), "--prompt", "", *options)[1] == run.generate("", **settings) + "\n"
    typed(monkeypatch, b"the \na\n")
    lines = [json.loads(line) for line in transalg("generate", str(folder / "lm"), "--json", "--samples", "2", *options)[1].splitlines()]
    assert [line["prompt"] for line in lines] == ["the ", "the ", "a", "a"]
    assert [line["text"] for line in lines] == [text for each in run.generate(["the ", "a"], samples=2, **settings) for text in each]
    (tmp_path / "prompts.txt").write_text("the \na\n")
    status, printed, _ = transalg(
        "generate", str(folder / "lm"), "--file", str(tmp_path / "prompts.txt"), "--out", str(tmp_path / "o"), *options
    )
    assert (status, printed) == (0, "")
    assert (tmp_path / "o").read_text() == "\n\n".join(p + run.generate(p, **settings) for p in ("the ", "a")) + "\n"


def test_predict(transalg, folder: Path, tmp_path: Path) -> None:
    run = package.load(folder / "seq2seq")
    path = str(folder / "seq2seq")
    assert transalg("predict", path, "--input", "a cat", "ran")[1].splitlines() == run.predict(["a cat", "ran"])
    (tmp_path / "t.csv").write_text("source,more\na cat,1\nran,2\n")
    assert transalg("predict", path, "--file", str(tmp_path / "t.csv"), "--beams", "3")[1].splitlines() == run.predict(
        ["a cat", "ran"], beams=3
    )
    lines = transalg("predict", path, "--input", "a cat", "--n-best", "3", "--json")[1].splitlines()
    assert [json.loads(line)["score"] for line in lines] == [one.score for one in run.predict("a cat", n_best=3)]
    shown = transalg("predict", path, "--input", "a cat", "--n-best", "2")[1].splitlines()
    assert shown[0] == f"{run.predict('a cat', n_best=2)[0].score:8.4f}  {run.predict('a cat', n_best=2)[0].text}"


def test_fill_classify_score(transalg, folder: Path) -> None:
    run = package.load(folder / "mlm")
    filled = json.loads(transalg("fill", str(folder / "mlm"), "--text", "a c<mask>t <mask>", "--json", "--k", "2")[1])
    assert [[one["token"] for one in mask] for mask in filled["masks"]] == [
        [token for token, _ in mask] for mask in run.fill("a c<mask>t <mask>", 2)
    ]
    shown = transalg("fill", str(folder / "mlm"), "--text", "a c<mask>t")[1].splitlines()
    assert shown[0] == "a c<mask>t" and shown[1].startswith("  <mask>   ") and shown[1].count("%") == 5
    one = package.load(folder / "classify").classify("a cat")
    assert transalg("classify", str(folder / "classify"), "--text", "a cat")[1] == f"{one.label}\t{one.probability:.1%}\n"
    assert json.loads(transalg("classify", str(folder / "classify"), "--text", "a cat", "--json")[1])["P"] == one.P
    assert transalg("classify", str(folder / "classify"), "--text", "a cat", "--all")[1].count("%") == 2
    score = package.load(folder / "lm").score("a cat")
    shown = transalg("score", str(folder / "lm"), "--text", "a cat")[1].splitlines()
    assert len(shown) == 6 and shown[0] == f"{score.log_p[0]:9.4f}  a" and shown[1].endswith("' '")
    assert json.loads(transalg("score", str(folder / "lm"), "--text", "a cat", "--json")[1])["log_p"] == score.total


def test_embed(transalg, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a cat\nran\n\nthe mat\n")
    out = str(tmp_path / "x.npy")
    status, shown, error = transalg("embed", str(folder / "mlm"), "--file", str(tmp_path / "t.txt"), "--out", out, "--normalize")
    assert status == 0 and shown == f"3 × 10 in {out}\n" and error.endswith("transalg: 1 of 4 rows skipped\n")
    vectors = package.load(folder / "mlm").embed(["a cat", "ran", "the mat"], normalize=True)
    np.testing.assert_array_equal(np.load(out), vectors)
    out = str(tmp_path / "x.npz")
    assert transalg("embed", str(folder / "mlm"), "--file", str(tmp_path / "t.txt"), "--out", out, "--normalize")[0] == 0
    saved = np.load(out)
    np.testing.assert_array_equal(saved["vectors"], vectors)
    assert saved["rows"].tolist() == [1, 2, 4]
    shown = transalg("embed", str(folder / "mlm"), "--text", "ran", "--pooling", "first")[1]
    np.testing.assert_allclose([float(one) for one in shown.split()], package.load(folder / "mlm").embed("ran", pooling="first"), rtol=1e-5)


def test_prompt(transalg, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "shots.jsonl").write_text('{"input": "a", "output": "cat"}\n{"input": "the", "output": "dog"}\n')
    status, shown, _ = transalg(
        "prompt", str(folder / "lm"), "--examples", str(tmp_path / "shots.jsonl"), "--template", "{input} {output}",
        *("--separator", " and ", "--input", "on", "--votes", "5", "--seed", "1", "--ell-gen", "5", "--json", "--show"),
    )  # fmt: skip
    answered = json.loads(shown)
    assert status == 0 and answered["prompt"] == "a cat and the dog and on " and sum(answered["counts"].values()) == 5
    assert answered["counts"][answered["answer"]] == max(answered["counts"].values()) and len(answered["completions"]) == 5
    _, shown, error = transalg(
        "prompt", str(folder / "lm"), "--template", "{input} {output}", "--input", "on", "--votes", "3", "--ell-gen", "3"
    )
    assert " of 3  " in shown and not error, "the braces are no part of the prompt"
    command = ("prompt", str(folder / "lm"), "--template", "Q{input} {output}", "--cue", "Ω", "--input", "a☃", "--ell-gen", "3")
    assert transalg(*command)[2] == "transalg: 3 of 5 characters (60.0 %) are not in the vocabulary and are left out: Q ☃ Ω\n"
    (tmp_path / "questions.csv").write_text("id,asked,input\n1,on,the\n2,a,cat\n")
    for column, texts in ((["--column", "asked"], ["on", "a"]), ([], ["the", "cat"])):  # else the first field of the template
        status, shown, _ = transalg(
            "prompt", str(folder / "lm"), "--file", str(tmp_path / "questions.csv"), *column, "--ell-gen", "2", "--json"
        )
        assert status == 0 and [json.loads(line)["input"] for line in shown.splitlines()] == texts
    long = ("prompt", str(folder / "lm"), "--input", "a cat " * 99, "--ell-gen", "2")
    assert transalg(*long)[0] == 2 and "--truncate it to its end" in transalg(*long)[2] and transalg(*long, "--truncate")[0] == 0


def test_ensembles_and_int8(transalg, folder: Path) -> None:
    path = str(folder / "lm")
    options = ("--prompt", "the", "--ell-gen", "8", "--seed", "1")
    assert transalg("generate", path, path, *options)[1] == transalg("generate", path, *options)[1]
    assert transalg("generate", path, "--quantize", "int8", *options)[0] == 0
    figures = [json.loads(transalg("evaluate", path, "--json", *more)[1])["loss"] for more in ((), ("--quantize", "int8"))]
    assert figures[0] != figures[1] and figures[1] == pytest.approx(figures[0], rel=0.01)


def test_unknown_characters_are_named(transalg, folder: Path) -> None:
    status, shown, error = transalg("generate", str(folder / "lm"), "--prompt", "a Ω☃", "--ell-gen", "2", "--seed", "0")
    assert (
        status == 0
        and error == "transalg: 2 of 4 characters (50.0 %) are not in the vocabulary and are left out: Ω ☃\n"
        and shown.startswith("a Ω☃")
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("generate {seq2seq} --prompt a", "a model for seq2seq cannot generate; it can predict, embed, score"),
        ("predict {lm} --input a", "a model for lm cannot predict"),
        ("fill {lm} --text <mask>", "a model for lm cannot fill"),
        ("classify {lm} --text a", "a model for lm cannot classify"),
        ("score {classify} --text a", "a model for classify cannot score"),
        ("generate {lm} --prompt ΩΩ", "nothing of 'ΩΩ' is in the vocabulary"),
        ("generate {lm} --prompt a --tau nan", "tau: expected a number in [0, ∞], got nan"),
        ("generate {lm} --prompt a --tau -1", "tau: expected a number in [0, ∞], got -1.0"),
        ("generate {lm} --prompt a --top-p 2", "--top-p: expected a number in (0, 1]"),
        ("generate {lm} --prompt aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "this model takes at most ℓ_max = 29"),
        ("generate {lm} --prompt a --file x", "give --prompt or --file, not both"),
        ("generate {lm} --file nowhere.txt", "nowhere.txt: cannot be read"),
        ("generate nowhere --prompt a", "nowhere: expected the folder of a run, there is none"),
        ("generate", "expected the folder of a run; transalg generate RUN"),
        ("generate {lm} {mlm} --prompt a", "expected the task, the vocabulary and the classes"),
        ("predict {seq2seq} --input a --beams 2 --tau 1", "beam search does not sample"),
        ("score {seq2seq} --text a", "--context: expected what each of the 1 texts comes from, got 0"),
        ("fill {mlm} --text cat", "expected a <mask> to fill"),
        ("embed {lm} {lm} --text a", "give one run"),
        ("embed {lm} --text a --out nowhere/x.npy", "expected a file in a folder that exists"),
        ("prompt {lm} --input a --template x", "expected two or more different fields in braces"),
        ("prompt {lm} --input a --examples x.txt", "expected examples as JSON lines, CSV or TSV"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(transalg, folder: Path, command: str, message: str) -> None:
    status, shown, error = transalg(*command.format(**{task: folder / task for task in TASKS}).split())
    assert status == 2 and message in error and not shown and len(error.splitlines()) == 1 and "Traceback" not in error


def test_a_file_of_results_is_complete_or_does_not_exist(tmp_path: Path) -> None:
    verb = TextVerb(runs=(tmp_path,), out=tmp_path / "out.txt")
    (tmp_path / "out.txt").write_text("old")
    with pytest.raises(TypeError), verb.output() as out:
        out.writelines(["half", None])
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"] and (tmp_path / "out.txt").read_text() == "old"
    with verb.output() as out:
        out.write("new")
        out.flush()
        assert (tmp_path / "out.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"] and (tmp_path / "out.txt").read_text() == "new"


@pytest.mark.parametrize("verb", ["classify", "embed", "predict", "fill"])
def test_long_texts_are_cut_with_one_plain_line(transalg, folder: Path, verb: str) -> None:
    task = {"classify": "classify", "embed": "lm", "predict": "seq2seq", "fill": "mlm"}[verb]
    option, mask = ("--input" if verb == "predict" else "--text"), ("<mask> " if verb == "fill" else "")
    texts = [mask + "a cat " * 9, mask + "ran", mask + "a cat " * 10]
    status, shown, error = transalg(verb, str(folder / task), option, *texts)
    assert status == 0 and shown and error == "transalg: 2 of 3 texts cut to ℓ_max = 29 tokens\n"
    status, shown, error = transalg(verb, str(folder / task), option, *texts, "--too-long", "error")
    assert status == 2 and not shown and "this model takes at most ℓ_max = 29" in error


VERBS = {
    "classify": ("classify", "text", "a dog", "ΩΩ", "nothing of 'ΩΩ' is in the vocabulary"),
    "embed": ("lm", "text", "a dog", "ΩΩ", "nothing of 'ΩΩ' is in the vocabulary"),
    "predict": ("seq2seq", "source", "a dog", "ΩΩ", "nothing of 'ΩΩ' is in the vocabulary"),
    "fill": ("mlm", "text", "a <mask>", "cat", "expected a <mask> to fill in 'cat'"),
    "score": ("mlm", "text", "a dog", "a cat " * 9, "this model takes at most ℓ_max = 29"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_row_that_cannot_be_used_is_reported_and_skipped(transalg, folder: Path, tmp_path: Path, verb: str) -> None:
    task, column, good, bad, wrong = VERBS[verb]
    path, out = tmp_path / "t.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps({column: text}) + "\n" for text in (good, bad, good, "")) + "no JSON\n")
    command = (verb, str(folder / task), "--file", str(path), "--json", "--out", str(out))
    status, shown, error = transalg(*command)
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert status == 0 and not shown and [one["row"] for one in results] == [1, 3]
    assert {one["input" if verb == "predict" else "text"] for one in results} == {good}
    lines = error.splitlines()
    assert lines[0].startswith(f"transalg: {path}, row 2: ") and wrong in lines[0] and lines[0].endswith("; skipped")
    assert lines[1] == f"transalg: {path}, row 4: expected a text, got none; skipped"
    assert lines[2].startswith(f"transalg: {path}, row 5: not JSON") and lines[3:] == ["transalg: 3 of 5 rows skipped"]
    if verb in ("classify", "embed", "predict"):  # a line for every row, empty where it was skipped
        plain = transalg(verb, str(folder / task), "--file", str(path))[1].splitlines()
        assert [bool(line) for line in plain] == [True, False, True] and plain[0] == plain[2]
    out.unlink()
    status, _, error = transalg(*command, "--strict")
    assert status == 2 and not out.exists() and f"{path}, row 2: " in error and wrong in error and len(error.splitlines()) == 1
    path.write_text(json.dumps({column: bad}) + "\n")
    status, _, error = transalg(*command)
    assert status == 2 and not out.exists() and "expected texts, got 1 rows of which none can be used" in error


@pytest.mark.parametrize("verb", ["classify", "embed", "predict", "fill"])
def test_a_long_row_is_skipped_if_it_is_not_to_be_cut(
    transalg, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    task, *_, good, _, _ = VERBS[verb]
    command = (verb, str(folder / task), "--json", "--too-long", "error")
    typed(monkeypatch, f"{good + ' cat' * 9}\n{good}\n".encode())
    status, shown, error = transalg(*command)
    assert status == 0 and json.loads(shown)["row"] == 2
    assert error.startswith("transalg: standard input, row 1: ") and "this model takes at most ℓ_max = 29; skipped\n" in error
    assert error.endswith("transalg: 1 of 2 rows skipped\n")
    typed(monkeypatch, b"")
    assert "standard input: expected text, got nothing" in transalg(*command)[2]


def test_many_bad_rows_are_counted_rather_than_listed(transalg, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transalg.cli.using.LISTED", 2)
    (tmp_path / "t.txt").write_text("a cat\n" + "\n" * 5)
    error = transalg("classify", str(folder / "classify"), "--file", str(tmp_path / "t.txt"))[2].splitlines()
    assert [line.rpartition(", ")[2] for line in error[:1]] == ["got none; skipped"] and len(error) == 4
    assert error[2] == f"transalg: {tmp_path / 't.txt'}: 3 more rows cannot be used" and error[3] == "transalg: 5 of 6 rows skipped"


def test_contexts_follow_the_rows_that_are_scored(transalg, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("tac a\n\nnar\n")
    options = ("--file", str(tmp_path / "t.txt"), "--json", "--context", "a cat", "sat", "ran")
    results = [json.loads(line) for line in transalg("score", str(folder / "seq2seq"), *options)[1].splitlines()]
    run = package.load(folder / "seq2seq")
    assert [one["row"] for one in results] == [1, 3]
    expected = run.scores(["tac a", "nar"], contexts=["a cat", "ran"])
    assert [one["log_p"] for one in results] == [pytest.approx(score.total) for score in expected]


@pytest.mark.parametrize("task", TASKS)
def test_what_is_refused_is_what_raises(folder: Path, task: str) -> None:
    run = package.load(folder / task)
    texts = ("a cat", "a <mask>", "ΩΩ", *("a" * n for n in range(26, 32)), "a" * 25 + "<mask>", "a" * 28 + "<mask>")
    does = {
        "classify": lambda text: run.classify(text, too_long="error"),
        "embed": lambda text: run.embed(text, too_long="error"),
        "predict": lambda text: run.predict(text, too_long="error", ell_gen=2),
        "fill": lambda text: run.fill(text, too_long="error"),
    }
    if run.heads:  # which head is asked is no matter of the text
        does["classify"] = lambda text: run.classify(text, head=next(iter(run.heads)), too_long="error")
    checked = [(does[ability], ability, {"too_long": "error"}) for ability in find(task).abilities if ability in does]
    if "score" in find(task).abilities:
        context = "a" if find(task).has_context else None
        for eos in (True, False):
            checked.append((lambda text, eos=eos: run.score(text, context=context, eos=eos), "score", {"eos": eos}))
    for do, ability, options in checked:
        for text in texts:
            try:
                do(text)
                raised = False
            except ValueError:
                raised = True
            assert (run.refusal(ability, text, **options) is not None) == raised, (ability, text)


def test_other_warnings_are_shown_as_usual() -> None:
    with pytest.warns(UserWarning, match="something else"), working("Working", 1):
        warnings.warn("something else", stacklevel=1)


def test_predictions_are_written_atomically(transalg, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_text("old")
    command = ("evaluate", str(folder / "classify"), "--predictions", str(path))

    def broken(record: dict) -> str:
        raise ValueError("a disk that is full") if path.exists() and len(list(tmp_path.iterdir())) > 1 else AssertionError

    with monkeypatch.context() as patch:
        patch.setattr("transalg.cli.evaluate.json_line", broken)
        assert transalg(*command)[0] == 2
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    assert transalg(*command)[0] == 0
    assert {"row", "where", "text", "label", "prediction", "probability"} == set(json.loads(path.read_text().splitlines()[0]))
    for bad in (tmp_path, tmp_path / "nowhere" / "x"):
        status, _, error = transalg(*command[:-1], str(bad))
        assert status == 2 and "expected a file in a folder that exists" in error


def test_evaluating_a_classifier_shows_its_confusion(transalg, folder: Path, tmp_path: Path) -> None:
    command = ("evaluate", str(folder / "classify"), "--data", str(folder / "labels.txt"))
    status, shown, _ = transalg(*command, "--confusion", str(tmp_path / "c.png"), "--calibration", str(tmp_path / "r.svg"))
    result = json.loads(transalg(*command, "--json")[1])
    assert status == 0 and "calibration error, expected (ECE)" in shown
    lines = shown[shown.index("true ╲ predicted") :].splitlines()
    assert lines[0].split()[3:] == ["cat", "other"] and [line.split() for line in lines[1:]] == [
        [label, *map(str, row)] for label, row in zip(("cat", "other"), result["confusion"], strict=True)
    ]
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "r.svg").read_bytes().startswith(b"<?xml")
    assert len(result["calibration"]) == 15 and sum(each["texts"] for each in result["calibration"]) == 8
    for option in ("--confusion", "--calibration"):
        status, _, error = transalg("evaluate", str(folder / "lm"), option, str(tmp_path / "x.png"))
        assert status == 2 and f"{option}: expected a model for classify, multi, which has classes; got one for lm" in " ".join(
            error.split()
        )
        status, _, error = transalg(*command, option, str(tmp_path / "x.doc"))
        assert status == 2 and "expected a name that ends in .png, .svg or .pdf" in error


def test_a_confusion_matrix_that_is_too_wide_is_shown_as_pairs() -> None:
    labels = [f"class number {i}" for i in range(19)]
    confusion = np.diag(np.full(19, 7))
    confusion[3, 5], confusion[11, 2] = 2, 1
    evaluation = Evaluation({}, (), class_figures(confusion, labels), confusion)
    console = Console(width=80, file=io.StringIO())
    console.print(confusion_table(evaluation, 80))
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines[1:] == ["class number 3 class number 5 2 22.2%", "class number 11 class number 2 1 12.5%"]
    small = np.diag([7, 5])
    assert confusion_table(Evaluation({}, (), class_figures(small, "ab"), small), 80).row_count == 2


def test_evaluate_takes_beams(transalg, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    command = ("evaluate", str(folder / "seq2seq"), "--data", str(folder / "pairs.txt"), "--predictions", str(out), "--beams", "3")
    assert transalg(*command)[0] == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    run = package.load(folder / "seq2seq")
    assert [one["prediction"] for one in records] == run.predict([one["source"] for one in records], beams=3)
    status, _, error = transalg("evaluate", str(folder / "lm"), "--beams", "3")
    assert status == 2 and "beams: expected a model for seq2seq" in error


def test_plots_go_to_the_file_that_is_named_and_nowhere_else(transalg, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "plots"
    target.mkdir()
    status, _, error = transalg("plot", str(folder / "lm"), "--out", str(target))
    assert status == 2 and "plots: expected a file in a folder that exists" in error
    assert list(tmp_path.iterdir()) == [target] and not list(target.iterdir())
    for name, start in (("curves", b"\x89PNG"), ("curves.svg", b"<?xml"), ("curves.pdf", b"%PDF")):
        assert transalg("plot", str(folder / "lm"), "--out", str(target / name))[0] == 0
        assert (target / name).read_bytes().startswith(start)
    assert {path.name for path in target.iterdir()} == {"curves", "curves.svg", "curves.pdf"}
    status, _, error = transalg("plot", str(folder / "lm"), "--out", str(target / "curves.doc"))
    assert status == 2 and "expected a name that ends in .png, .svg or .pdf" in error and len(list(target.iterdir())) == 3
