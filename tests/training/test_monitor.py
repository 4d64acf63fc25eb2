"""The monitor: near-greedy returns, times, rates and the bottleneck."""

from unittest.mock import Mock

import pytest

from headrace.replay import Experience
from headrace.report.progress import Progress
from headrace.roles.clock import LEARNER_PHASES
from headrace.roles.messages import Acted
from headrace.settings import RunConfig
from headrace.training.evaluation import Moment
from headrace.training.monitor import Monitor


@pytest.fixture
def monitor() -> Monitor:
    return Monitor(RunConfig("CartPole-v1"), 1, Moment(0, 0, 0.0), 0)


def acted(steps: int = 0, returns: list[tuple[float, int, float]] | None = None, **seconds: float) -> Acted:
    return {"steps": steps, "episodes": 0, "seconds": seconds, "returns": returns or []}


def snapshot(monitor: Monitor, seconds: float, learner_steps: int, **spent: float) -> Progress:
    learner = Mock(steps=learner_steps)
    learner.clock.seconds = dict.fromkeys(LEARNER_PHASES, 0.0) | spent
    return monitor.snapshot(seconds, learner, Experience().stats(), Mock(last=None, best=None, pending=False))


def test_the_near_greedy_return_is_that_of_20_episodes_that_hardly_explore(monitor: Monitor) -> None:
    monitor.add(0, acted(returns=[(5.0, 1, 0.01)] * 19 + [(1.0, 1, 0.4)] * 20))
    assert monitor.near_greedy_return is None
    monitor.add(0, acted(returns=[(5.0, 1, 0.01)]))
    assert monitor.near_greedy_return == 5.0


def test_an_actor_s_wait_for_an_evaluation_is_not_training_time(monitor: Monitor) -> None:
    monitor.add(0, acted())
    monitor.skip(3.0)
    monitor.add(0, acted(environment=4.0, push=5.0))
    assert (monitor.actor_seconds["environment"], monitor.actor_seconds["push"]) == (4.0, 2.0)
    monitor.add(0, acted(push=1.0))
    assert monitor.actor_seconds["push"] == 3.0


def test_actors_that_end_because_they_are_asked_to_were_alive(monitor: Monitor) -> None:
    monitor.add(0, acted())
    monitor.keep_count_of_actors()
    monitor.forget(0)
    assert snapshot(monitor, 10.0, learner_steps=0).actors_alive == 1


def test_rates_are_those_of_the_last_interval(monitor: Monitor) -> None:
    monitor.add(0, acted(1_000))
    first = snapshot(monitor, 10.0, learner_steps=20)
    monitor.add(0, acted(3_000))
    second = snapshot(monitor, 20.0, learner_steps=70)
    assert (first.steps_per_second, first.learner_steps_per_second) == (100.0, 2.0)
    assert (second.steps_per_second, second.learner_steps_per_second) == (300.0, 5.0)


def test_rates_and_shares_stay_while_the_clock_stands_still(monitor: Monitor) -> None:
    monitor.add(0, acted(1_000, push=6.0, environment=4.0))
    before = snapshot(monitor, 10.0, 20, train=10.0)
    after = snapshot(monitor, 10.0, 20, train=10.0)
    assert (after.steps_per_second, after.actor_times) == (before.steps_per_second, before.actor_times)
    assert (after.bottleneck, after.actor_times["push"], after.learner_times["train"]) == ("learner", 0.6, 1.0)
    monitor.add(0, acted(500, environment=1.0))
    assert snapshot(monitor, 11.0, 20, train=10.5, wait=0.5).actor_times["environment"] == 1.0


@pytest.mark.parametrize(
    ("wait", "push", "blocked", "bottleneck"),
    [
        (3.0, 1.0, 1.0, "actors"),
        (3.0, 2.0, 2.0, "learner"),
        (2.0, 3.0, 0.0, "learner"),
        (2.0, 1.0, 1.0, "balanced"),
    ],
)
def test_the_bottleneck_is_the_side_that_the_other_one_waits_for(
    monitor: Monitor, wait: float, push: float, blocked: float, bottleneck: str
) -> None:
    """Seconds of 10; a share of waiting above a quarter counts."""
    monitor.add(0, acted(push=push, blocked=blocked, environment=10.0 - push - blocked))
    assert snapshot(monitor, 10.0, 1, wait=wait, train=10.0 - wait).bottleneck == bottleneck
