"""What `headrace check` finds: each fault by an environment that has only this one."""

import os
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.environments import make_batch
from headrace.errors import EnvironmentFault
from headrace.training import environment_check
from headrace.training.environment_check import Finding, check_environment

TOY = "headrace.environments.toy"
OWN = '''
import atexit, gymnasium, os, sys
import numpy as np
from gymnasium import spaces

class Walk(gymnasium.Env):
    """A random walk from 0 to 1, whose episodes have 20 steps."""
    scale, limit, low = 1.0, 20, 0.0

    def __init__(self):
        self.observation_space = spaces.Box(self.low, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        return self.observe(), self.scale * int(action), False, self.steps == self.limit, {}

    def observe(self):
        return self.np_random.random(2).astype(np.float32)

class Endless(Walk):
    limit = None

class Outside(Walk):
    low = 0.5

class Large(Walk):
    scale = 1e4

class Zero(Walk):
    scale = 0.0

class Random(Walk):
    def observe(self):
        return np.frombuffer(os.urandom(2), np.uint8).astype(np.float32) / 255

class RandomBuffer(Random):
    """Each observation is written over the last one; the last step is followed by a reset."""
    buffer = np.empty(2, np.float32)
    def observe(self):
        self.buffer[:] = super().observe()
        return self.buffer

class Shape(Walk):
    def observe(self):
        return np.zeros(3, np.float32)

class NoLast(Walk):
    """An episode's last observation is missing."""
    def step(self, action):
        observation, *others = super().step(action)
        return None if self.steps == self.limit else observation, *others

class Masked(Walk):
    """Only action 1 is legal."""
    def reset(self, **options):
        return super().reset(**options)[0], {"action_mask": np.array([0, 1], np.int8)}

    def step(self, action):
        assert action == 1, "illegal"
        return *super().step(action)[:4], {"action_mask": np.array([0, 1], np.int8)}

class MaskedDict(Walk):
    """Only action 1 is legal, as the observation says."""
    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Dict(state=self.observation_space, action_mask=spaces.MultiBinary(2))

    def observe(self):
        return {"state": super().observe(), "action_mask": np.array([0, 1], np.int8)}

    def reset(self, **options):
        return super().reset(**options)[0], {"action_mask": np.array([1, 0], np.int8)}

    def step(self, action):
        assert action == 1, "illegal"
        return super().step(action)

class Branches(Walk):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.MultiDiscrete([3, 4, 5])

    def step(self, action):
        return super().step(action[0])

class MaskedBranches(Walk):
    """Of the three dimensions only 1, 0 and 2 are legal; the mask is a Dict of arrays and tuples."""
    mask = {"arm": np.array([0, 1], np.int8), "legs": (np.array([1, 0, 0], np.int8), np.array([0, 0, 1, 0], np.int8))}

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Dict(arm=spaces.Discrete(2), legs=spaces.MultiDiscrete([3, 4]))

    def reset(self, **options):
        return super().reset(**options)[0], {"action_mask": self.mask}

    def step(self, action):
        assert (action["arm"], *action["legs"]) == (1, 0, 2), "illegal"
        return *super().step(action["arm"])[:4], {"action_mask": self.mask}

class MaskedFlat(MaskedBranches):
    """A Dict observation has the mask, as one array."""
    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Dict(state=self.observation_space, action_mask=spaces.MultiBinary(9))

    def observe(self):
        return {"state": super().observe(), "action_mask": np.array([0, 1, 1, 0, 0, 0, 0, 1, 0], np.int8)}

class Image(Walk):
    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (84, 84), np.uint8)

    def observe(self):
        return self.np_random.integers(0, 256, (84, 84), np.uint8)

class NoInfo(Walk):
    def reset(self, **options):
        return super().reset(**options)[0], None

    def step(self, action):
        return *super().step(action)[:4], None

class Text(Walk):
    def step(self, action):
        observation, reward, *others = super().step(action)
        return observation, str(reward), *others

class Exit(Walk):
    def step(self, action):
        if self.steps == 10:
            raise SystemExit(4)
        return super().step(action)

class Graph(Walk):
    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Graph(spaces.Discrete(2), None)

    def observe(self):
        return self.observation_space.sample()

class Talkative(Walk):
    """It prints when its process ends."""
    def __init__(self):
        super().__init__()
        if sys.argv[0] == "-c":
            atexit.register(print, "goodbye")

class Once(Walk):
    """Another process, in which the variable is set, can't create it."""
    def __init__(self):
        super().__init__()
        if os.environ.get("OWNER") != str(os.getpid()):
            raise RuntimeError("the device is in use")
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module `own_walks` with environments, found here and in other processes."""
    (tmp_path / "own_walks.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the check in another process, which takes seconds."""
    monkeypatch.setattr(environment_check, "_check_process", lambda environment: iter(()))


def check(environment: str, steps: int = 200) -> dict[str, Finding]:
    """The most serious finding on each subject."""
    order = ("ok", "warning", "error")
    found: dict[str, Finding] = {}
    for finding in check_environment(environment, steps):
        before = found.get(finding.subject)
        if before is None or order.index(finding.level) > order.index(before.level):
            found[finding.subject] = finding
    return found


def levels(found: dict[str, Finding]) -> dict[str, str]:
    """Those of subjects that are not ok."""
    return {subject: finding.level for subject, finding in found.items() if finding.level != "ok"}


def test_an_environment_without_faults(own: None) -> None:
    found = check("own_walks:Walk")
    assert levels(found) == {}
    assert found["spaces"].text == "observations float32 [2], 2 discrete actions"
    assert found["algorithms"].text.split() == ["dqn", "dyna-q", "a3c", "r2d2"]
    assert found["episodes"].text == "10 ended, of 20 steps on average"
    assert found["rewards"].text.startswith("0 to 1, mean 0.")
    assert "steps/s" in found["speed"].text
    assert "p99" in found["batch"].text


@pytest.mark.parametrize(
    ("name", "subject", "level", "text"),
    [
        ("Endless", "episodes", "warning", "none ended in 200 steps, and Gymnasium knows no limit"),
        ("Outside", "observations", "warning", "outside [0.5, 1]"),
        ("Outside", "batch", "ok", ""),
        ("Large", "rewards", "warning", "0 to 1e+04"),
        ("Zero", "rewards", "warning", "all 0"),
        ("Random", "determinism", "warning", "step 0: observation differs"),
        ("RandomBuffer", "determinism", "warning", "step 0: observation differs"),
        ("Shape", "observations", "error", "observation has shape [3]; its space declares [2]"),
        ("Shape", "gymnasium", "error", ""),
        (
            "NoLast",
            "observations",
            "error",
            "step 20: observation has shape []; its space declares [2]; 10 of 211 are out",
        ),
        ("NoInfo", "info", "error", "step 0: info is None; it must be a dict"),
        ("NoInfo", "determinism", "ok", ""),
        ("Text", "steps", "error", "reward is '"),
        ("Text", "batch", "error", "reward is '"),
        ("Exit", "steps", "error", "SystemExit: 4"),
        ("Graph", "spaces", "error", "observation has the space Graph"),
    ],
)
def test_a_fault_is_found(own: None, one_process: None, name: str, subject: str, level: str, text: str) -> None:
    found = check(f"own_walks:{name}")[subject]
    assert found.level == level
    assert text in found.text


@pytest.mark.parametrize(
    ("name", "subject", "text"),
    [
        ("NanObservation", "observations", "observation[3] is nan"),
        ("InfReward", "rewards", "step 7: reward is inf"),
        ("Crashing", "steps", "RuntimeError"),
    ],
)
def test_what_training_would_end_with_is_an_error(one_process: None, name: str, subject: str, text: str) -> None:
    found = check(f"{TOY}:{name}")[subject]
    assert found.level == "error"
    assert text in found.text


def test_actions_of_several_dimensions_are_listed(own: None, one_process: None) -> None:
    text = check("own_walks:Branches")["spaces"].text
    assert text == "observations float32 [2], discrete actions of [3, 4, 5] values"


def test_algorithms_that_refuse_the_observations_are_not_listed(own: None, one_process: None) -> None:
    assert check("own_walks:Image")["algorithms"].text.split() == ["dqn", "a3c", "r2d2"]


@pytest.mark.parametrize("name", ["Masked", "MaskedDict", "MaskedBranches", "MaskedFlat"])
def test_only_legal_actions_are_taken(own: None, one_process: None, name: str) -> None:
    found = check(f"own_walks:{name}")
    assert [found[name].level for name in ("observations", "determinism", "spaces", "batch")] == ["ok"] * 4
    assert found["gymnasium"].level != "error"  # check_env() takes illegal actions too


def test_a_suite_that_steps_other_environments_together_is_an_error(
    own: None, one_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        environment_check, "make_batch", lambda _name, *given, **more: make_batch("CartPole-v1", *given, **more)
    )
    finding = check("own_walks:Walk")["batch"]
    assert finding.level == "error"
    assert finding.text.startswith("8 environments stepped together have observations ")


def test_another_process_may_print(own: None) -> None:
    assert check("own_walks:Talkative")["process"].level == "ok"


def test_another_process_that_cannot_create_it_is_an_error(own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNER", str(os.getpid()))
    found = check("own_walks:Once")
    assert levels(found) == {"process": "error"}
    assert "the device is in use" in found["process"].text


def test_an_unknown_environment_is_no_finding() -> None:
    with pytest.raises(EnvironmentFault, match="is unknown"):
        list(check_environment("CartPole-v99", 10))


def test_the_command_prints_aligned_lines(own: None, one_process: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "own_walks:Walk", "--steps", "50"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert {line[:9] for line in lines} == {"ok       "}
    assert all(line[9] != " " and line[21:23] == "  " and line[23] != " " for line in lines)
    assert last == "0 errors, 0 warnings"
    assert main(["check", "own_walks:Graph", "--steps", "50"]) == 1
    assert "\nerror    spaces        observation has the space Graph" in capsys.readouterr().out
    assert main(["check", "CartPole-v99"]) == 2
    assert main(["check", "CartPole-v1", "--steps", "0"]) == 2
