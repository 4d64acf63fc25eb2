"""The preprocessing of Atari games, against the game itself."""

import cv2
import numpy as np

from headrace.environments import FrameStack, make, make_batch


def test_one_frame_is_84_by_84_gray():
    environment = make("ALE/Breakout-v5")
    observation, _ = environment.reset(seed=1)
    assert (observation.shape, observation.dtype) == ((84, 84), np.uint8)
    assert environment.action_space.n == 4  # the game's own, not all 18
    environment.close()


def test_the_game_options_are_those_of_dqn():
    environment = make("ALE/Pong-v5")
    ale = environment.unwrapped.ale
    assert ale.getFloat("repeat_action_probability") == 0.0
    assert ale.getInt("max_num_frames_per_episode") == 108_000
    environment.close()


def test_an_action_lasts_four_frames_and_the_last_two_are_pooled():
    environment = make("ALE/Breakout-v5")
    environment.reset(seed=3)
    game = environment.env  # single frames
    ale = environment.unwrapped.ale
    environment.step(1)
    state, before = ale.cloneState(), ale.getEpisodeFrameNumber()
    observation = environment.step(2)[0]
    assert ale.getEpisodeFrameNumber() == before + 4
    ale.restoreState(state)
    screens = []
    for _ in range(4):
        game.step(2)
        screens.append(ale.getScreenGrayscale())
    pooled = np.maximum(screens[2], screens[3])
    np.testing.assert_array_equal(observation, cv2.resize(pooled, (84, 84), interpolation=cv2.INTER_AREA))
    environment.close()


def test_episodes_start_with_one_to_thirty_noops():
    environment = make("ALE/Breakout-v5")
    starts = set()
    for seed in range(12):
        environment.reset(seed=seed)
        starts.add(environment.unwrapped.ale.getEpisodeFrameNumber())
    assert min(starts) >= 1
    assert max(starts) <= 30
    assert len(starts) >= 5
    environment.close()


def test_a_lost_life_does_not_end_the_episode():
    environment = make("ALE/Breakout-v5")
    environment.reset(seed=0)
    lives = environment.unwrapped.ale.lives()
    for _ in range(400):
        _, _, terminated, _, _ = environment.step(1)
        assert not terminated
        if environment.unwrapped.ale.lives() < lives:
            break
    assert environment.unwrapped.ale.lives() == lives - 1
    environment.close()


def test_it_renders():
    environment = make("ALE/Breakout-v5", render_mode="rgb_array")
    environment.reset(seed=0)
    assert environment.render().shape == (210, 160, 3)
    environment.close()


def test_batch_delivers_single_frames_and_clips_rewards_but_not_returns():
    batch = make_batch("ALE/MsPacman-v5", 1, seed=0, clip_rewards=True)
    assert batch.spec.input_shape == (4, 84, 84)
    stack = FrameStack(1, batch.spec)
    assert stack.start(batch.start()).shape == (1, 4, 84, 84)
    rewards = []
    while not (finished := batch.take_episodes()):
        rewards.append(float(batch.step(np.array([len(rewards) // 10 % batch.spec.actions])).reward[0]))
    assert set(rewards) == {0.0, 1.0}
    assert finished[0].return_ >= 10 * sum(rewards)  # the least that the game gives for anything is 10
    assert finished[0].length == len(rewards)
    batch.close()


def test_restore_plays_the_open_episode_again():
    def actions(step):
        return np.random.default_rng([5, step]).integers(0, 4, 2)

    first = make_batch("ALE/Breakout-v5", 2, seed=7)
    first.start()
    for step in range(60):
        last = first.step(actions(step)).next_start
    second = make_batch("ALE/Breakout-v5", 2, seed=7)
    replays = second.restore(first.state())
    np.testing.assert_array_equal([replay.frames[-1] for replay in replays], last)
    for step in range(60, 90):
        for ours, theirs in zip(first.step(actions(step)), second.step(actions(step)), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    first.close()
    second.close()
