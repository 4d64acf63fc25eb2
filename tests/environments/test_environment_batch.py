"""The batch, against its environments one by one: steps, ends of episodes, actions, rewards, seeds."""

import numpy as np

from headrace.environments import episode_seed, make, make_batch

from .conftest import TOY, random_actions, zeros


def test_batch_equals_single_environments():
    count, seed, first = 3, 11, 5
    batch = make_batch("CartPole-v1", count, seed=seed, first_index=first)
    twins = [make("CartPole-v1") for _ in range(count)]
    episode, length, score = [0] * count, [0] * count, [0.0] * count

    def begin(i):
        return twins[i].reset(seed=episode_seed(seed, first + i, episode[i]))[0]

    np.testing.assert_array_equal(batch.start(), [begin(i) for i in range(count)])
    expected = []
    for t in range(200):
        actions = random_actions(1, t, count, 2)
        step = batch.step(actions)
        for i in range(count):
            observation, reward, terminated, truncated, _ = twins[i].step(int(actions[i]))
            length[i], score[i] = length[i] + 1, score[i] + reward
            np.testing.assert_array_equal(step.observation[i], observation)
            assert step.reward[i] == reward
            assert (step.terminated[i], step.truncated[i]) == (terminated, truncated)
            if terminated:
                expected.append((first + i, score[i], length[i], True))
                episode[i], length[i], score[i] = episode[i] + 1, 0, 0.0
                np.testing.assert_array_equal(step.next_start[i], begin(i))
            else:
                np.testing.assert_array_equal(step.next_start[i], observation)
    assert len(expected) > 10
    assert batch.take_episodes() == expected
    assert batch.take_episodes() == []
    assert batch.episodes == len(expected)


def test_types_of_a_step():
    batch = make_batch(f"{TOY}:Corridor", 2, seed=0)
    batch.start()
    step = batch.step(zeros(2))
    assert [array.dtype.name for array in step[:5]] == ["float32", "float32", "bool", "bool", "float32"]
    assert step.next_start is step.observation


def test_no_phantom_transition_and_terminated_is_not_truncated():
    batch = make_batch(f"{TOY}:Frames", 1, seed=0)
    place = [batch.start()[0, :2, 0].tolist()]
    ends = {}
    for t in range(1, 25):
        step = batch.step(zeros(1))
        observation, next_start = step.observation[0, :2, 0].tolist(), step.next_start[0, :2, 0].tolist()
        assert observation == [place[-1][0], place[-1][1] + 1]  # every step belongs to the episode it started in
        if step.terminated[0] or step.truncated[0]:
            ends[t] = (bool(step.terminated[0]), bool(step.truncated[0]))
            assert next_start == [place[-1][0] + 1, 0]
        else:
            assert next_start == observation
        place.append(next_start)
    assert ends == {6: (True, False), 12: (False, True), 18: (True, False), 24: (False, True)}
    assert [(e.return_, e.length, e.terminated) for e in batch.take_episodes()] == [(6.0, 6, True), (6.0, 6, False)] * 2


def test_a_time_limit_truncates():
    batch = make_batch("MountainCar-v0", 1, seed=0)
    batch.start()
    steps = [batch.step(np.array([1])) for _ in range(200)]
    assert [bool(step.truncated[0]) for step in steps] == [False] * 199 + [True]
    assert not any(step.terminated[0] for step in steps)
    assert batch.take_episodes() == [(0, -200.0, 200, False)]


def test_terminated_takes_precedence_over_truncated(own_module):
    name = own_module("""
        from headrace.environments.toy import Corridor
        class Both(Corridor):
            def step(self, action):
                observation, reward, _, _, info = super().step(action)
                return observation, reward, True, True, info
    """)
    batch = make_batch(f"{name}:Both", 1, seed=0)
    batch.start()
    step = batch.step(zeros(1))
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([True], [False])


def test_earlier_arrays_may_be_kept():
    batch = make_batch(f"{TOY}:Frames", 1, seed=0)
    kept = [batch.start()] + [batch.step(zeros(1)).observation for _ in range(6)]
    assert [frame[0, 1, 0] for frame in kept] == [0, 1, 2, 3, 4, 5, 6]


def test_actions_count_from_the_environments_first(own_module):
    name = own_module("""
        from gymnasium import spaces
        from headrace.environments.toy import Corridor
        class Shifted(Corridor):
            def __init__(self):
                super().__init__(cells=9)
                self.action_space = spaces.Discrete(2, start=7)
            def step(self, action):
                assert self.action_space.contains(action)
                return super().step(action - 7)
    """)
    batch = make_batch(f"{name}:Shifted", 2, seed=0)
    assert batch.spec.actions == 2
    batch.start()
    assert batch.step(np.array([0, 1])).observation.argmax(1).tolist() == [0, 1]


def test_rewards_are_clipped_and_returns_are_not(own_module):
    name = own_module("""
        from headrace.environments.toy import Corridor
        class Paying(Corridor):
            def step(self, action):
                observation, _, _, _, info = super().step(action)
                return observation, [-30, 0.25, 0, 7.5][self._steps - 1], self._steps == 4, False, info
    """)
    for clip, expected in ((True, [-1.0, 0.25, 0.0, 1.0]), (False, [-30.0, 0.25, 0.0, 7.5])):
        batch = make_batch(f"{name}:Paying", 1, seed=0, clip_rewards=clip)
        batch.start()
        assert [batch.step(zeros(1)).reward[0] for _ in range(4)] == expected
        assert batch.take_episodes() == [(0, -22.25, 4, True)]


def test_seeds_differ_by_each_of_their_parts_and_have_31_bits():
    seeds = [episode_seed(s, i, e) for s in range(5) for i in range(5) for e in range(5)]
    assert len(set(seeds)) == 125
    assert min(seeds) >= 0
    assert 2**30 < max(seeds) < 2**31


def test_an_environments_episodes_do_not_depend_on_its_batch():
    wide = make_batch("CartPole-v1", 3, seed=4)
    narrow = make_batch("CartPole-v1", 1, seed=4, first_index=2)
    np.testing.assert_array_equal(wide.start()[2], narrow.start()[0])
    for t in range(100):
        actions = random_actions(2, t, 3, 2)
        np.testing.assert_array_equal(wide.step(actions).next_start[2], narrow.step(actions[2:]).next_start[0])


def test_an_episode_is_truncated_at_the_longest_that_is_allowed():
    batch = make_batch(f"{TOY}:Corridor", 1, seed=0, longest_episode=3)
    batch.start()
    steps = [batch.step(np.array([0])) for _ in range(4)]
    assert [bool(step.truncated[0]) for step in steps] == [False, False, True, False]
