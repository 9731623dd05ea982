"""Options: what is filled in, what is refused, and that a TOML file says the same."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from transalg.cli import VERBS, check_names
from transalg.hyper import DHyper, EDHyper, from_dict, preset
from transalg.hyper.cost import flops_per_token
from transalg.reading import read_toml
from transalg.runs.config import FLOPS, MINUTES, Config, Train, default_epochs, ell_max_for, meant
from transalg.runs.synonyms import SYNONYMS
from transalg.tasks import TASKS


def make(task: str = "lm", **given: Any) -> Config:
    return Config.from_dict({"task": task, "data": "pydocs"} | given)


@pytest.mark.parametrize("task", TASKS)
def test_a_file_says_the_same(task: str) -> None:
    split = {} if TASKS[task].records == "episodes" else {"split": 0.2}  # their files say what validates
    config = make(task, **split, model={"H": 2, "dropout": 0.1}, train={"eta": 0.5, "patience": 3})
    filled, steps = config.filled(config.hyper(100, 37, 5), 10, 1000, 30.0)
    for each in (config, filled):
        assert Config.from_dict(tomllib.loads(each.toml())) == each
    assert filled.hyper(100, 37, 5) == config.hyper(100, 37, 5)  # what was filled in is what would have been
    assert filled.filled(filled.hyper(100, 37, 5), 10, 1000, 30.0) == (filled, steps)


def test_what_is_filled_in() -> None:
    hyper = make().hyper(100, 50)
    assert (hyper.L, hyper.d_e, hyper.d_mlp, hyper.ell_max, hyper.N_V) == (4, 128, 512, 128, 100)
    config, steps = make().filled(hyper, 10, 1000, 30.0)
    train = config.train
    assert (steps, train.eta, train.warmup, train.eval_every, train.save_every) == (1000, 0.015, 50, 100, 100)
    assert make("seq2seq").hyper(100, 5000).ell_max == 1024
    wide = make(model={"d_e": 512}).hyper(100, 50)
    assert wide.d_mlp == 2048 and make().filled(wide, 10, 1000, 30.0)[0].train.eta == pytest.approx(0.0075)
    classifier = make("classify").hyper(100, 50, 5)
    assert make("classify").filled(classifier, 700, 1000, 30.0)[1] == 4200
    assert make("classify").filled(classifier, 7, 1000, 30.0)[1] == 600  # few data are passed over more often
    assert make(train={"epochs": 2.5}).filled(hyper, 10, 1000, 30.0)[1] == 25
    assert make(train={"optimizer": "sgd"}).filled(wide, 10, 1000, 30.0)[0].train.eta == 0.1


def test_the_default_number_of_epochs_is_bounded_by_an_estimate() -> None:
    """Few data: the task's epochs. More: about half an hour of two cores, counted in operations. Much more: three epochs."""
    task, hyper = TASKS["seq2seq"], make("seq2seq").hyper(8000, 50)
    few, more, much = (default_epochs(20.0, hyper, rows, 30.0) for rows in (1000, 100_000, 10**8))
    assert (few, much) == (20.0, 3.0) and 3 < more < 20
    seconds = 3 * flops_per_token(hyper, 15) * 15 * 100_000 * more / FLOPS
    assert seconds == pytest.approx(60 * MINUTES, rel=0.02)
    assert make("seq2seq").filled(hyper, 10, 10**8, 30.0)[0].train.epochs == 3.0
    assert make("seq2seq", train={"epochs": 7.0}).filled(hyper, 10, 10**8, 30.0)[0].train.epochs == 7.0
    assert make("lm").filled(make().hyper(100, 50), 10, 10**8, 128.0)[0].train.steps == TASKS["lm"].steps
    assert task.epochs


def test_a_model_of_another_task_brings_its_sizes_and_not_its_dropout() -> None:
    base = make("mlm", model={"d_e": 64, "dropout": 0.05}).hyper(100, 50)
    classifier = make("classify", init="run").hyper(100, 50, 3, base)
    defaults = TASKS["classify"].sizes
    assert (classifier.d_e, classifier.L) == (64, base.L)
    assert (classifier.dropout, classifier.pooling) == (defaults["dropout"], defaults["pooling"])
    assert make("classify", init="run", model={"dropout": 0.07}).hyper(100, 50, 3, base).dropout == 0.07
    assert make("mlm", init="run").hyper(100, 50, 0, base).dropout == 0.05


def test_a_resumed_run_has_what_the_other_model_brought() -> None:
    """Also what that did not have: TOML leaves it out, and no default of the task takes its place."""
    base = DHyper(N_V=100, ell_max=50, L=1, H=2, d_e=16, d_mlp=32, init_std=None)
    brought = make("lm", init="run").hyper(100, 50, 0, base)
    written = {name: value for name, value in vars(brought).items() if value is not None and name not in ("N_V", "special")}
    assert brought.init_std is None and make("lm", init="run", model=written).hyper(100, 50) == brought
    assert make("lm").hyper(100, 50).init_std == 0.02


