"""The toy environments behave as documented."""

import subprocess
import sys

import numpy as np
from gymnasium.utils.env_checker import check_env

from headrace.environments import toy


def test_corridor_passes_gymnasiums_own_check():
    check_env(toy.Corridor(), skip_render_check=True)


def test_corridor_is_worth_one_and_ends_at_the_right():
    environment = toy.Corridor(cells=3, limit=5)
    assert environment.reset(seed=0)[0].tolist() == [1, 0, 0]
    assert environment.step(0)[0].tolist() == [1, 0, 0]
    observation, reward, terminated, truncated, _ = environment.step(1)
    assert (observation.tolist(), reward, terminated, truncated) == ([0, 1, 0], 0.0, False, False)
    observation, reward, terminated, truncated, _ = environment.step(1)
    assert (observation.tolist(), reward, terminated, truncated) == ([0, 0, 1], 1.0, True, False)


def test_corridor_is_truncated_at_its_limit():
    environment = toy.Corridor(cells=3, limit=2)
    environment.reset(seed=0)
    assert environment.step(0)[2:4] == (False, False)
    assert environment.step(0)[2:4] == (False, True)


def test_corridor_that_arrives_at_its_limit_terminates():
    environment = toy.Corridor(cells=2, limit=1)
    environment.reset(seed=0)
    assert environment.step(1)[2:4] == (True, False)


def test_corridor_renders():
    environment = toy.Corridor(render_mode="rgb_array", cells=3)
    environment.reset(seed=0)
    environment.step(1)
    image = environment.render()
    assert (image.shape, image.dtype) == ((16, 48, 3), np.uint8)
    assert image[:, 16:32].min() == 255
    assert image.sum() == 16 * 16 * 3 * 255


def test_frames_show_episode_and_step():
    environment = toy.Frames(length=2)
    assert environment.reset()[0][:2, 0].tolist() == [0, 0]
    assert environment.step(0)[0][:2, 0].tolist() == [0, 1]
    observation, _, terminated, truncated, _ = environment.step(0)
    assert (observation[:2, 83].tolist(), terminated, truncated) == ([0, 2], True, False)
    assert environment.reset()[0][:2, 0].tolist() == [1, 0]
    environment.step(0)
    assert environment.step(0)[2:4] == (False, True)


def test_target_passes_gymnasiums_own_check():
    check_env(toy.Target(), skip_render_check=True)


def play_target(choose, seed):
    """One episode -> its return, and the distance at its beginning."""
    environment = toy.Target()
    point, target = environment.reset(seed=seed)[0]
    distance = abs(float(target) - float(point))
    total, truncated = 0.0, False
    while not truncated:
        (point, target), reward, terminated, truncated, _ = environment.step(choose(point, target))
        assert not terminated
        assert abs(reward - (1 - abs(target - point) / 2)) < 1e-6
        total += reward
    return total, distance


def test_target_has_the_documented_return():
    best, still = [], []
    for seed in range(2000):
        value, distance = play_target(lambda point, target: np.array([target - point], np.float32), seed)
        assert abs(value - (10 - sum(max(0, distance - k / 2) for k in (1, 2, 3)) / 2)) < 1e-5
        best.append(value)
        if seed < 1000:
            still.append(play_target(lambda point, target: np.zeros(1, np.float32), seed)[0])
    assert abs(np.mean(best) - 9.8125) < 0.03  # standard deviation 0.29 / sqrt(2000)
    assert abs(np.mean(still) - 20 / 3) < 0.3  # 2.4 / sqrt(1000)


def test_the_point_stays_on_the_line():
    environment = toy.Target(limit=9)
    environment.reset(seed=0)
    assert [environment.step(np.array([0.4], np.float32))[0][0] for _ in range(9)][-3:] == [1, 1, 1]
    environment.reset(seed=0)
    assert [environment.step(np.array([-0.4], np.float32))[3] for _ in range(9)] == [False] * 8 + [True]


def test_exiting_ends_its_process():
    program = """
from headrace.environments.toy import Exiting
environment = Exiting()
environment.reset()
for step in range(1, 8):
    print(step, flush=True)
    environment.step(0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout.split() == list("1234567")


def test_hanging_never_returns_from_step_seven(monkeypatch):
    waits = []

    class Event:
        def wait(self, timeout=None):
            waits.append(timeout)

    monkeypatch.setattr(toy.threading, "Event", Event)
    environment = toy.Hanging()
    environment.reset()
    for _ in range(6):
        environment.step(0)
    assert waits == []
    environment.step(0)
    assert waits == [None]


def test_the_maze_takes_actions_as_its_space_samples_them():
    maze = toy.Maze()
    _, info = maze.reset(seed=0)
    for _ in range(10):
        _, _, terminated, truncated, info = maze.step(maze.action_space.sample(info["action_mask"]))
        if terminated or truncated:
            _, info = maze.reset()
