"""Training from Python: which settings a run gets."""

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from headrace import A3C, DQN, Serial, api
from headrace.environments import describe
from headrace.errors import ConfigError, EnvironmentFault
from headrace.networks.architecture import Head
from headrace.networks.own_modules import describe_own
from headrace.settings import RunConfig, preset


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """The settings of the runs that were asked for, none of which is made."""
    asked: list[RunConfig] = []
    monkeypatch.setattr(api, "train_run", lambda config, run, display, callbacks: asked.append(config))
    return asked


@pytest.mark.parametrize(
    ("settings", "topology"),
    [
        ({}, "apex"),
        ({"algorithm": DQN()}, "apex"),
        ({"algorithm": A3C()}, "hogwild"),
        ({"topology": Serial()}, "serial"),
    ],
)
def test_a_run_has_a_topology_that_suits_its_algorithm(
    runs: list[RunConfig], tmp_path: Path, settings: dict[str, Any], topology: str
) -> None:
    api.train("CartPole-v1", run_dir=tmp_path / "run", quiet=True, **settings)
    known = preset("CartPole-v1", settings["algorithm"].name if "algorithm" in settings else None)
    assert runs[0].topology.name == topology
    assert runs[0].algorithm == settings.get("algorithm", known.algorithm)
    assert runs[0].steps == known.steps


def test_frugal_chooses_the_preset_and_no_algorithm_can_be_given_too(runs: list[RunConfig], tmp_path: Path) -> None:
    known = preset("LunarLander-v3", frugal=True)
    api.train("LunarLander-v3", run_dir=tmp_path / "run", quiet=True, frugal=True)
    assert (runs[0].algorithm, runs[0].steps) == (known.algorithm, known.steps)
    assert runs[0].topology == known.topology("serial")
    with pytest.raises(ConfigError, match="frugal is true, which chooses the algorithm, and algorithm is given"):
        api.train("LunarLander-v3", run_dir=tmp_path / "other", quiet=True, frugal=True, algorithm=DQN())
    with pytest.raises(ConfigError, match="frugal is 'no'"):
        api.train("LunarLander-v3", run_dir=tmp_path / "other", quiet=True, frugal="no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topology", "period", "other"),
    [
        (None, {"evaluation_period_steps": 1_000}, {"evaluation_period_seconds": 0}),
        (Serial(), {"evaluation_period_seconds": 5}, {"evaluation_period_steps": 1_000}),
    ],
)
def test_a_period_without_effect_is_refused_unless_the_other_one_is_given(
    runs: list[RunConfig], tmp_path: Path, topology: Any, period: dict[str, Any], other: dict[str, Any]
) -> None:
    settings = {"run_dir": tmp_path / "run", "quiet": True, "topology": topology}
    with pytest.raises(ConfigError, match=f"{next(iter(period))} is given, and .*no effect"):
        api.train("CartPole-v1", **settings, **period)
    assert not runs
    api.train("CartPole-v1", **settings, **period, **other)
    assert runs


@pytest.mark.parametrize("other", ["dqn", DQN, Serial()])
def test_what_is_no_algorithm_is_refused(tmp_path: Path, other: Any) -> None:
    with pytest.raises(ConfigError, match=r"algorithm is .*; it must be an object such as headrace.DQN\(\)"):
        api.train("CartPole-v1", run_dir=tmp_path / "run", algorithm=other)


