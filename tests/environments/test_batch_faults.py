"""What the batch refuses of its environments, and environments that fail."""

import re
import sys
import types

import numpy as np
import pytest

from headrace.environments import make_batch
from headrace.environments.toy import Corridor
from headrace.errors import ConfigError, EnvironmentFault

from .conftest import TOY, zeros


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("NanObservation", "observation[3] is nan; every value must be finite as float32"),
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
        ("(observation, {})", "reward", "observation is (array([1., 0., 0., 0., 0., 0., 0., 0.], dtype=float32), {"),
        ("observation + 1j", "reward", "observation has dtype complex64; its space declares float32"),
        ("observation / np.where(np.arange(8) == 2, -0.0, 1)", "reward", "observation[2] is nan"),
        ("np.where(np.arange(8) == 5, -np.inf, 0)", "reward", "observation[5] is -inf"),
        ("np.full(8, 1e300)", "reward", "observation[0] is 1e+300; its space declares float32"),
        ("observation", "float('nan')", "reward is nan"),
        ("observation", "-np.inf", "reward is -inf"),
        ("observation", "1e39", "reward is 1e+39; a finite float32 is required"),
        ("observation", "None", "reward is None; a number is required"),
        ("observation", "'1'", "reward is '1'; a number is required"),
        ("observation", "np.array(b'1')", "reward is array(b'1', dtype='|S1'); a number is required"),
        ("observation", "1j", "reward is 1j; a number is required"),
        ("observation", "[1, 2]", "reward is [1, 2]; a number is required"),
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


ENDS = """
    import numpy as np
    from headrace.environments.toy import Corridor
    class Odd(Corridor):
        def step(self, action):
            observation, reward, *_, info = super().step(action)
            return observation, reward, {terminated}, {truncated}, info
"""


@pytest.mark.parametrize(
    ("terminated", "truncated", "problem"),
    [
        ("'no'", "False", "terminated is 'no'; true or false is required"),
        ("None", "False", "terminated is None; true or false is required"),
        ("0.5", "False", "terminated is 0.5; true or false is required"),
        ("False", "[True, False]", "truncated is [True, False]; true or false is required"),
    ],
)
def test_ends_that_are_no_truth_values(own_module, terminated, truncated, problem):
    name = own_module(ENDS.format(terminated=terminated, truncated=truncated))
    batch = make_batch(f"{name}:Odd", 2, seed=0)
    batch.start()
    place = f'environment "{name}:Odd", index 0, episode 0, step 1: '
    with pytest.raises(EnvironmentFault, match=re.escape(place + problem)):
        batch.step(zeros(2))


@pytest.mark.parametrize("terminated", ["True", "1", "np.bool_(True)", "np.array(True)", "np.array([1])"])
def test_an_end_may_be_any_truth_value(own_module, terminated):
    name = own_module(ENDS.format(terminated=terminated, truncated="np.bool_(False)"))
    batch = make_batch(f"{name}:Odd", 2, seed=0)
    batch.start()
    assert batch.step(zeros(2)).terminated.tolist() == [True, True]


@pytest.mark.parametrize(
    "reward", ["True", "1", "np.float32(1)", "np.uint8(1)", "np.bool_(True)", "np.array(1.0)", "np.array([1.0])"]
)
def test_a_reward_may_be_any_real_number(own_module, reward):
    batch = make_batch(f"{own_module(STEP.format(observation='observation', reward=reward))}:Odd", 2, seed=0)
    batch.start()
    assert batch.step(zeros(2)).reward.tolist() == [1, 1]


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


def test_a_float64_beyond_float32_is_refused_where_it_appears(own_module):
    name = own_module("""
        import gymnasium
        import numpy as np
        class Far(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
            action_space = gymnasium.spaces.Discrete(2)
            def reset(self, **options):
                return np.zeros(2), {}
            def step(self, action):
                return np.array([0.0, 1e39]), 0.0, False, False, {}
    """)
    batch = make_batch(f"{name}:Far", 1, seed=0)
    batch.start()
    with pytest.raises(EnvironmentFault, match=r"observation\[1\] is 1e\+39; every value must be finite as float32"):
        batch.step(zeros(1))


@pytest.mark.parametrize(
    ("dtype", "given", "value"),
    [("float16", "float64", 1e6), ("int8", "int64", 300), ("uint16", "uint64", 65_536)],
)
def test_a_number_that_the_dtype_of_its_space_cannot_hold_is_refused(own_module, dtype, given, value):
    name = own_module(f"""
        import gymnasium
        import numpy as np
        class Narrow(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(0, 100, (2,), np.{dtype})
            action_space = gymnasium.spaces.Discrete(2)
            def reset(self, **options):
                return np.zeros(2, np.{given}), {{}}
            def step(self, action):
                return np.array([100, {value}], np.{given}), 0.0, False, False, {{}}
    """)
    batch = make_batch(f"{name}:Narrow", 1, seed=0)
    batch.start()
    with pytest.raises(EnvironmentFault, match=rf"observation\[1\] is {value}; its space declares {dtype}"):
        batch.step(zeros(1))
