"""Whole small runs through a real Redis, the roles as threads."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import DQN, Apex
from headrace.errors import HeadraceError
from headrace.launch.base import Launcher
from headrace.launch.threads import ThreadLauncher
from headrace.report.display import QuietDisplay
from headrace.report.progress import Progress
from headrace.report.run_directory import RunDirectory
from headrace.servers import Endpoint
from headrace.settings import RunConfig, ServerConfig
from headrace.settings import server as server_module
from headrace.training import Trainer
from headrace.training.checkpoint import newest_checkpoint

TARGET = 100.0  # a policy that does nothing reaches 9, a random one 22


def threads(endpoint: Endpoint, logs: Path) -> Launcher:
    del logs
    return ThreadLauncher(endpoint)


class Mishaps(QuietDisplay):
    """Performs one action after another, each at the first record that shows more updates than the previous one."""

    def __init__(self, *mishaps: Callable[[], object]) -> None:
        self.left = list(mishaps)
        self._learner_steps = 0

    def update(self, progress: Progress) -> None:
        if self.left and progress.learner_steps > self._learner_steps:
            self._learner_steps = progress.learner_steps
            self.left.pop(0)()


@pytest.fixture
def train(tmp_path: Path, redis_server: Any) -> Callable[..., dict[str, Any]]:
    """Trains in this process; gives the summary."""

    def start(display: QuietDisplay | None = None, **settings: Any) -> dict[str, Any]:
        config = RunConfig(
            environment="CartPole-v1",
            algorithm=DQN(
                hidden=(64, 64),
                batch_size=64,
                replay_capacity=50_000,
                learning_starts=500,
                samples_per_step=16,
                target_update_period=100,
            ),
            topology=Apex(actors=2, envs_per_actor=4, chunk_steps=10, pull_period=40),
            server=ServerConfig(redis_server.address, run="cart"),
            **settings,
        )
        with RunDirectory.create(tmp_path / "run", config.to_json()) as run:
            return Trainer(config, run, display or QuietDisplay(), launcher=threads).run()

    return start


def test_learns_cartpole_through_redis(train: Callable[..., dict[str, Any]], redis_server: Any) -> None:
    summary = train(until_score=TARGET, steps=200_000, evaluation_period_seconds=2)
    assert summary["stopped_by"] == "score"
    assert summary["mean_return"] >= TARGET
    left = {key.decode() for key in redis_server.client().keys("*")}
    assert [key for key in left if key.startswith("headrace:cart:experience:replay:")]
    assert not [key for key in left if "mailbox" in key or "claim" in key]


def test_a_run_continues_after_redis_was_flushed_and_restarted(
    train: Callable[..., dict[str, Any]], redis_server: Any
) -> None:
    def restart() -> None:
        redis_server.stop()
        redis_server.start()

    display = Mishaps(
        lambda: redis_server.client().flushall(),
        restart,
        lambda: signal.raise_signal(signal.SIGINT),  # it learned on after each
    )
    summary = train(display, time_limit_seconds=100)
    assert display.left == []
    assert summary["stopped_by"] == "interrupt"


def test_a_run_whose_redis_is_lost_ends_with_one_line_and_a_checkpoint(
    train: Callable[..., dict[str, Any]], redis_server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(server_module, "RECONNECT_SECONDS", 0.5)
    with pytest.raises(HeadraceError) as caught:
        train(Mishaps(redis_server.stop), time_limit_seconds=200)
    assert f"no Redis at {redis_server.address}/0: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert newest_checkpoint(tmp_path / "run" / "checkpoints").state.learner_steps > 0
