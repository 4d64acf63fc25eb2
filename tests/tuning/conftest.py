"""The settings of short runs in the Corridor, and studies of them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace import DQN, Serial
from headrace.settings import RunConfig
from headrace.tuning.space import read_spaces
from headrace.tuning.study import Study
from headrace.tuning.trial import Outcome

CONFIG = RunConfig(
    "headrace.environments.toy:Corridor",
    DQN(hidden=(32,), batch_size=32, replay_capacity=5_000, learning_starts=200, epsilon_decay_steps=500),
    Serial(envs_per_actor=2, chunk_steps=10),
    steps=800,
    evaluation_period_steps=300,
    evaluation_episodes=2,
    final_evaluation_episodes=3,
)

OpenStudy = Callable[..., Study]

ENVIRONMENTS = """
import os
import signal
import time
from pathlib import Path
from headrace.environments.toy import Corridor

def unlucky():
    luck = Path(__file__).with_name("luck")
    if luck.exists():
        return Corridor()
    luck.touch()
    raise RuntimeError("out of luck")

def deadly():
    os._exit(1)

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

def forking():  # whose process ends after the study, or tells that it was waited for
    if os.fork() == 0:
        for _ in range(600):
            if Path(__file__).with_name("ended").exists():
                os._exit(0)
            time.sleep(0.1)
        Path(__file__).with_name("waited").touch()
        os._exit(0)
    return Corridor()

class Slow(Corridor):  # after one evaluation there is time to end the run
    steps = 0
    def step(self, action):
        Slow.steps += 1
        if Slow.steps > 330:
            time.sleep(0.2)
        return super().step(action)
"""


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A module that trials can import."""
    folder = tmp_path_factory.mktemp("environments")
    (folder / "environments_of_trials.py").write_text(ENVIRONMENTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        yield "environments_of_trials"


@pytest.fixture
def add_good_trials() -> Callable[[Study], None]:
    """Adds five complete trials, better than any in the Corridor, so that the next one is pruned."""

    def add(study: Study) -> None:
        for _ in range(5):
            trial = study.start()
            assert trial is not None
            for steps in (200, 400, 600, 800):
                study.report(trial.number, {"environment_steps": steps, "seconds": 1.0, "mean_return": 100.0})
            study.end(trial.number, Outcome(100.0, 800, 1.0))

    return add


@pytest.fixture
def config() -> RunConfig:
    """A run of seconds."""
    return CONFIG


@pytest.fixture
def said() -> list[str]:
    """The lines that the studies of open_study have shown."""
    return []


@pytest.fixture
def open_study(tmp_path: Path, said: list[str]) -> Iterator[OpenStudy]:
    """Opens the study in the folder "study"; an earlier one is closed first."""
    opened: list[Study] = []

    def start(config: RunConfig = CONFIG, **values: str) -> Study:
        while opened:
            opened.pop().close()
        spaces = read_spaces(values or {"learning-rate": "log:1e-4:1e-2"}, config)
        opened.append(Study(tmp_path / "study", config, spaces, said.append, parallel=1))
        return opened[-1]

    yield start
    while opened:
        opened.pop().close()
