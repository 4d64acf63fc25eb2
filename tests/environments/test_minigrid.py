"""MiniGrid's rooms as categories."""

import numpy as np
import pytest
from benchmarks.doorkey import shortest_route

from headrace.environments import describe, make, make_batch
from headrace.errors import EnvironmentFault


def test_it_names_its_extra_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "minigrid", None)
    with pytest.raises(EnvironmentFault, match=r'needs MiniGrid .*: pip install "headrace\[minigrid\]"$'):
        make("minigrid/DoorKey-5x5-v0")


def test_observations_are_direction_and_image() -> None:
    """One byte for each of the image's numbers; 11 kinds of objects, 6 colors and 3 states."""
    pytest.importorskip("minigrid")
    spec = describe("minigrid/DoorKey-5x5")
    direction, image = spec.parts
    assert (direction.name, direction.categories) == ("observation.direction", (4,))
    assert (image.name, image.dtype, image.shape) == ("observation.image", "uint8", (7, 7, 3))
    assert image.categories == (11, 6, 3) * 49
    batch = make_batch("minigrid/DoorKey-5x5-v0", 2, seed=0)
    batch.start()
    random = np.random.default_rng(0)
    for _ in range(300):
        batch.step(random.integers(0, spec.actions, 2))
    assert {episode.length for episode in batch.take_episodes()} <= set(range(1, 251))
    batch.close()


def test_the_shortest_route_reaches_the_goal_with_its_last_step() -> None:
    """The best return next to which `benchmarks.spaces` judges: 0.9 of 1 is lost over the 250 steps of an episode."""
    pytest.importorskip("minigrid")
    room = make("minigrid/DoorKey-5x5-v0")
    for seed in range(20):
        room.reset(seed=seed)
        route = shortest_route(room.unwrapped)
        steps = [room.step(action) for action in route]
        assert [ended for _, _, ended, _, _ in steps] == [False] * (len(route) - 1) + [True]
        assert steps[-1][1] == pytest.approx(1 - 0.9 * len(route) / 250)
