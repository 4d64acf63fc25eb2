"""MinAtar's games."""

import numpy as np
import pytest

from headrace.environments import describe, make, make_batch
from headrace.errors import EnvironmentFault
from headrace.networks import Architecture


def test_it_names_its_extra_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "minatar", None)
    with pytest.raises(EnvironmentFault, match=r'needs MinAtar .*: pip install "headrace\[minatar\]"$'):
        make("minatar/breakout")


def test_an_unknown_game_is_named_with_those_that_exist() -> None:
    pytest.importorskip("minatar")
    with pytest.raises(EnvironmentFault, match=r"minatar/breakout"):
        make("minatar/breakaut")


def test_videos_are_refused() -> None:
    pytest.importorskip("minatar")
    with pytest.raises(EnvironmentFault, match=r'render_mode is "rgb_array"; it has none$'):
        make("minatar/breakout", render_mode="rgb_array")


@pytest.mark.parametrize(
    ("game", "channels", "actions"),
    [("asterix", 4, 5), ("breakout", 4, 3), ("freeway", 7, 3), ("seaquest", 10, 6), ("space_invaders", 6, 4)],
)
def test_games_have_their_published_spaces(game: str, channels: int, actions: int) -> None:
    pytest.importorskip("minatar")
    spec = describe(f"minatar/{game}")
    assert (spec.input_shape, spec.observation_dtype, spec.actions) == ((channels, 10, 10), "uint8", actions)
    assert Architecture.of(spec, "auto", (128,)).kind == "grid"


def test_a_seed_repeats_an_episode() -> None:
    """Also the sticky actions, and after other episodes."""
    pytest.importorskip("minatar")
    game, returns = make("minatar/breakout"), []
    for seed in (3, 4, 3):
        actions = np.random.default_rng(0)
        observation, _ = game.reset(seed=seed)
        assert game.observation_space.contains(observation)
        frames, ended = [observation], False
        while not ended and len(frames) < 500:
            observation, _, ended, _, _ = game.step(int(actions.integers(3)))
            frames.append(observation)
        returns.append(np.stack(frames))
    assert np.array_equal(returns[0], returns[2])
    assert not np.array_equal(returns[0], returns[1])


def test_a_sticky_first_action_repeats_none_of_the_episode_before() -> None:
    """The paddle starts at 4; the first step moves it right, or nowhere if it repeats action 0; it was moved left."""
    pytest.importorskip("minatar")
    game, positions = make("minatar/breakout"), set()
    for seed in range(40):
        game.reset(seed=seed)
        ended = False
        while not ended:
            _, _, ended, _, _ = game.step(1)
        game.reset(seed=seed)
        observation, *_ = game.step(2)
        positions.add(int(observation[0, 9].argmax()))
    assert positions == {4, 5}


def test_a_batch_plays() -> None:
    pytest.importorskip("minatar")
    batch = make_batch("minatar/space_invaders", 2, seed=0)
    batch.start()
    random = np.random.default_rng(0)
    for _ in range(400):
        batch.step(random.integers(0, 4, 2))
    assert batch.take_episodes()
    batch.close()
