"""Environments that need memory."""

import gymnasium
import numpy as np
import pytest

from headrace.environments import make
from headrace.environments.memory import TMaze


def run(maze: TMaze, seed: int, turn: int) -> tuple[list[int], float]:
    """Observations, as the index of their 1, and return of an episode that goes forward and turns at the junction."""
    observation, _ = maze.reset(seed=seed)
    places, total, ended = [int(observation.argmax())], 0.0, False
    while not ended:
        action = turn if places[-1] == 3 else 0
        observation, reward, ended, truncated, _ = maze.step(np.int64(action))
        assert (observation.sum(), truncated) == (1, False)
        places.append(int(observation.argmax()))
        total += reward
    return places[:-1], total


def test_the_cue_is_shown_once_and_says_where_to_turn() -> None:
    maze = TMaze(length=4)
    cues = set()
    for seed in range(20):
        places, total = run(maze, seed, turn=1)
        cue = places[0]
        assert places[1:] == [2, 2, 2, 3]
        assert total == (cue == 0)
        assert run(maze, seed, turn=2)[1] == (cue == 1)
        cues.add(cue)
    assert cues == {0, 1}


def test_sides_of_the_corridor_are_walls_and_an_episode_without_a_turn_is_truncated() -> None:
    maze = TMaze(length=3)
    observation, _ = maze.reset(seed=0)
    for step in range(24):
        after, reward, terminated, truncated, _ = maze.step(np.int64(1))
        assert (after == observation).all()
        assert (reward, terminated, truncated) == (0, False, step == 23)


@pytest.mark.parametrize(("name", "length"), [("TMaze", 30), ("TMazeShort", 5)])
def test_registered_lengths(name: str, length: int) -> None:
    maze = make(f"headrace/{name}-v0").unwrapped
    assert isinstance(maze, TMaze)
    assert len(run(maze, 0, turn=1)[0]) == length + 1


def test_cart_pole_without_velocities() -> None:
    ours, whole = make("headrace/CartPolePositions-v0"), gymnasium.make("CartPole-v1")
    assert ours.observation_space.shape == (2,)
    np.testing.assert_array_equal(ours.reset(seed=3)[0], whole.reset(seed=3)[0][[0, 2]])
    for _ in range(5):
        found, expected = ours.step(1), whole.step(1)
        np.testing.assert_array_equal(found[0], expected[0][[0, 2]])
        assert found[1:4] == expected[1:4]
