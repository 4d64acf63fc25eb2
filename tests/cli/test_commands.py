"""The commands, with training faked: what they call, print, leave and return."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.cli.main import main
from headrace.errors import EnvironmentFault, LaunchError
from headrace.report import PlainDisplay, QuietDisplay, RunDirectory
from headrace.settings import RunConfig, preset
from headrace.topologies.apex import Apex
from headrace.topologies.serial import Serial
from headrace.zoo import find_kept, kept_policies


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "a run"
    RunDirectory.create(path, RunConfig("CartPole-v1", topology=Serial(), steps=1_000).to_json()).close()
    return path


def test_train(training, tmp_path, capsys):
    assert main(["train", "CartPole-v1", "--until-score", "475", "--run-dir", "a run"]) == 0
    [(name, (config, run, display), settings)] = training.calls
    assert (name, settings) == ("train", {"local_actors": True})
    assert config == RunConfig(
        "CartPole-v1", preset("CartPole-v1").algorithm, preset("CartPole-v1").topology("apex"), until_score=475.0
    )
    assert run.shown == Path("a run")
    assert type(display) is PlainDisplay
    assert RunConfig.from_json((tmp_path / "a run" / "config.json").read_text()) == config
    out = capsys.readouterr().out
    for shown in (
        "CartPole-v1 dqn apex in a run",
        "CartPole-v1: reached the target score",
        "487.2 ± 3.0 over 100 greedy episodes",
        "after 0:42",
        "12,345 steps, 90 episodes, 678 updates in 1:05",
        "headrace evaluate 'a run'",
        "headrace report 'a run'",
        "headrace resume 'a run' --until-score X",
    ):
        assert shown in out, shown


def test_a_score_of_an_earlier_policy_says_so(training, monkeypatch, capsys):
    monkeypatch.setitem(training.summary, "evaluation_environment_steps", 12_000)
    assert main(["train", "CartPole-v1", "--steps", "12345"]) == 0
    assert "487.2 ± 3.0 over 100 greedy episodes, after 12,000 steps\n" in capsys.readouterr().out


def test_without_a_stopping_rule_the_presets_steps_apply(training, capsys):
    assert main(["train", "CartPole-v1"]) == 0
    config, run, _ = training.calls[0][1]
    assert config.steps == preset("CartPole-v1").steps
    assert run.shown.parent == Path("runs")
    assert run.path.name.startswith("CartPole-v1-dqn-2")
    assert f"no stopping rule is set: the run stops after {config.steps:,} steps" in capsys.readouterr().out


@pytest.mark.parametrize("stop", [["--steps", "10"], ["--time-limit", "1m"], ["--until-score", "5"]])
def test_any_stopping_rule_replaces_the_presets_steps(training, stop, capsys):
    assert main(["train", "CartPole-v1", *stop]) == 0
    config = training.calls[0][1][0]
    assert config.steps == (10 if stop[0] == "--steps" else None)
    assert "no stopping rule is set" not in capsys.readouterr().out


def test_a3c_has_a_topology_that_runs_it(training):
    assert main(["train", "CartPole-v1", "--algorithm", "a3c"]) == 0
    config = training.calls[0][1][0]
    assert (config.algorithm, config.topology.name) == (preset("CartPole-v1", "a3c").algorithm, "hogwild")


def test_quiet_training(training, capsys):
    main(["train", "CartPole-v1", "--quiet"])
    assert type(training.calls[0][1][2]) is QuietDisplay


def test_an_interrupt_exits_with_130_and_prints_how_to_resume(training, capsys):
    training.summary |= {"stopped_by": "interrupt", "mean_return": None, "seconds_to_score": None}
    assert main(["train", "CartPole-v1", "--run-dir", "run"]) == 130
    out = capsys.readouterr().out
    assert "interrupted, and saved" in out
    assert out.endswith("headrace resume run\n")


def test_a_mistake_leaves_no_directory_but_a_failed_process_does(training, tmp_path, capsys):
    training.error = EnvironmentFault("environment Foo-v0 is unknown")
    assert main(["train", "Foo-v0", "--run-dir", "run"]) == 2
    assert capsys.readouterr().err == "headrace: error: environment Foo-v0 is unknown\n"
    assert not (tmp_path / "run").exists()
    training.error = LaunchError("actor 0 died three times")
    assert main(["train", "Foo-v0", "--run-dir", "run"]) == 1
    assert (tmp_path / "run" / "config.json").exists()


def test_train_refuses_a_directory_with_another_run(training, run, capsys):
    assert main(["train", "CartPole-v1", "--run-dir", str(run)]) == 2
    assert "holds another run" in capsys.readouterr().err
    assert training.calls == []


def test_resume(training, run, capsys):
    assert main(["resume", str(run), "--steps", "2k", "--time-limit", "5m", "--until-score", "-3"]) == 0
    [(name, (directory, _), options)] = training.calls
    assert (name, directory.path) == ("resume", run)
    assert options == {"steps": 2_000, "time_limit_seconds": 300.0, "until_score": -3.0}
    assert f"CartPole-v1 dqn serial in {run}" in capsys.readouterr().out


def test_resume_keeps_stopping_rules_that_are_not_given(training, run):
    assert main(["resume", str(run)]) == 0
    assert training.calls[0][2] == {"steps": None, "time_limit_seconds": None, "until_score": None}


def test_resume_of_a_run_in_training_is_refused(training, run, capsys):
    with RunDirectory.open(run, writing=True):
        assert main(["resume", str(run)]) == 2
    assert "is in use by process" in capsys.readouterr().err


def test_evaluate_as_text(training, run, capsys):
    assert main(["evaluate", str(run)]) == 0
    assert training.calls[0][2] == {"episodes": 100, "seed": None}
    assert capsys.readouterr().out == (
        "2 greedy episodes after 12,345 steps of training\n"
        "  return    2.00 ± 1.50 (min 1.00, max 3.00)\n"
        "  length    15.0 steps\n"
    )


def test_evaluate_as_json_with_a_video(training, run, tmp_path, capsys):
    training.frames = [np.zeros((16, 16, 3), np.uint8)] * 5
    video = tmp_path / "video.gif"
    assert main(["evaluate", str(run), "--episodes", "7", "--seed", "3", "--json", "--video", str(video)]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "run": str(run),
        "episodes": 2,
        "mean_return": 2.0,
        "std_return": 1.5,
        "min_return": 1.0,
        "max_return": 3.0,
        "version": 9,
        "environment_steps": 12_345,
        "returns": [1.0, 3.0],
        "lengths": [10, 20],
    }
    assert [call[2] for call in training.calls] == [{"seed": 3, "max_steps": 3_000}, {"episodes": 7, "seed": 3}]
    assert video.stat().st_size > 0


def test_what_an_environment_prints_is_not_in_the_json(training, run, tmp_path, capfd, monkeypatch):
    def drawn():
        print("rendering")
        os.write(1, b"native code\n")
        yield np.zeros((16, 16, 3), np.uint8)

    training.frames = drawn()
    assert main(["evaluate", str(run), "--json", "--video", str(tmp_path / "video.gif")]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["episodes"] == 2
    assert "rendering\n" in err
    assert "native code\n" in err
    os.write(1, b"and back\n")
    assert capfd.readouterr().out == "and back\n"


def test_an_impossible_video_path_is_refused_before_the_episodes(training, run, capsys):
    assert main(["evaluate", str(run), "--video", "video.avi"]) == 2
    assert "must end in .mp4 or .gif" in capsys.readouterr().err
    assert training.calls == []


def test_an_environment_that_draws_nothing_is_refused_before_the_episodes(training, run, capsys):
    training.error = EnvironmentFault("its factory takes no render_mode")
    assert main(["evaluate", str(run), "--video", "video.gif"]) == 2
    assert "takes no render_mode" in capsys.readouterr().err
    assert [name for name, *_ in training.calls] == ["record_frames"]


def test_a_report_is_written_even_if_the_video_fails(training, run, progress_record, capsys):
    with RunDirectory.open(run, writing=True) as directory:
        directory.append(progress_record)
    training.error = EnvironmentFault("the environment draws nothing")
    assert main(["report", str(run)]) == 0
    assert "No video:" in (run / "report.html").read_text()
    assert f"wrote {run / 'report.html'}" in capsys.readouterr().out


def test_report_without_asking_for_a_video(training, run, progress_record, tmp_path):
    with RunDirectory.open(run, writing=True) as directory:
        directory.append(progress_record)
    assert main(["report", str(run), "--no-video", "--output", str(tmp_path / "page.html")]) == 0
    assert training.calls == []
    assert "<svg" in (tmp_path / "page.html").read_text()


@pytest.fixture
def progress_record():
    return {
        "kind": "progress",
        "seconds": 1.0,
        "environment_steps": 10,
        "learner_steps": 1,
        "episodes": 1,
        "mean_return": 1.0,
        "samples_per_insert": 1.0,
        "staleness": 1.0,
        "steps_per_second": 1.0,
        "learner_steps_per_second": 1.0,
    }


def test_export(training, run, capsys):
    assert main(["export", str(run), "policy.onnx"]) == 0
    assert training.calls[0][1][1] == Path("policy.onnx")
    assert capsys.readouterr().out == "wrote policy.onnx; its outputs differ from the network's by at most 2.5e-07\n"


def test_export_of_the_zoo(tmp_path, capsys):
    path = tmp_path / "policy.onnx"
    assert main(["export", "zoo:CartPole-v1", str(path)]) == 0
    assert path.read_bytes() == find_kept("CartPole-v1").path.read_bytes()
    assert capsys.readouterr().out == f"wrote {path}, the policy zoo:CartPole-v1\n"
    assert main(["export", "zoo:CartPole-v1", str(tmp_path / "policy.txt")]) == 2


def test_presets_side_by_side(capsys):
    assert main(["presets"]) == 0
    out = capsys.readouterr().out
    assert all(
        name in out for name in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3", "ALE/", "dm_control/")
    )
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines()]
    capacities = [row[1:4] for row in rows if row[0] == "--replay-capacity"]  # wide tables are divided
    assert capacities[0][:2] == ["100,000", "50,000"]
    assert ["100,000", "·", "300,000"] in capacities  # D4PG: the default, Pendulum, cartpole-balance
    assert ["100,000", "·", "150,000"] in capacities  # SAC: the default, Reach, LunarLanderContinuous
    assert next(row[1:3] for row in rows if row[0] == "--value-min") == ["-150", "-1500"]
    assert max(map(len, out.splitlines())) <= 120


def test_one_preset_in_full(capsys):
    assert main(["presets", "CartPole-v1"]) == 0
    out = capsys.readouterr().out
    rows = {line.strip("│").split("│")[0].strip(): line for line in out.splitlines() if "│" in line}
    assert "50,000" in rows["--replay-capacity"]
    assert "off" in rows["--dueling"]
    assert str(Apex().pull_period) in rows["--pull-period (apex)"]
    assert preset("CartPole-v1").note in out


def test_one_preset_of_another_algorithm_in_full(capsys):
    assert main(["presets", "CartPole-v1", "--algorithm", "a3c"]) == 0
    rows = {line.strip("│").split("│")[0].strip(): line for line in capsys.readouterr().out.splitlines() if "│" in line}
    assert "64 64" in rows["--hidden"]
    assert "200,000" in rows["steps"]
    assert "--replay-capacity" not in rows


def test_a_name_is_no_markup(capsys):
    assert main(["presets", "[/foo]"]) == 0
    assert "[/foo]: " in capsys.readouterr().out


def test_presets_of_one_algorithm_side_by_side(capsys):
    assert main(["presets", "--algorithm", "dyna-q"]) == 0
    out = capsys.readouterr().out
    assert "dyna-q setting" in out
    assert "d4pg setting" not in out


def test_a_preset_of_the_other_algorithm_in_full(capsys):
    assert main(["presets", "dm_control/finger-spin"]) == 0
    out = capsys.readouterr().out
    rows = {line.strip("│").split("│")[0].strip(): line for line in out.splitlines() if "│" in line}
    assert "512 512 256" in rows["--critic-hidden"]
    assert "32" in rows["--communication-bits (apex)"]
    assert "--double" not in rows
    assert preset("dm_control/finger-spin").note in " ".join(out.split())


def test_the_zoo_is_listed_and_played(training, capsys):
    assert main(["evaluate", "zoo:"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [f"zoo:{name}" for name in kept_policies()]
    assert main(["evaluate", "zoo:", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [*listed] == [f"zoo:{name}" for name in kept_policies()]
    assert listed["zoo:CartPole-v1"]["mean_return"] == kept_policies()["CartPole-v1"].mean_return
    assert main(["evaluate", "zoo:", "--episodes", "7"]) == 2
    assert "episodes is 7; it must be left out with zoo:" in capsys.readouterr().err
    assert training.calls == []
    assert main(["evaluate", "zoo:CartPole-v1", "--episodes", "7"]) == 0
    assert training.calls == [
        ("evaluate", (kept_policies()["CartPole-v1"],), {"episodes": 7, "seed": None}),
    ]


def test_a_policy_that_the_zoo_lacks_is_refused_in_one_line(training, capsys):
    assert main(["evaluate", "zoo:CartPole-v9"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("headrace: error: policy is zoo:CartPole-v9; it must be one of zoo:")
    assert error.count("\n") == 1


def test_train_with_the_frugal_preset(training, capsys):
    assert main(["train", "LunarLander-v3", "--frugal", "--batch-size", "64"]) == 0
    known = preset("LunarLander-v3", frugal=True)
    (config, *_) = training.calls[0][1]
    assert config.algorithm == replace(known.algorithm, batch_size=64)
    assert (config.topology, config.steps) == (known.topology("serial"), known.steps)
    assert main(["train", "LunarLander-v3", "--frugal", "--topology", "apex"]) == 0
    assert training.calls[1][1][0].topology == known.topology("apex")
    assert main(["train", "Taxi-v4", "--frugal"]) == 2
    assert "Taxi-v4 with dqn has no frugal preset" in capsys.readouterr().err


def test_only_notes_of_presets_that_are_shown(capsys):
    assert main(["presets", "--algorithm", "crossq"]) == 0
    out = capsys.readouterr().out
    assert "Pendulum-v1: about -150" in out
    assert "minatar" not in out
    assert main(["presets", "--algorithm", "a3c", "--frugal"]) == 0
    assert capsys.readouterr().out == (
        "a3c has no frugal presets; `headrace train ENV --algorithm a3c --help` shows its defaults\n"
    )


def test_frugal_presets_side_by_side(capsys):
    assert main(["presets", "--frugal"]) == 0
    out = capsys.readouterr().out
    assert "dqn setting" in out
    assert "d4pg setting" not in out
    assert main(["presets", "LunarLander-v3", "--frugal"]) == 0
    assert "--samples-per-step" in capsys.readouterr().out
