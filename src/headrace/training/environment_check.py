"""Steps an environment with random actions and reports what is wrong, slow or unsupported."""

import copy
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env, data_equivalence

from headrace.algorithms.config import action_kind
from headrace.algorithms.registry import ALGORITHMS
from headrace.clock import monotonic
from headrace.environments import describe, make, make_batch
from headrace.environments.actions import BranchActions, action_parts
from headrace.environments.base import read_array, read_reward
from headrace.environments.calls import calling
from headrace.environments.records import MASK
from headrace.environments.spaces import close, in_words
from headrace.errors import ConfigError, EnvironmentFault, error_line
from headrace.fields import read_json, write_json
from headrace.launch.processes import child_environment
from headrace.networks.records import split
from headrace.roles.clock import PhaseClock
from headrace.roles.evaluator import LONGEST_EPISODE
from headrace.training.hang_watch import watched
from headrace.types import Array, EnvironmentSpec

__all__ = ["Finding", "check_environment"]

_HANG_SECONDS = 60.0
_TOGETHER = 8
_REPEATED_STEPS = 200
_LARGE_REWARD = 100.0
_SLOW_SECONDS = 0.01
_SEED = 0
_ANSWER = "headrace answer: "
_CHILD = f"""
import sys
from headrace.environments import describe
from headrace.fields import write_json
print("\\n{_ANSWER}" + write_json(describe(sys.argv[1])))
"""


class Finding(NamedTuple):
    """The result of one check of `subject`, in one line."""

    level: Literal["ok", "warning", "error"]
    subject: str
    text: str


class _Trace:
    """What random steps of one environment gave."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = space
        self.observations = 0
        self.rewards: list[float] = []
        self.seconds: list[float] = []
        """Of each step() call."""
        self.lengths: list[int] = []
        """Of ended episodes."""
        self.outside: list[str] = []
        """Each observation outside its space."""
        self.unfit = False
        """Whether one of these has another shape or dtype."""
        self.infos: list[str] = []
        """Each info that is no dict."""

    def look(self, place: str, observation: Any, info: Any) -> None:
        """Checks what reset() or step() returned; `place` says which."""
        self.observations += 1
        with warnings.catch_warnings(action="ignore"):  # that a list is no array, which is said below
            inside = self._space.contains(observation)
        if not inside:
            text, unfit = _outside(self._space, observation)
            self.outside.append(f"{place}: {text}")
            self.unfit = self.unfit or unfit
        if not isinstance(info, Mapping):
            self.infos.append(f"{place}: info is {' '.join(repr(info).split()):.60}")


def check_environment(environment_id: str, steps: int) -> Iterator[Finding]:
    """Yields findings as they are made; the environment takes about 3 times this many steps.

    Raises EnvironmentFault if the environment is unknown or can't be created.
    """
    clock = PhaseClock(("environment",))
    begin = monotonic()
    with watched(_HANG_SECONDS):
        close(make(environment_id), environment_id)
    yield Finding("ok", "constructor", f"created in {monotonic() - begin:.2f} s")
    parts: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("gymnasium", lambda: _check_api(environment_id)),
        ("steps", lambda: _check_steps(environment_id, steps, clock)),
        ("determinism", lambda: _check_determinism(environment_id, min(steps, _REPEATED_STEPS), clock)),
        ("spaces", lambda: _check_spaces(environment_id)),
        ("batch", lambda: _check_batch(environment_id, steps, clock)),
        ("process", lambda: _check_process(environment_id)),
    )
    for subject, check in parts:
        try:
            with watched(_HANG_SECONDS, clock):
                yield from check()
        except (Exception, SystemExit) as error:  # environments may raise anything
            plain = str(error) if isinstance(error, EnvironmentFault | ConfigError) else error_line(error)
            yield Finding("error", subject, plain.removeprefix(f'environment "{environment_id}": '))
            if subject == "spaces":  # the other checks require supported ones
                return


def _check_api(environment_id: str) -> Iterator[Finding]:
    """What Gymnasium's own check says of the environment without its wrappers."""
    environment = make(environment_id)
    problem: Exception | None = None
    masked = False
    try:
        with warnings.catch_warnings(record=True) as caught, calling("gymnasium's check_env()"):
            warnings.simplefilter("always")
            try:
                check_env(environment.unwrapped, skip_render_check=True)
            except EnvironmentFault:
                raise
            except Exception as error:  # assertions among others
                problem = error
                with suppress(Exception):
                    masked = _mask(*environment.reset(seed=_SEED))[0] is not None
    finally:
        close(environment, environment_id)
    texts = [" ".join(re.sub(r"\x1b\[\d+m", "", str(each.message)).removeprefix("WARN: ").split()) for each in caught]
    for text in dict.fromkeys(texts):
        yield Finding("warning", "gymnasium", text)
    if masked and problem is not None:
        text = "check_env() takes no account of action masks, and ended with"
        yield Finding("warning", "gymnasium", f"{text} {error_line(problem)}")
    elif problem is not None:
        yield Finding("error", "gymnasium", error_line(problem))
    elif not texts:
        yield Finding("ok", "gymnasium", "check_env() has no complaints")


