"""The goal task's rules."""

import numpy as np

from headrace.environments import describe
from headrace.environments.reach import Reach


def test_the_straight_way_is_worth_what_the_docstring_says() -> None:
    """-0.81 on average, with a standard error of 0.03."""
    environment = Reach()
    returns = []
    for seed in range(1_000):
        observation, _ = environment.reset(seed=seed)
        total, steps, truncated = 0.0, 0, False
        while not truncated and total > -9:
            way = (observation["desired_goal"] - observation["achieved_goal"]) / 0.05
            observation, reward, terminated, truncated, info = environment.step(np.clip(way, -1, 1).astype(np.float32))
            total, steps = total + reward, steps + 1
            if info["is_success"]:
                break
        assert not terminated
        returns.append(total)
    assert abs(np.mean(returns) + 0.81) < 0.09


def test_a_step_worked_by_hand() -> None:
    environment = Reach()
    first, _ = environment.reset(seed=3)
    assert environment.observation_space.contains(first)
    assert first["observation"].tolist() == [0] * 6
    assert np.abs(first["desired_goal"]).max() <= 0.15
    observation, reward, *_ = environment.step(np.array([1, -2, 0.5], np.float32))
    np.testing.assert_allclose(observation["achieved_goal"], [0.05, -0.05, 0.025])
    np.testing.assert_allclose(observation["observation"], [0.05, -0.05, 0.025] * 2)
    assert (reward == 0) == (np.linalg.norm(observation["achieved_goal"] - first["desired_goal"]) <= 0.05)
    ends = [environment.step(np.zeros(3, np.float32))[3] for _ in range(49)]
    assert ends == [False] * 48 + [True]


def test_it_is_registered() -> None:
    spec = describe("headrace/Reach-v0")
    assert [part.name for part in spec.parts] == [
        "observation.achieved_goal",
        "observation.desired_goal",
        "observation.observation",
    ]
