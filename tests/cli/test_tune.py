"""`headrace tune`: options, mistakes, and what it prints."""

import sys
from types import SimpleNamespace

import pytest

from headrace.cli.main import main
from headrace.cli.train import read_run_options
from headrace.cli.tune import TuneOptions
from headrace.settings import preset

RATE = ["--tune", "learning-rate=log:1e-4:1e-2"]


def read(*words):
    return read_run_options(TuneOptions, words, "headrace tune", "")


@pytest.mark.parametrize(
    "words", [["CartPole-v1", *RATE], [*RATE, "CartPole-v1"], ["--trials", "3", *RATE, "CartPole-v1"]]
)
def test_the_environment_may_be_anywhere(words):
    assert read(*words).environment == "CartPole-v1"


def test_options_are_those_of_a_run_and_the_studys_own():
    options = read("CartPole-v1", *RATE, "--tune", "batch-size=choice:32,64", "--parallel", "2", "--actors", "3")
    assert options.tune == ("learning-rate=log:1e-4:1e-2", "batch-size=choice:32,64")
    assert (options.trials, options.parallel, options.study_dir) == (20, 2, None)
    assert options.topology.actors == 3
    assert options.to_config().steps == preset("CartPole-v1").steps


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "tune needs an environment"),
        (["CartPole-v1"], "tune is empty; it must be at least one NAME=VALUES"),
        (["CartPole-v1", "--tune", "learning-rate"], "tune is learning-rate; it must be NAME=VALUES"),
        (["CartPole-v1", *RATE, *RATE], "tune learning-rate is given twice"),
        (
            ["CartPole-v1", *RATE, "--learning-rate", "0.5"],
            "tune learning-rate and --learning-rate are given; leave one",
        ),
        (
            ["CartPole-v1", *RATE, "--learning_rate=0.5"],
            "tune learning-rate and --learning-rate are given; leave one",
        ),
        (
            ["CartPole-v1", "--tune", "double=choice:true,false", "--no-double"],
            "tune double and --double are given; leave one",
        ),
        (["CartPole-v1", *RATE, "--trials", "0"], "trials is 0; it must be between 1 and"),
        (["CartPole-v1", *RATE, "--parallel", "0"], "parallel is 0; it must be between 1 and"),
        (["CartPole-v1", *RATE, "--run-dir", "x"], "--run-dir is not an option of headrace tune"),
        (["CartPole-v1", *RATE, "--until-score", "9"], "steps is none"),
        (["CartPole-v1", "--tune", "learning-rate=log:0:1"], "tune learning-rate is log:0:1"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("headrace: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_without_optuna_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in [name for name in sys.modules if name.startswith("headrace.tuning.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["tune", "CartPole-v1", *RATE]) == 2
    assert "pip install 'headrace[tune]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("best", "interrupted", "code"),
    [(True, False, 0), (False, False, 1), (True, True, 130)],
)
def test_the_table_is_printed(best, interrupted, code, tmp_path, monkeypatch, capsys):
    from headrace.tuning import run
    from headrace.tuning.study import TrialRow

    state = "complete" if best else "failed"
    row = TrialRow(0, state, 2.5, {"learning-rate": 0.001}, 1_000, 65.0, tmp_path / "trials" / "0000", "", {})
    spaces = [SimpleNamespace(name="learning-rate")]
    calls = []

    def tune(config, values, **options):
        calls.append((config, values, options))
        return run.TuneResult(tmp_path, spaces, [row], interrupted)

    monkeypatch.setattr(run, "tune", tune)
    assert main(["tune", "CartPole-v1", *RATE, "--trials", "3"]) == code
    [(config, values, options)] = calls
    assert config.environment == "CartPole-v1"
    assert values == {"learning-rate": "log:1e-4:1e-2"}
    assert options["trials"] == 3
    out = capsys.readouterr().out
    assert all(text in out for text in ("rank", "learning-rate", "0.001", "2.5", "1:05", state, "trials.csv"))
    assert ("--study-dir" in out) == interrupted