def _check_spaces(environment_id: str) -> Iterator[Finding]:
    spec = describe(environment_id)
    kind = "continuous" if spec.continuous else "discrete"
    actions = f"discrete actions of {list(spec.branches)} values" if spec.branches else f"{spec.actions} {kind} actions"
    parts = ", ".join(f"{part.name} {part.dtype} {list(part.shape)}" for part in spec.parts)
    shape = parts or f"{spec.observation_dtype} {list(spec.observation_shape)}"
    stack = f", stacks of {spec.stack} frames" if spec.stack > 1 else ""
    yield Finding("ok", "spaces", f"observations {shape}{stack}, {actions}")
    able: list[str] = []
    refusing: dict[str, list[str]] = {}
    for name, algorithm in ALGORITHMS.known().items():
        try:
            algorithm().require_spaces(spec)
            able.append(name)
        except ConfigError as error:
            if action_kind(spec) in algorithm.action_kinds:
                refusing.setdefault(str(error), []).append(name)
    yield Finding("ok" if able else "error", "algorithms", " ".join(able) or "none takes these spaces")
    for reason, names in refusing.items():
        yield Finding("ok", "algorithms", f"not {' '.join(names)}: {reason}")


def _check_steps(environment_id: str, steps: int, clock: PhaseClock) -> Iterator[Finding]:
    environment = make(environment_id)
    try:
        trace = _step(environment, steps, clock)
        limit = environment.spec.max_episode_steps if environment.spec else None
    finally:
        close(environment, environment_id)
    if trace.outside:
        level: Literal["warning", "error"] = "error" if trace.unfit else "warning"
        count = f"{len(trace.outside):,} of {trace.observations:,}"
        yield Finding(level, "observations", f"{trace.outside[0]}; {count} are outside")
    else:
        yield Finding("ok", "observations", f"all {trace.observations:,} are inside their space")
    if trace.infos:
        yield Finding("error", "info", f"{trace.infos[0]}; it must be a dict")
    yield _judge_rewards(np.array(trace.rewards))
    yield _judge_episodes(trace.lengths, steps, limit)
    mean = sum(trace.seconds) / steps
    p99 = float(np.percentile(trace.seconds, 99))
    text = f"one environment: {1 / mean:,.0f} steps/s; a step takes {1e3 * mean:.3f} ms, p99 {1e3 * p99:.3f} ms"
    slow = f": above {1e3 * _SLOW_SECONDS:.0f} ms, the actors limit training" if mean > _SLOW_SECONDS else ""
    yield Finding("warning" if slow else "ok", "speed", text + slow)


def _step(environment: gymnasium.Env[Any, Any], steps: int, clock: PhaseClock) -> _Trace:
    """Takes random actions."""
    trace = _Trace(environment.observation_space)
    environment.action_space.seed(_SEED)
    clock.beat()
    observation, info = environment.reset(seed=_SEED)
    trace.look("step 0", observation, info)
    length = 0
    for step in range(1, steps + 1):
        clock.beat()
        action = _sample(environment, observation, info)
        begin = monotonic()
        observation, reward, terminated, truncated, info = environment.step(action)
        trace.seconds.append(monotonic() - begin)
        trace.look(f"step {step}", observation, info)
        trace.rewards.append(read_reward(reward))
        length += 1
        if terminated or truncated:
            trace.lengths.append(length)
            length = 0
            clock.beat()
            observation, info = environment.reset()
            trace.look(f"reset after step {step}", observation, info)
    return trace


