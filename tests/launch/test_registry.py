"""Launchers of other packages."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headrace
from headrace import DQN, Hogwild
from headrace.launch.config import LauncherConfig
from headrace.launch.registry import LAUNCHERS

ADDED = """
import contextlib
from dataclasses import dataclass
from typing import ClassVar
from headrace.launch.base import Site
from headrace.launch.config import LauncherConfig
from headrace.launch.processes import ProcessLauncher

@dataclass(frozen=True)
class Noting(LauncherConfig):
    name: ClassVar[str] = "noting"
    summary: ClassVar[str] = "processes, noted in a file"
    path: str = "started"

    @contextlib.contextmanager
    def open(self, seed=0):
        class Launcher(ProcessLauncher):
            def start(launcher, role):
                with open(self.path, "a") as file:
                    print(role.name, file=file)
                super().start(role)

        yield Site(Launcher)
"""


@pytest.fixture
def added(add_package: Callable[..., None]) -> Iterator[type[LauncherConfig]]:
    """A launcher that an installed package adds."""
    add_package("headrace.launchers", "noting", "added_launcher", ADDED, "Noting")
    LAUNCHERS.forget()
    yield LAUNCHERS.find("noting")
    LAUNCHERS.forget()


def test_a_launcher_of_another_package_starts_the_roles_of_a_run(
    added: Callable[..., LauncherConfig], tmp_path: Path
) -> None:
    launcher = added(path=str(tmp_path / "started"))
    algorithm = DQN(hidden=(8,), learning_starts=50, batch_size=16)
    result = headrace.train(
        "CartPole-v1",
        algorithm=algorithm,
        topology=Hogwild(workers=2, envs_per_worker=1),
        launcher=launcher,
        steps=300,
        run_dir=tmp_path / "run",
        final_evaluation_episodes=0,
    )
    assert {"worker 0", "worker 1"} <= set((tmp_path / "started").read_text().splitlines())
    assert result.summary["environment_steps"] >= 300
    assert LauncherConfig.from_record(launcher.to_record()) == launcher
