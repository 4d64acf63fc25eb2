"""Topologies of other packages."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import headrace
from headrace import DQN, Hogwild, Serial
from headrace.cli.main import main
from headrace.errors import ConfigError
from headrace.settings import RunConfig, preset
from headrace.topologies.config import Topology
from headrace.topologies.registry import TOPOLOGIES

ADDED = """
from dataclasses import dataclass
from typing import ClassVar
from headrace import Serial

@dataclass(frozen=True)
class Twice(Serial):
    name: ClassVar[str] = "twice"
    summary: ClassVar[str] = "one process with twice the environments"

    @classmethod
    def tuned(cls, sizing):
        return cls(envs_per_actor=2 * sizing.environments)
"""


@pytest.fixture
def added(add_package: Callable[..., None]) -> Iterator[type[Topology]]:
    """A topology that an installed package adds."""
    add_package("headrace.topologies", "twice", "added_topology", ADDED, "Twice")
    TOPOLOGIES.forget()
    yield TOPOLOGIES.find("twice")
    TOPOLOGIES.forget()


def test_a_topology_of_another_package_has_its_preset_and_is_read_back(added: Any) -> None:
    assert TOPOLOGIES.names == (*TOPOLOGIES.built_in, "twice")
    assert preset("CartPole-v1").topology("twice") == added(envs_per_actor=8)
    config = RunConfig("CartPole-v1", DQN(), added(envs_per_actor=3))
    assert RunConfig.from_json(config.to_json()) == config


def test_it_trains_and_its_run_is_read(added: Any, tmp_path: Path) -> None:
    algorithm = DQN(hidden=(8,), learning_starts=50, batch_size=16)
    settings: dict[str, Any] = {"steps": 300, "run_dir": tmp_path / "run", "final_evaluation_episodes": 0}
    result = headrace.train("CartPole-v1", algorithm=algorithm, topology=added(), **settings)
    assert result.summary["topology"] == "twice"
    assert result.evaluate(episodes=1).lengths


@pytest.mark.parametrize("name", TOPOLOGIES.built_in)
def test_each_topology_has_its_name_and_is_read_back(name: str) -> None:
    kind = TOPOLOGIES.find(name)
    assert (kind.name, bool(kind.summary)) == (name, True)
    assert Topology.from_record(kind().to_record()) == kind()


def test_workers_step_as_many_environments_as_the_serial_preset() -> None:
    assert preset("LunarLander-v3").topology("hogwild") == Hogwild(envs_per_worker=16, chunk_steps=50)


@dataclass(frozen=True)
class Mine(Serial):
    name: ClassVar[str] = "mine"
    __module__ = "__main__"


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (Mine(), "topology is an object of __main__:Mine, which other processes can't import"),
        ("serial", r"topology is 'serial'; it must be an object such as headrace.Apex\(\)"),
    ],
)
def test_what_another_process_could_not_make_is_refused_before_the_run(
    topology: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        headrace.train("CartPole-v1", topology=topology, steps=100, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_whose_package_can_not_be_loaded_is_said_by_the_command(
    add_package: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    add_package("headrace.topologies", "lost", "lost_topology", "import nothing_like_it", "Lost")
    TOPOLOGIES.forget()
    try:
        assert main(["train", "CartPole-v1", "--topology", "lost"]) == 2
    finally:
        TOPOLOGIES.forget()
    assert "can't be loaded" in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
