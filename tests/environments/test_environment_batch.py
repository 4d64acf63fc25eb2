"""The batch, against its environments one by one; its checks; its state."""

import json
import re
import sys
import types

import numpy as np
import pytest

from headrace.environments import episode_seed, make, make_batch
from headrace.environments.toy import Corridor
from headrace.errors import CheckpointError, ConfigError, EnvironmentFault

TOY = "headrace.environments.toy"


def zeros(count):
    return np.zeros(count, np.int64)


def random_actions(seed, step, count, actions):
    return np.random.default_rng([seed, step]).integers(0, actions, count)


def same(ours, theirs):
    assert ours.skipped is theirs.skipped is None
    for our, their in zip(ours[:5], theirs[:5], strict=True):
        np.testing.assert_array_equal(our, their)
        assert our.dtype == their.dtype


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


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("NanObservation", "observation[3] is nan; every value must be finite"),
        ("InfReward", "reward is inf; a finite float32 is required"),
    ],
)
def test_values_that_are_not_finite(kind, problem):
    batch = make_batch(f"{TOY}:{kind}", 2, seed=0, first_index=4)
    batch.start()
    for _ in range(6):
        batch.step(zeros(2))
    with pytest.raises(EnvironmentFault) as caught:
        batch.step(zeros(2))
    assert str(caught.value) == f'environment "{TOY}:{kind}", index 4, episode 0, step 7: {problem}'


STEP = """
    import numpy as np
    from headrace.environments.toy import Corridor
    class Odd(Corridor):
        def step(self, action):
            observation, reward, terminated, truncated, info = super().step(action)
            return {observation}, {reward}, terminated, truncated, info
"""


