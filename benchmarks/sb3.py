"""Stable-Baselines3's DQN and SAC with their zoo's settings, trained to a score."""

import statistics
import time
from typing import Any

import torch
from numpy.typing import NDArray
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.outcome import Judge, Outcome, Rule, Score
from benchmarks.zoo.published import SB3
from headrace.roles.evaluator import play
from headrace.types import Array

__all__ = ["run"]

_STEPS_WITHOUT_END = 100_000_000  # the rule ends the run
_TRIAL_STEPS = 600


def run(environment: str, algorithm: str, seed: int, rule: Rule) -> Outcome:
    """Trains until the rule ends the run, beyond the zoo's budget if necessary."""
    threads = _faster_threads(environment, algorithm)
    torch.set_num_threads(threads)
    model = _make(environment, algorithm, seed)
    judge = Judge(rule, seed, lambda episodes, seed: _play(model, environment, episodes, seed))
    model.learn(_STEPS_WITHOUT_END, callback=_Clock(judge))
    return judge.outcome(model._n_updates, f"zoo, torch threads: {threads} (the faster)")


def _make(environment: str, algorithm: str, seed: int) -> Any:
    settings = dict(SB3[algorithm][environment])
    if algorithm == "sac":
        steps = settings.pop("published_steps")
        if settings.pop("linear_learning_rate", False):
            rate = settings["learning_rate"]
            settings["learning_rate"] = lambda left: rate * max(0.0, 1 - (1 - left) * _STEPS_WITHOUT_END / steps)
        return SAC("MlpPolicy", environment, seed=seed, **settings)
    decay_steps = settings.pop("exploration_fraction") * settings.pop("published_steps")
    return DQN(
        "MlpPolicy",
        environment,
        seed=seed,
        policy_kwargs={"net_arch": [256, 256]},
        exploration_fraction=decay_steps / _STEPS_WITHOUT_END,
        **settings,
    )


def _faster_threads(environment: str, algorithm: str) -> int:
    """The number of torch threads that trains faster here: one or torch's default."""
    seconds = {}
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        model = _make(environment, algorithm, seed=0)
        model.learning_starts = 0
        model.learn(_TRIAL_STEPS // 2)
        begin = time.perf_counter()
        model.learn(_TRIAL_STEPS, reset_num_timesteps=False)
        seconds[threads] = time.perf_counter() - begin
    return min(seconds, key=lambda threads: seconds[threads])


def _play(model: Any, environment: str, episodes: int, seed: int) -> Score:
    """Greedy episodes with the current model, by the function that evaluates Headrace."""

    def act(observation: Array) -> NDArray[Any]:
        with torch.inference_mode():
            placed = torch.from_numpy(observation).to(model.device)
            action = model.policy._predict(placed, deterministic=True)  # continuous ones are in [-1, 1]
        result: NDArray[Any] = action.cpu().numpy()
        return result

    model.policy.set_training_mode(False)
    returns = play(environment, act, episodes, seed).returns
    return Score(statistics.fmean(returns), statistics.stdev(returns))


class _Clock(BaseCallback):  # type: ignore[misc]  # Any: see follow_imports
    """Asks the judge after every step."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self._judge = judge

    def _on_step(self) -> bool:
        buffer = self.model.ep_info_buffer or ()
        return self._judge.goes_on(self.num_timesteps, lambda: [episode["r"] for episode in buffer])
