"""Stable-Baselines3's DQN with its zoo's settings, trained to a score."""

import time
from typing import Any

import torch
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.outcome import (
    CONFIRMATION_EPISODES,
    EVALUATION_PERIOD_SECONDS,
    FRESH_SEED,
    HINT_EPISODES,
    HINT_SECONDS,
    PERIODIC_EPISODES,
    Outcome,
)
from headrace.roles.evaluator import play
from headrace.types import Array

__all__ = ["run_sb3"]

# rl-baselines3-zoo's hyperparams/dqn.yml. `schedule_steps` is the zoo's budget, over which exploration decays.
_ZOO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "schedule_steps": 50_000,
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1_000,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
    },
    "LunarLander-v3": {
        "schedule_steps": 100_000,
        "learning_rate": 6.3e-4,
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_starts": 0,
        "target_update_interval": 250,
        "train_freq": 4,
        "gradient_steps": -1,
        "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1,
    },
    "Acrobot-v1": {
        "schedule_steps": 100_000,
        "learning_rate": 6.3e-4,
        "batch_size": 128,
        "buffer_size": 50_000,
        "learning_starts": 0,
        "target_update_interval": 250,
        "train_freq": 4,
        "gradient_steps": -1,
        "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1,
    },
    "MountainCar-v0": {
        "schedule_steps": 120_000,
        "learning_rate": 4e-3,
        "batch_size": 128,
        "buffer_size": 10_000,
        "learning_starts": 1_000,
        "gamma": 0.98,
        "target_update_interval": 600,
        "train_freq": 16,
        "gradient_steps": 8,
        "exploration_fraction": 0.2,
        "exploration_final_eps": 0.07,
    },
}
_STEPS_WITHOUT_END = 100_000_000  # the clock ends the run
_TRIAL_STEPS = 600


def run_sb3(environment: str, seed: int, score: float, time_limit_seconds: float) -> Outcome:
    """Trains to the score or the time limit, beyond the zoo's budget if necessary."""
    threads = _faster_threads(environment)
    torch.set_num_threads(threads)
    model = _make(environment, seed)
    clock = _Clock(_Evaluator(model, environment), seed, score, time_limit_seconds)
    model.learn(_STEPS_WITHOUT_END, callback=clock)
    evaluator = clock.evaluator
    mean = clock.mean if clock.solved_at is not None else evaluator.mean(CONFIRMATION_EPISODES, seed)
    fresh = evaluator.mean(CONFIRMATION_EPISODES, FRESH_SEED + seed)
    return Outcome(clock.solved_at, model.num_timesteps, mean, fresh, f"zoo, torch threads: {threads} (the faster)")


def _make(environment: str, seed: int) -> DQN:
    settings = dict(_ZOO[environment])
    decay_steps = settings.pop("exploration_fraction") * settings.pop("schedule_steps")
    return DQN(
        "MlpPolicy",
        environment,
        seed=seed,
        policy_kwargs={"net_arch": [256, 256]},
        exploration_fraction=decay_steps / _STEPS_WITHOUT_END,
        **settings,
    )


def _faster_threads(environment: str) -> int:
    """The number of torch threads that trains faster here: one or torch's default."""
    seconds = {}
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        model = _make(environment, seed=0)
        model.learning_starts = 0
        model.learn(_TRIAL_STEPS // 2)
        begin = time.perf_counter()
        model.learn(_TRIAL_STEPS, reset_num_timesteps=False)
        seconds[threads] = time.perf_counter() - begin
    return min(seconds, key=lambda threads: seconds[threads])


class _Evaluator:
    """Plays greedy episodes with the current model, with the function that evaluates Headrace."""

    def __init__(self, model: DQN, environment: str) -> None:
        self._model = model
        self._environment = environment

    def mean(self, episodes: int, seed: int) -> float:
        """Mean return."""
        self._model.policy.set_training_mode(False)
        returns = play(self._environment, self._q_values, episodes, seed).returns
        return sum(returns) / len(returns)

    def _q_values(self, observation: Array) -> NDArray[Any]:
        with torch.inference_mode():
            values = self._model.policy.q_net(torch.from_numpy(observation).to(self._model.device))
        result: NDArray[Any] = values.cpu().numpy()
        return result


class _Clock(BaseCallback):  # type: ignore[misc]  # Any: see follow_imports
    """Evaluates when it is due, and stops at the score or the time limit; evaluations are off the clock."""

    def __init__(self, evaluator: _Evaluator, seed: int, score: float, time_limit_seconds: float) -> None:
        super().__init__()
        self.evaluator = evaluator
        self.mean = float("nan")
        self.solved_at: float | None = None
        self._seed = seed
        self._score = score
        self._time_limit_seconds = time_limit_seconds
        self._next_evaluation = EVALUATION_PERIOD_SECONDS
        self._last_evaluation = 0.0
        self._begin = time.perf_counter()  # advanced by every evaluation

    def _on_step(self) -> bool:
        seconds = time.perf_counter() - self._begin
        if seconds >= self._next_evaluation or self._hinted(seconds):
            self._next_evaluation = seconds + EVALUATION_PERIOD_SECONDS
            self._last_evaluation = seconds
            self._evaluate(seconds)
            self._begin = time.perf_counter() - seconds
        return self.solved_at is None and seconds < self._time_limit_seconds

    def _hinted(self, seconds: float) -> bool:
        """Whether training episodes already reach the score: Headrace then evaluates sooner, so this does too."""
        if seconds < self._last_evaluation + HINT_SECONDS:
            return False
        returns = [episode["r"] for episode in list(self.model.ep_info_buffer or ())[-HINT_EPISODES:]]
        return len(returns) == HINT_EPISODES and sum(returns) / HINT_EPISODES >= self._score

    def _evaluate(self, seconds: float) -> None:
        self.mean = self.evaluator.mean(PERIODIC_EPISODES, self._seed)
        if self.mean >= self._score:
            self.mean = self.evaluator.mean(CONFIRMATION_EPISODES, self._seed)
            self.solved_at = seconds if self.mean >= self._score else None