def _sample(environment: gymnasium.Env[Any, Any], observation: Any, info: Any) -> Any:
    """A random action; a legal one if the environment has action masks, whose place is that of `Packer`."""
    space, (mask, own) = environment.action_space, _mask(observation, info)
    if mask is None or isinstance(space, gymnasium.spaces.Box):
        return space.sample()
    if isinstance(space, gymnasium.spaces.Discrete):
        return space.sample(np.asarray(mask, np.int8))
    actions = BranchActions(action_parts(space))
    flat = np.asarray(mask) if own else actions.flatten_mask(mask)
    legal = np.split(flat, np.cumsum(actions.branches)[:-1])
    chosen = [space.np_random.choice(np.flatnonzero(each)) for each in legal]
    return actions.to_environment(np.array([chosen]))[0]


def _mask(observation: Any, info: Any) -> tuple[Any, bool]:
    """The environment's action mask or None, and whether it is part of the observation."""
    own = isinstance(observation, Mapping) and MASK in observation
    given = observation if own else info
    return given.get(MASK) if isinstance(given, Mapping) else None, own


def _outside(space: gymnasium.Space[Any], observation: Any) -> tuple[str, bool]:
    """Why an observation is outside its space, and whether its shape, dtype or kind is the reason."""
    if not isinstance(space, gymnasium.spaces.Box):
        return f"observation is {' '.join(repr(observation).split()):.60}; its space is {space!r:.60}", True
    array = read_array("observation", observation)
    if array.shape != space.shape:
        return f"observation has shape {list(array.shape)}; its space declares {list(space.shape)}", True
    if not np.can_cast(array.dtype, space.dtype):
        castable = np.can_cast(array.dtype, space.dtype, "same_kind")
        return f"observation has dtype {array.dtype}; its space declares {space.dtype}", not castable
    within = (array >= space.low) & (array <= space.high)
    where = tuple(np.argwhere(~within)[0].tolist())
    finite = bool(np.isfinite(array).all()) if array.dtype.kind == "f" else True
    bounds = f"[{space.low[where]:.4g}, {space.high[where]:.4g}]"
    return f"observation{list(where)} is {array[where]}, outside {bounds}", not finite


def _judge_rewards(rewards: Array) -> Finding:
    if not np.isfinite(rewards).all():
        step = int(np.flatnonzero(~np.isfinite(rewards))[0]) + 1
        return Finding("error", "rewards", f"step {step}: reward is {rewards[step - 1]}; every reward must be finite")
    low, high = float(rewards.min()), float(rewards.max())
    text = f"{low:.4g} to {high:.4g}, mean {rewards.mean():.4g}"
    if low == high == 0:
        return Finding("warning", "rewards", "all 0: random actions find nothing to learn from")
    if max(-low, high) > _LARGE_REWARD:
        return Finding("warning", "rewards", f"{text}: large; scale them, or train with --clip-rewards")
    return Finding("ok", "rewards", text)


def _judge_episodes(lengths: list[int], steps: int, limit: int | None) -> Finding:
    if lengths:
        mean = sum(lengths) / len(lengths)
        return Finding("ok", "episodes", f"{len(lengths):,} ended, of {mean:,.0f} steps on average")
    if limit is not None:
        return Finding("ok", "episodes", f"none ended in {steps:,} steps; each is cut at {limit:,}")
    text = f"none ended in {steps:,} steps, and Gymnasium knows no limit (gymnasium.wrappers.TimeLimit sets one)"
    return Finding("warning", "episodes", f"{text}; evaluations cut them at {LONGEST_EPISODE:,}")


