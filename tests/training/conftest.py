"""Short runs."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import DQN, AdPsgd, Apex, Hogwild, Lock, ParameterServer, Serial
from headrace.algorithms.config import Algorithm
from headrace.launch import ThreadLauncher
from headrace.launch.base import Launcher
from headrace.report.display import QuietDisplay
from headrace.report.run_directory import RunDirectory
from headrace.servers import Endpoint
from headrace.settings import RunConfig
from headrace.training import Result, Trainer

CORRIDOR = "headrace.environments.toy:Corridor"
SMALL = DQN(
    hidden=(32,),
    batch_size=32,
    replay_capacity=5_000,
    learning_starts=200,
    samples_per_step=8,
    target_update_period=50,
    epsilon_decay_steps=1_000,
    publish_period=5,
)
WORKERS = {"lock": Lock, "hogwild": Hogwild, "ad-psgd": AdPsgd, "parameter-server": ParameterServer}
TOPOLOGIES = {
    "serial": Serial(envs_per_actor=2, chunk_steps=10),
    **{name: kind(workers=2, envs_per_worker=2, chunk_steps=10) for name, kind in WORKERS.items()},
    "apex": Apex(actors=2, envs_per_actor=2, chunk_steps=10, pull_period=20),
}

Train = Callable[..., Result]


def threads(endpoint: Endpoint, logs: Path) -> Launcher:
    del logs
    return ThreadLauncher(endpoint)


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Trains in this process with the roles as threads; every call has a separate run directory."""

    def start(topology: str, name: str = "run", **settings: Any) -> Result:
        given = settings.pop("algorithm", {})
        algorithm = given if isinstance(given, Algorithm) else dataclasses.replace(SMALL, **given)
        config = RunConfig(
            **{"environment": CORRIDOR, "algorithm": algorithm, "topology": TOPOLOGIES[topology], **settings}
        )
        with RunDirectory.create(tmp_path / name, config.to_json()) as run:
            return Result(run, Trainer(config, run, QuietDisplay(), launcher=threads).run())

    return start