@pytest.mark.parametrize(
    ("observation", "reward", "problem"),
    [
        ("observation[:5]", "reward", "observation has shape (5,); its space declares (8,)"),
        ("observation[None]", "reward", "observation has shape (1, 8); its space declares (8,)"),
        ("None", "reward", "observation has dtype object; its space declares float32"),
        ("observation + 1j", "reward", "observation has dtype complex64; its space declares float32"),
        ("observation / np.where(np.arange(8) == 2, -0.0, 1)", "reward", "observation[2] is nan"),
        ("np.where(np.arange(8) == 5, -np.inf, 0)", "reward", "observation[5] is -inf"),
        ("np.full(8, 1e300)", "reward", "observation[0] is inf"),
        ("observation", "float('nan')", "reward is nan"),
        ("observation", "-np.inf", "reward is -inf"),
        ("observation", "1e39", "reward is 1e+39; a finite float32 is required"),
        ("observation", "None", "reward is None; a number is required"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_faulty_steps(own_module, observation, reward, problem):
    name = own_module(STEP.format(observation=observation, reward=reward))
    batch = make_batch(f"{name}:Odd", 2, seed=0)
    batch.start()
    place = f'environment "{name}:Odd", index 0, episode 0, step 1: '
    with pytest.raises(EnvironmentFault, match=re.escape(place + problem)):
        batch.step(zeros(2))


def test_faulty_reset_names_its_episode(own_module):
    name = own_module("""
        import numpy as np
        from headrace.environments.toy import Frames
        from gymnasium import spaces
        class Spoilt(Frames):
            def __init__(self):
                super().__init__()
                self.observation_space = spaces.Box(0, 1, (2, 2), np.float64)
            def _observe(self):
                frame = np.zeros((2, 2))
                if self._episode == 1:
                    frame[1, 0] = np.nan
                return frame
    """)
    batch = make_batch(f"{name}:Spoilt", 1, seed=0)
    batch.start()
    for _ in range(5):
        batch.step(zeros(1))
    with pytest.raises(EnvironmentFault, match=re.escape("episode 1, step 0: observation[1, 0] is nan")):
        batch.step(zeros(1))


@pytest.mark.parametrize(
    "returned", ["observation.astype(np.float64)", "observation.tolist()", "observation.astype(int)"]
)
def test_harmless_dtypes_are_converted(own_module, returned):
    batch = make_batch(f"{own_module(STEP.format(observation=returned, reward='reward'))}:Odd", 1, seed=0)
    batch.start()
    step = batch.step(np.array([1]))
    assert step.observation.dtype == np.float32
    assert step.observation[0].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]


def test_an_exception_is_passed_on_with_a_note_of_its_origin():
    batch = make_batch(f"{TOY}:Crashing", 1, seed=0, first_index=3)
    batch.start()
    for _ in range(6):
        batch.step(zeros(1))
    with pytest.raises(RuntimeError, match="crashed") as caught:
        batch.step(zeros(1))
    assert caught.value.__notes__ == [f'raised by environment "{TOY}:Crashing", index 3, episode 0, step 7']


def test_an_empty_batch_is_refused():
    with pytest.raises(ConfigError, match="count of environments is 0; at least 1 is required"):
        make_batch("CartPole-v1", 0, seed=0)


def test_all_are_closed_if_one_cannot_be_created(own_module):
    name = own_module("""
        from headrace.environments.toy import Corridor
        made = []
        closed = []
        class Scarce(Corridor):
            def __init__(self):
                if len(made) == 4:
                    raise MemoryError("only four")
                made.append(self)
                super().__init__()
            def close(self):
                closed.append(self)
    """)
    batch = make_batch(f"{name}:Scarce", 2, seed=0)
    module = __import__(name)
    batch.close()
    assert module.closed == module.made
    with pytest.raises(EnvironmentFault, match="MemoryError: only four"):
        make_batch(f"{name}:Scarce", 3, seed=0)
    assert module.closed == module.made
    assert len(module.made) == 4


@pytest.mark.parametrize("environment_id", ["CartPole-v1", "LunarLander-v3"])
def test_restored_batch_continues_bit_for_bit(environment_id):
    count = 3
    first = make_batch(environment_id, count, seed=9, first_index=2)
    history = [[frame] for frame in first.start()]
    taken = [[] for _ in range(count)]
    for t in range(500):
        actions = random_actions(3, t, count, first.spec.actions)
        step = first.step(actions)
        for i in range(count):
            if step.terminated[i] or step.truncated[i]:
                history[i], taken[i] = [], []
            else:
                taken[i].append((actions[i], step.reward[i]))
            history[i].append(step.next_start[i])
    first.take_episodes()

    second = make_batch(environment_id, count, seed=9, first_index=2)
    replays = second.restore(json.loads(json.dumps(first.state())))
    assert sum(len(replay.action) for replay in replays) > 0
    for i, replay in enumerate(replays):
        np.testing.assert_array_equal(replay.frames, history[i])
        assert replay.frames.dtype == np.float32
        assert list(zip(replay.action, replay.reward, strict=True)) == taken[i]
    assert second.state() == first.state()
    for t in range(500, 1000):
        actions = random_actions(3, t, count, first.spec.actions)
        same(first.step(actions), second.step(actions))
    episodes = first.take_episodes()
    assert len(episodes) > 3
    assert second.take_episodes() == episodes
    assert second.episodes == first.episodes


def test_state_is_not_changed_by_later_steps():
    batch = make_batch("CartPole-v1", 1, seed=0)
    batch.start()
    batch.step(zeros(1))
    state = batch.state()
    batch.step(zeros(1))
    assert state["actions"] == [[0]]


def test_restoring_a_nondeterministic_environment_starts_its_next_episode(own_module):
    name = own_module("""
        from headrace.environments.toy import Corridor
        limits = [40, 2, 40]
        class Fickle(Corridor):
            def reset(self, **options):
                self._limit = limits.pop(0)
                return super().reset(**options)
    """)
    first = make_batch(f"{name}:Fickle", 1, seed=0)
    first.start()
    for _ in range(3):
        first.step(np.array([1]))
    second = make_batch(f"{name}:Fickle", 1, seed=0)
    (replay,) = second.restore(first.state())
    assert replay.frames.argmax(1).tolist() == [0]
    assert (replay.action.shape, replay.reward.shape) == ((0,), (0,))
    assert second.state()["episode"] == [1]
    assert second.state()["actions"] == [[]]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("environment", "Acrobot-v1", "environment is 'Acrobot-v1' in the checkpoint; 'CartPole-v1' is required"),
        ("seed", 8, "seed is 8 in the checkpoint; 0 is required"),
        ("first_index", 3, "first_index is 3 in the checkpoint; 0 is required"),
        ("episode", [0], "the checkpoint holds 1 environments; 2 are required"),
    ],
)
def test_state_of_another_batch_is_refused(field, value, problem):
    batch = make_batch("CartPole-v1", 2, seed=0)
    batch.start()
    with pytest.raises(CheckpointError, match=re.escape(problem)):
        batch.restore({**batch.state(), field: value})