def _check_determinism(environment_id: str, steps: int, clock: PhaseClock) -> Iterator[Finding]:
    """Compares two environments with the same seed and actions."""
    first, second = (_record(environment_id, steps, clock) for _ in range(2))
    for step, (one, other) in enumerate(zip(first, second, strict=True)):
        for field in one:
            if not data_equivalence(one[field], other[field]):
                text = f"step {step}: {field} differs under the same seed and actions: resumed runs are not repeatable"
                yield Finding("warning", "determinism", text)
                return
    yield Finding("ok", "determinism", f"the same seed gives the same {steps:,} steps")


def _record(environment_id: str, steps: int, clock: PhaseClock) -> list[dict[str, Any]]:
    """Observations, rewards and ends of a first reset and the random steps after it."""
    environment = make(environment_id)
    try:
        environment.action_space.seed(_SEED)
        clock.beat()
        observation, info = environment.reset(seed=_SEED)
        records = [{"observation": copy.deepcopy(observation)}]  # which may be one buffer, written at each step
        for _ in range(steps):
            clock.beat()
            observation, reward, terminated, truncated, info = environment.step(_sample(environment, observation, info))
            ends = {"terminated": terminated, "truncated": truncated}
            records.append({"observation": copy.deepcopy(observation), "reward": read_reward(reward), **ends})
            if terminated or truncated:
                clock.beat()
                observation, info = environment.reset()
        return records
    finally:
        close(environment, environment_id)


def _check_batch(environment_id: str, steps: int, clock: PhaseClock) -> Iterator[Finding]:
    """Steps several environments in one thread, as actors do, with all the checks that actors make."""
    batch = make_batch(environment_id, _TOGETHER, seed=_SEED, beat=clock.beat)
    random = np.random.default_rng(_SEED)
    spec, rounds, seconds, taken = batch.spec, -(-steps // _TOGETHER), [], 0
    try:
        if spec != describe(environment_id):
            yield Finding(
                "error",
                "batch",
                f"{_TOGETHER} environments stepped together have {in_words(spec)}, one alone has others",
            )
            return
        observation = batch.start()
        for _ in range(rounds):
            actions = _random_actions(random, spec, observation)
            begin = monotonic()
            step = batch.step(actions)
            seconds.append(monotonic() - begin)
            observation, taken = step.next_start, taken + step.taken
    finally:
        batch.close()
    mean, p99 = sum(seconds) / rounds, float(np.percentile(seconds, 99))
    rate = f"{taken / sum(seconds):,.0f} steps/s"
    times = f"a step of all takes {1e3 * mean:.3f} ms, p99 {1e3 * p99:.3f} ms"
    yield Finding("ok", "batch", f"{_TOGETHER} environments in one thread: {rate}; {times}")


def _random_actions(random: np.random.Generator, spec: EnvironmentSpec, observation: Array) -> Array:
    """Uniformly random legal actions of a policy, one for each observation [E, *O]."""
    count = len(observation)
    if spec.continuous:
        return random.uniform(-1, 1, (count, spec.actions)).astype(np.float32)
    branches = spec.branches or (spec.actions,)
    chosen = random.integers(0, branches, (count, len(branches)))
    if spec.masked:
        legal = split(observation, spec.parts)[spec.parts[-1].name]
        parts = np.split(legal, np.cumsum(branches)[:-1], axis=1)
        chosen = np.array([[random.choice(np.flatnonzero(mask)) for mask in part] for part in parts]).T
    return chosen if spec.branches else chosen[:, 0]


def _check_process(environment_id: str) -> Iterator[Finding]:
    """Creates the environment in a fresh interpreter, as a run does for each actor: nothing is forked or pickled."""
    begin = monotonic()
    command = [sys.executable, "-c", _CHILD, environment_id]
    try:
        done = subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, timeout=_HANG_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        yield Finding("error", "process", f"another process did not create it in {_HANG_SECONDS:.0f} s")
        return
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        yield Finding("error", "process", f"another process can't create it: {last}")
        return
    answer = done.stdout.rpartition(f"\n{_ANSWER}")[2].partition("\n")[0]  # other lines are of the environment
    found = read_json(EnvironmentSpec, answer, "the other process's answer")
    if write_json(found) != write_json(describe(environment_id)):
        yield Finding("error", "process", "its spaces differ in another process")
    else:
        yield Finding("ok", "process", f"a new process creates it in {monotonic() - begin:.1f} s, Python included")