def test_a_mistake_leaves_no_directory_in_the_way(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(EnvironmentFault, match="CartPol"):
            api.train("CartPol-v1", run_dir=tmp_path / "run", topology=Serial(), quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: api.train(gymnasium.make("CartPole-v1"), steps=9), r"environment is <.*; it must be a name such as"),  # type: ignore[arg-type]
        (lambda: api.train("CartPole-v1", stepz=9), "stepz is not a setting of a run; did you mean steps?"),  # type: ignore[call-arg]
        (
            lambda: api.train("Pendulum-v1", learning_rate=1e-3),  # type: ignore[call-arg]
            r"learning_rate is not a setting of a run: it is one of its algorithm, algorithm=D4PG\(learning_rate",
        ),
        (
            lambda: api.train("CartPole-v1", topology=Serial(), envs_per_actor=8),  # type: ignore[call-arg]
            r"envs_per_actor is not a setting of a run: it is one of its topology, topology=Serial\(",
        ),
        (lambda: api.train("CartPole-v1", run_dir=5), "run_dir is 5; it must be a path"),  # type: ignore[arg-type]
        (lambda: api.train("CartPole-v1", run_dir=""), "run_dir is ''; it must be a path"),
        (lambda: api.train("CartPole-v1", token_file=5), "token_file is 5; it must be a path"),  # type: ignore[arg-type]
        (lambda: api.resume(5), "run_dir is 5; it must be a path"),  # type: ignore[arg-type]
        (lambda: api.load(None), "path is None; it must be a path"),  # type: ignore[arg-type]
        (lambda: api.tune("CartPole-v1", tune={"batch-size": [32]}), r"tune batch-size is \[32\]; it must be log:LOW"),  # type: ignore[dict-item]
        (lambda: api.tune("CartPole-v1", tune=["batch-size"]), r"tune is \['batch-size'\]; it must be a mapping"),  # type: ignore[arg-type]
        (lambda: api.tune("CartPole-v1", tune={"seed": "1"}, trials="3"), "trials is '3'; it must be a whole number"),  # type: ignore[arg-type]
    ],
)
def test_values_of_another_type_are_refused_in_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_a_module_that_trains_when_it_is_imported_is_refused(
    runs: list[RunConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process of its run would begin another one."""
    (tmp_path / "unguarded.py").write_text("import headrace\nheadrace.train('unguarded:Env')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for build in (describe, lambda name: describe_own(name, describe("CartPole-v1"), Head("q", 2))):
        with pytest.raises(
            ConfigError, match=r'module "unguarded" calls headrace.train\(\) when it is imported, as each'
        ):
            build("unguarded:Env")
    api.train("CartPole-v1", run_dir=tmp_path / "run", quiet=True)
    assert len(runs) == 1


@pytest.mark.parametrize("entry_point", ["__main__:Mine", type("Mine", (), {"__module__": "__main__"})])
def test_an_environment_of_the_script_is_refused_before_the_run(tmp_path: Path, entry_point: Any) -> None:
    """The evaluator could not create it; serial runs would only notice at the end."""
    gymnasium.register("Mine-v0", entry_point)
    try:
        for name in ("Mine-v0", "Mine", "__main__:Mine"):
            with pytest.raises(ConfigError, match=f"environment is {name}, which is in the script itself"):
                api.train(name, run_dir=tmp_path / "run")
    finally:
        del gymnasium.registry["Mine-v0"]
    assert not (tmp_path / "run").exists()


def test_an_environment_that_only_this_process_has_registered_is_refused_before_the_run(
    runs: list[RunConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "arms.py").write_text("import gymnasium\ngymnasium.register('Arm-v0', 'arms.reach:Arm')\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("arms")
    try:
        for name in ("Arm-v0", "Arm"):
            with pytest.raises(ConfigError, match=f'registered in this process alone: "arms.reach:{name}" is required'):
                api.train(name, run_dir=tmp_path / "run")
        api.train("arms:Arm-v0", run_dir=tmp_path / "run", quiet=True)
    finally:
        del gymnasium.registry["Arm-v0"]
    assert [run.environment for run in runs] == ["arms:Arm-v0"]


def test_a_vector_entry_point_is_looked_up_as_an_environment_is(tmp_path: Path) -> None:
    for name, entry_point, said in (
        ("Script-v0", "__main__:Mine", "is in the script itself"),
        ("Other-v0", "arms.reach:Arms", '"arms.reach:vector/Other-v0" is required'),
    ):
        gymnasium.register(name, vector_entry_point=entry_point)
        try:
            with pytest.raises(ConfigError, match=said):
                api.train(f"vector/{name}", run_dir=tmp_path / "run")
        finally:
            del gymnasium.registry[name]


def test_a_network_of_the_script_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="network is __main__:build, which is in the script itself"):
        api.train("CartPole-v1", algorithm=DQN(network="__main__:build"), run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_members_are_known_before_they_are_imported() -> None:
    program = "import headrace; print(sorted({*headrace.__all__} - {*dir(headrace)}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
