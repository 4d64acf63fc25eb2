"""headrace simulate: several sizes, and calibration."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.cli.main import main
from headrace.errors import ConfigError, LaunchError
from headrace.launch.simulated import Simulated
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig

CORRIDOR = "headrace.environments.toy:Corridor"
MEASURED = {"calibration": {"link": "3us,40Gbit"}}


def test_a_run_is_predicted_on_each_number_of_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"environment": "10ms", "start": "10ms"}))
    words = ["simulate", CORRIDOR, "--topology", "hogwild", "--cores", "1", "2", "--costs", str(costs), "--quiet"]
    words += ["--time-limit", "1", "--envs-per-worker", "1", "--final-evaluation-episodes", "0"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    assert {"capacity.csv", "scores.csv", "index.html", "cores-1", "cores-2"} == {
        path.name for path in (tmp_path / "out").iterdir()
    }
    assert "steps/s" in capsys.readouterr().out


def test_an_interrupted_prediction_is_not_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out" / "cores-2").mkdir(parents=True)
    assert main(["simulate", CORRIDOR, "--cores", "2", "--output", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.endswith("out has an earlier prediction; another --output is required\n")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([CORRIDOR], "cores"),
        ([CORRIDOR, "--cores"], "cores"),
        ([CORRIDOR, "--cores", "0", "2"], "cores"),
        ([CORRIDOR, "--cores", "2", "--cores", "4"], "cores is given twice"),
        ([CORRIDOR, "--cores", "²"], "cores is ²"),
        ([CORRIDOR, "--cores=two"], "cores is two;"),
        ([CORRIDOR, "--cores", "abc", "--quiet"], "cores is abc;"),
        ([CORRIDOR, "--cores", "2", "-1"], "cores is 2 -1;"),
        ([CORRIDOR, "--cores", "-1"], "cores is -1;"),
        ([CORRIDOR, "--cores="], "cores is '';"),
        ([CORRIDOR, "--cores", "--quiet"], "cores is without a number"),
        (["Nothing-v0", "--cores", "2", "--output", "out"], "Nothing-v0"),
        ([CORRIDOR, "--cores", "2", "--link", "fast"], "link"),
        ([CORRIDOR, "--cores", "2", "--faults", "often"], "faults"),
        ([CORRIDOR, "--cores", "2", "--costs", "missing.json"], "costs"),
        ([CORRIDOR, "--cores", "2", "--costs", "/dev/zero"], "costs is /dev/zero; it must be a JSON file of at most"),
        ([CORRIDOR, "--cores", "2", "--faults", "/dev/zero"], "faults is /dev/zero; it must be none, random:RATE or a"),
        (["calibrate", CORRIDOR, "--seconds", "0"], "seconds"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *words]) == 2
    assert not list(tmp_path.iterdir())
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


def test_sizes_before_an_error_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", CORRIDOR, "--topology", "hogwild", "--cores", "1", "64", "--quiet", "--time-limit", "1"]
    words += ["--envs-per-worker", "1", "--final-evaluation-episodes", "0", "--replay-capacity", "1200"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 2
    assert "replay_capacity" in capsys.readouterr().err
    assert len((tmp_path / "out" / "capacity.csv").read_text().splitlines()) == 2
    assert (tmp_path / "out" / "index.html").exists()


def test_the_directory_of_a_run_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunDirectory.create(tmp_path / "run", "{}"):
        pass
    before = sorted(tmp_path.rglob("*"))
    assert main(["simulate", CORRIDOR, "--cores", "1", "--output", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"headrace: error: output is {tmp_path / 'run'}; it must be another directory")
    assert error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("rule", [["--time_limit", "3"], ["--time-limit=3"], ["--time_limit=3"]])
def test_a_stopping_rule_may_be_spelled_with_underscores(
    rule: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.simulation import capacity

    asked: list[tuple[float | None, list[int]]] = []

    def predict(config: RunConfig, cores: list[int], *_: object) -> None:
        asked.append((config.time_limit_seconds, cores))
        raise ConfigError("enough")

    monkeypatch.setattr(capacity, "predict", predict)
    assert main(["simulate", CORRIDOR, "--cores=2", "8", *rule, "--output", str(tmp_path / "out")]) == 2
    assert asked == [(3.0, [2, 8])]


def test_calibration_writes_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from headrace.simulation import calibration

    monkeypatch.setattr(
        calibration, "calibrate", lambda environment, algorithm, seconds: MEASURED | {"environment": seconds}
    )
    path = tmp_path / "costs.json"
    assert main(["simulate", "calibrate", CORRIDOR, "--seconds", "3", "--output", str(path)]) == 0
    assert json.loads(path.read_text()) == MEASURED | {"environment": 3.0}
    assert f"--costs {path} --link 3us,40Gbit" in capsys.readouterr().out


def test_an_environment_that_fails_while_costs_are_measured_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", "calibrate", "headrace.environments.toy:Crashing", "--output", str(tmp_path / "costs.json")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "RuntimeError" in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_in_simulated_time_names_the_command_that_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text(json.dumps([{"at": at, "kind": "kill", "role": "evaluator 0"} for at in (0.5, 1.0, 1.5)]))
    costs = tmp_path / "costs.json"
    costs.write_text(json.dumps({"environment": "10ms"}))
    words = ["train", CORRIDOR, "--topology", "serial", "--steps", "100k", "--launcher", "simulated"]
    words += ["--costs", str(costs), "--faults", str(faults), "--seed", "3"]
    assert main([*words, "--quiet", "--run-dir", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert "evaluator 0 died 3 times" in error
    assert error.strip().endswith(f"to repeat it: headrace {' '.join(words)}")


def test_a_size_that_fails_names_the_command_that_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from headrace.simulation import capacity

    def train(config: RunConfig, run: RunDirectory, *_: object) -> SimpleNamespace:
        if config.launcher == Simulated(cores=8):
            raise LaunchError("it broke")
        run.append({"kind": "none"})
        return SimpleNamespace(summary={"stopped_by": "time"})

    monkeypatch.setattr(capacity, "train", train)
    monkeypatch.setattr(capacity, "_read", lambda count, *_: capacity.Prediction(count, *[0.0] * 4, "", *[0] * 4, ""))
    words = ["simulate", CORRIDOR, "--cores", "2", "8", "32", "--seed", "3", "--quiet"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert error == f"headrace: error: it broke; to repeat it: headrace simulate {CORRIDOR} --seed 3 --cores 8\n"


@pytest.mark.parametrize("command", ["train", "simulate"])
def test_a_fault_of_a_misspelled_role_is_refused_before_the_run(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text(json.dumps([{"at": 1, "kind": "kill", "role": "wroker 1"}]))
    run = ["--topology", "hogwild", "--workers", "2", "--faults", str(faults), "--quiet"]
    words = {
        "train": [*run, "--launcher", "simulated", "--run-dir", str(tmp_path / "run")],
        "simulate": [*run, "--cores", "2", "--output", str(tmp_path / "run")],
    }
    assert main([command, CORRIDOR, *words[command]]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for said in ("role", "wroker 1", "evaluator 0", "worker 0 to worker 1"):
        assert said in error
    assert not (tmp_path / "run").exists()
    if command == "simulate":
        (tmp_path / "run").mkdir()
        assert main([command, CORRIDOR, *words[command]]) == 2
        assert (tmp_path / "run").is_dir()  # the user's own