def test_ell_max_from_the_data_leaves_room_for_longer_texts() -> None:
    """A quarter more, at least 8 tokens, a multiple of 8, at most 1024; what the user chooses is taken as it is."""
    for longest in (1, 4, 31, 32, 33, 500, 800, 1023, 1024):
        ell_max = ell_max_for(longest, 1024)
        assert ell_max == 1024 or (ell_max % 8 == 0 and 0 <= ell_max - longest - max(8, longest / 4) < 8)
        assert longest <= ell_max <= 1024
    for task in ("classify", "seq2seq"):
        assert make(task).hyper(100, 50, 3).ell_max == ell_max_for(50, 1024) == 64
        assert make(task, model={"ell_max": 50}).hyper(100, 50, 3).ell_max == 50
    assert make("lm").hyper(100, 50).ell_max == 128


def test_a_model_of_others_is_trained_with_small_steps() -> None:
    def chosen(imported: bool, **train: Any) -> tuple[str | None, float | None]:
        options = make("classify", init="run", train=train).with_optimizer(imported).train
        return options.optimizer, options.eta

    assert (chosen(False), chosen(True)) == (("muon", None), ("adamw", 1e-4))
    assert chosen(True, eta=0.5) == ("adamw", 0.5) and chosen(True, optimizer="muon") == ("muon", None)
    assert chosen(True, optimizer="adamw") == ("adamw", 1e-4) and chosen(False, optimizer="adamw") == ("adamw", None)


def test_presets_and_other_models_to_start_from() -> None:
    gpt2 = make(preset="gpt2", model={"L": 2, "ell_max": 64}).hyper(300, 50)
    assert gpt2 == preset("gpt2", L=2, ell_max=64, N_V=300)
    narrow = make(preset="gpt2", model={"d_e": 96, "H": 3}).hyper(300, 50)
    assert (narrow.d_attn, narrow.d_mlp) == (32, 384)
    bert = make("classify", preset="bert-base").hyper(300, 50, 4)
    assert bert.N_C == 4 and not bert.tied and bert.segments == 2 and bert.d_e == 768
    with pytest.raises(ValueError, match="bert-base: a model of Algorithm 9; lm takes Algorithm 10"):
        make(preset="bert-base").hyper(300, 50)
    base = make("mlm").hyper(100, 50)
    assert make("classify").hyper(100, 50, 3, base).d_e == base.d_e
    with pytest.raises(ValueError, match="there is no preset 'gpt9'"):
        make(preset="gpt9").hyper(10, 5)


def test_shares() -> None:
    assert make().share() == (0.9, 1.0) and make(split=0).share() is None and make(valid="x").share() is None
    assert make(folds=4, fold=2).share() == (0.25, 0.5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"trian": {}}, "trian: there is no such option; did you mean train?"),
        ({"train": {"step": 3}}, "train.step: there is no such option; did you mean steps?"),
        ({"train": {"steps": 2.5}}, "train.steps: expected a whole number, got 2.5"),
        ({"train": {"steps": True}}, "train.steps: expected a whole number, got True"),
        ({"train": {"eta": "fast"}}, "train.eta: expected a number, got 'fast'"),
        ({"train": {"compile": 1}}, "train.compile: expected true or false, got 1"),
        ({"train": {"steps": 0}}, "train.steps: expected a whole number from 1 to 1,000,000,000, got 0"),
        ({"train": {"batch_size": 0}}, "train.batch_size: expected a whole number from 1 to 1,000,000, got 0"),
        ({"train": {"eta": float("nan")}}, "train.eta: expected a number in (0, 1000], got nan"),
        ({"train": {"steps": 3, "epochs": 2}}, "expected steps or epochs, got both"),
        ({"train": {"optimizer": "adam"}}, "train.optimizer: expected muon, adamw, sgd, got 'adam'"),
        ({"train": {"noise": 0.1}}, "lm predicts what it reads"),
        ({"train": 3}, "train: expected a table of options, got 3"),
        ({"task": "lms"}, "task: expected lm, mlm, seq2seq, classify, multi or gato, got 'lms'; did you mean lm?"),
        ({"task": 3}, "task: expected lm, mlm, seq2seq, classify, multi or gato, got 3"),
        ({"train": {"schedule": "step"}}, "train.schedule: expected linear, cosine, constant, trapezoid, got 'step'"),
        ({"data": ""}, "--data: expected a file"),
        ({"split": 1.5}, r"split: expected a number in [0, 1), got 1.5"),
        ({"folds": 1}, "folds: expected a whole number from 2 to 1,000, got 1"),
        ({"folds": 2, "valid": "x"}, "--valid cannot be given"),
        ({"preset": "gpt2", "init": "run"}, "expected a preset or --init, got both"),
        ({"model": {"L_enc": 2}}, "--model.L_enc: a model for lm (Algorithm 10) has no such option"),
        ({"model": {"droput": 0.1}}, "--model.droput: a model for lm (Algorithm 10) has no such option; did you mean dropout?"),
        ({"model": {"N_V": 9}}, "it comes from the data"),
        ({"documents": "page"}, "documents: expected file, paragraph, line, got 'page'"),
    ],
)
def test_what_is_refused(given: dict[str, Any], said: str) -> None:
    import re

    with pytest.raises(ValueError, match=re.escape(said)):
        Config.from_dict({"task": "lm", "data": "pydocs"} | given)


