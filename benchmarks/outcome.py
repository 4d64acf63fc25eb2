"""The outcome of a run to a score, and the protocol that judges runs of every system alike."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import headrace
from headrace.training import Result

__all__ = [
    "CONFIRMATION_EPISODES",
    "EVALUATION_PERIOD_SECONDS",
    "FRESH_SEED",
    "PERIODIC_EPISODES",
    "Judge",
    "Outcome",
    "Rule",
    "Score",
    "evaluate_run",
    "run_process",
    "train",
]

_ROOT = Path(__file__).parent.parent
EVALUATION_PERIOD_SECONDS = 10.0
PERIODIC_EPISODES = 10
CONFIRMATION_EPISODES = 100
FRESH_SEED = 1_000_003
"""Plus the run's seed: the seed of episodes that have no part in the decision to stop."""
_HINT_EPISODES = 20
"""If this many last training episodes average the score, an evaluation is made early, ..."""
_HINT_SECONDS = 3.0
"""... but not earlier than this after the previous one."""


class Outcome(NamedTuple):
    """The outcome of a run; seconds are training time without evaluations."""

    seconds_to_score: float | None
    steps_to_score: int | None
    environment_steps: int
    updates: int
    """Gradient steps."""
    seconds: float
    mean_return: float | None
    """Mean of the episodes of the last evaluation: of the 100 that decided, if the run reached the score."""
    fresh_mean: float
    """Mean of 100 episodes that had no part in the decision to stop."""
    fresh_std: float
    settings: str


@dataclass(frozen=True)
class Rule:
    """When a run is evaluated, by 10 greedy episodes, and when it stops; 100 episodes confirm a score that is reached.

    Evaluations come after a period of training seconds, and earlier if training episodes suggest it, or, with a period
    in environment steps, after these only.
    """

    score: float
    most_seconds: float
    most_steps: int = 10**9
    period_seconds: float = EVALUATION_PERIOD_SECONDS
    period_steps: int | None = None


class Score(NamedTuple):
    """Mean and standard deviation of greedy episodes."""

    mean: float
    std: float


class Judge:
    """Applies the rule to a run whose training loop asks it after every step; evaluations are off the clock.

    `play` plays so many greedy episodes of this seed with the current policy.
    """

    def __init__(self, rule: Rule, seed: int, play: Callable[[int, int], Score]) -> None:
        self._rule = rule
        self._seed = seed
        self._play = play
        self._mean: float | None = None
        self._reached: tuple[float, int] | None = None
        self._steps = 0
        self._next = float(rule.period_steps or rule.period_seconds)
        self._last_evaluation = 0.0
        self._begin = time.perf_counter()  # advanced by every evaluation
        self._seconds = 0.0

    def goes_on(self, steps: int, returns: Callable[[], Sequence[float]] = tuple) -> bool:
        """Whether training goes on after so many environment steps; `returns` are those of training episodes."""
        self._steps = steps
        self._seconds = seconds = time.perf_counter() - self._begin
        if self._due(returns):
            self._evaluate()
            self._begin = time.perf_counter() - seconds
        return self._reached is None and seconds < self._rule.most_seconds and steps < self._rule.most_steps

    def outcome(self, updates: int, settings: str) -> Outcome:
        """The outcome of the run, which has ended after so many gradient steps."""
        fresh = self._play(CONFIRMATION_EPISODES, FRESH_SEED + self._seed)
        seconds_to, steps_to = self._reached or (None, None)
        run = (seconds_to, steps_to, self._steps, updates, self._seconds, self._mean)
        return Outcome(*run, fresh.mean, fresh.std, settings)

    def _due(self, returns: Callable[[], Sequence[float]]) -> bool:
        period = self._rule.period_steps
        position = self._seconds if period is None else self._steps
        if position >= self._next or (period is None and self._hinted(returns)):
            self._next = position + (period or self._rule.period_seconds)
            self._last_evaluation = self._seconds
            return True
        return False

    def _hinted(self, returns: Callable[[], Sequence[float]]) -> bool:
        """Whether training episodes already reach the score: Headrace then evaluates sooner, so others do too."""
        if self._seconds < self._last_evaluation + _HINT_SECONDS:
            return False
        last = list(returns())[-_HINT_EPISODES:]
        return len(last) == _HINT_EPISODES and sum(last) / _HINT_EPISODES >= self._rule.score

    def _evaluate(self) -> None:
        seed = self._seed + 1 + 2 * self._steps  # as in Headrace's runs, each evaluation has its own episodes
        self._mean = self._play(PERIODIC_EPISODES, seed).mean
        if self._mean >= self._rule.score:
            self._mean = self._play(CONFIRMATION_EPISODES, seed + 1).mean
            if self._mean >= self._rule.score:
                self._reached = (self._seconds, self._steps)


def train(environment: str, **settings: Any) -> Result:
    """A quiet run; raises KeyboardInterrupt if a signal ended it, so that no figure comes from a part of a run."""
    result = headrace.train(environment, quiet=True, **settings)
    if result.summary["stopped_by"] == "interrupt":
        raise KeyboardInterrupt
    return result


def evaluate_run(run: Path, seed: int) -> float | None:
    """Mean return of a run's policy over greedy episodes, by `headrace evaluate`; None if that fails."""
    words = ["evaluate", run, "--episodes", CONFIRMATION_EPISODES, "--seed", seed, "--json"]
    command = [sys.executable, "-m", "headrace", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT, check=False)
    return float(json.loads(done.stdout)["mean_return"]) if done.returncode == 0 else None


def run_process(
    name: str, module: str, arguments: Sequence[object], folder: Path, most_seconds: float | None = None
) -> dict[str, Any] | None:
    """Makes a run in a fresh process, `python -m module ARGUMENTS FOLDER`; returns what it wrote to outcome.json there.

    A run that takes longer than `most_seconds` is killed, and returns nothing: {}. One that failed returns None, and is
    reported by its name.
    """
    command = [sys.executable, "-m", module, *map(str, arguments), str(folder)]
    try:
        status = subprocess.run(command, cwd=_ROOT, check=False, timeout=most_seconds).returncode
    except subprocess.TimeoutExpired:
        return {}
    if status:
        print(f"{name} ended with status {status}", file=sys.stderr)
        return None
    outcome: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    return outcome