def test_an_episode_is_truncated_at_the_longest_that_is_allowed():
    batch = make_batch("headrace.environments.toy:Corridor", 1, seed=0, longest_episode=3)
    batch.start()
    steps = [batch.step(np.array([0])) for _ in range(4)]
    assert [bool(step.truncated[0]) for step in steps] == [False, False, True, False]


@pytest.mark.parametrize(("toy", "error"), [("NanObservation", EnvironmentFault), ("Crashing", RuntimeError)])
def test_a_failed_step_is_not_part_of_the_state(toy, error):
    batch = make_batch(f"headrace.environments.toy:{toy}", 1, seed=0)
    batch.start()
    for _ in range(6):
        batch.step(np.array([1]))
    with pytest.raises(error):
        batch.step(np.array([1]))
    state = batch.state()
    assert state["actions"] == [[1] * 6]
    make_batch(f"headrace.environments.toy:{toy}", 1, seed=0).restore(state)


def own(monkeypatch, **methods):
    """Registers own:Environment, a corridor with other methods."""
    module = types.ModuleType("own")
    module.Environment = type("Environment", (Corridor,), methods)
    monkeypatch.setitem(sys.modules, "own", module)
    return make_batch("own:Environment", 2, seed=0)


def exit_politely(self, action):
    sys.exit("bye")


def return_four(self, action):
    return np.zeros(8, np.float32), 0.0, False, {}


def return_huge(self, action):
    return np.zeros(8, np.float32), 10**400, False, False, {}


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        (exit_politely, RuntimeError, "the environment called sys.exit('bye')"),
        (return_four, EnvironmentFault, "step 1: step() returned"),
        (return_huge, EnvironmentFault, "step 1: reward is 1000"),
    ],
)
def test_an_invalid_step_result_is_refused(monkeypatch, step, error, message):
    batch = own(monkeypatch, step=step)
    batch.start()
    with pytest.raises(error, match=re.escape(message)):
        batch.step(np.array([1, 1]))


def test_a_reset_that_returns_the_observation_alone(monkeypatch):
    batch = own(monkeypatch, reset=lambda self, seed=None, options=None: np.zeros(8, np.float32))
    with pytest.raises(EnvironmentFault, match=r"reset\(\) returned .*; \(observation, info\) is required"):
        batch.start()


def test_an_error_in_close_is_ignored(monkeypatch):
    closed = []

    def close(self):
        closed.append(self)
        raise RuntimeError("stuck")

    own(monkeypatch, close=close).close()
    assert len(closed) == 2


@pytest.mark.parametrize("method", ["step", "reset"])
def test_a_step_that_fails_in_one_environment_counts_in_none(own_module, method):
    name = own_module(f"""
        from headrace.environments.toy import Corridor
        made = []
        class Second(Corridor):
            def __init__(self):
                self.fails = False
                made.append(self)
                super().__init__()
            def step(self, action):
                observation, reward, *_ = super().step(action)
                if self.fails and "{method}" == "step":
                    raise RuntimeError("failed")
                return observation, reward, self.fails, False, {{}}
            def reset(self, **options):
                if self.fails:
                    raise RuntimeError("failed")
                return super().reset(**options)
    """)
    batch = make_batch(f"{name}:Second", 3, seed=0)
    batch.start()
    batch.step(np.array([1, 0, 1]))
    before = batch.state()
    __import__(name).made[1].fails = True
    with pytest.raises(RuntimeError, match="failed"):
        batch.step(np.array([0, 1, 0]))
    assert batch.state() == before
    assert batch.take_episodes() == []