def test_names_that_toml_cannot_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transalg.runs.paths import with_paths

    with pytest.raises(ValueError, match=r"--data: expected a name in UTF-8, for config\.toml keeps it"):
        Config(task="lm", data="a\udcff.txt")
    (tmp_path / "in\udcff").mkdir()
    monkeypatch.chdir(tmp_path / "in\udcff")
    Path("ä.txt").write_text("a cat")
    assert 'relative = "../ä.txt"' in with_paths(Config(task="lm", data="ä.txt"), Path("run")).encode().decode()


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with pytest.raises(ValueError, match=r"a\.toml: cannot be read: No such file"):
        read_toml(path)
    path.write_text("task = = 3\n")
    with pytest.raises(ValueError, match=r"a\.toml: not TOML: .*line 1"):
        read_toml(path)


def test_hyperparameters_as_data() -> None:
    for hyper in (preset("bert-base"), preset("gpt3-small"), preset("transformer-base"), preset("gopher-44m")):
        assert from_dict(hyper.to_dict()) == hyper
    with pytest.raises(ValueError, match="kind: expected DHyper"):
        from_dict({"kind": "Hyper"})
    with pytest.raises(ValueError, match="L_enc: Algorithm 10 has no such hyperparameter"):
        from_dict(preset("gpt2").to_dict() | {"L_enc": 2})
    assert isinstance(from_dict(preset("transformer-base").to_dict()), EDHyper) and isinstance(from_dict(preset("gpt2").to_dict()), DHyper)


def test_other_software_s_names_lead_to_ours() -> None:
    options = {
        *(each.name for each in fields(Config)),
        *(f"train.{each.name}" for each in fields(Train)),
        *(f"model.{each.name}" for task in TASKS.values() for each in fields(task.hyper_class)),
    }
    of_verbs = {each.name for verb in VERBS.values() for each in fields(verb)}
    assert {here for each in SYNONYMS.values() for here in each} <= options | of_verbs, "every name that is suggested exists"
    assert not {option.rpartition(".")[2] for option in options} & {*SYNONYMS}, "and none that is corrected"
    assert all(meant(option) == () for option in options)
    for name, verb in VERBS.items():
        check_names([name, *(f"--{each.name}" for each in fields(verb) if name != "train")])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"train": {"lr": 0.1}}, "train.lr: there is no such option; did you mean train.eta?"),
        ({"train": {"dropout": 0.1}}, "train.dropout: there is no such option; did you mean model.dropout?"),
        ({"learning_rate": 0.1}, "learning_rate: there is no such option; did you mean train.eta?"),
        ({"epochs": 3}, "epochs: there is no such option; did you mean train.epochs?"),
        (
            {"task": "seq2seq", "model": {"L": 3}},
            "--model.L: a model for seq2seq (Algorithm 8) has no such option; did you mean L_enc or L_dec?",
        ),
        ({"model": {"hidden": 3}}, "--model.hidden: a model for lm (Algorithm 10) has no such option; did you mean model.d_e?"),
        ({"model": {"layers": 3}}, "has no such option; did you mean model.L or model.L_enc or model.L_dec?"),
        ({"model": {"steps": 3}}, "has no such option; did you mean train.steps?"),
    ],
)
def test_what_may_have_been_meant(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        make(**options)


def test_every_option_is_documented() -> None:
    for kind in (Config, Train):
        assert all(
            len(each.metadata.get("doc", "")) > 5 for each in fields(kind) if each.name not in ("task", "imported", "model", "train")
        )


def test_a_default_may_depend_on_the_vocabulary() -> None:
    """Sentences can be put in many ways, so that their labels are smoothed; of symbols one is right. A gated MLP has a narrower hidden layer."""
    assert make("seq2seq").hyper(100, 50, tokenizer="bpe").label_smoothing == 0.1
    assert (
        make("seq2seq").hyper(100, 50, tokenizer="word").label_smoothing
        == make("seq2seq").hyper(100, 50, tokenizer="char").label_smoothing
        == 0
    )
    assert make("seq2seq", model={"label_smoothing": 0.2}).hyper(100, 50, tokenizer="char").label_smoothing == 0.2
    assert make(model={"activation": "SwiGLU"}).hyper(100, 50).d_mlp == 344
    with pytest.raises(ValueError, match=r"activation: expected ReLU .*, got 'swiglu'"):
        make(model={"activation": "swiglu"}).hyper(100, 50)


def test_a_rate_for_fine_tuning_needs_a_run_to_start_from() -> None:
    with pytest.raises(ValueError, match=r"--train\.fine-tuning: expected a run to start from, got none; give --init RUN"):
        Config(task="lm", data="a", train=Train(fine_tuning=0.1))
    assert Config(task="lm", data="a", init="run", train=Train(fine_tuning=0.1)).train.fine_tuning == 0.1
