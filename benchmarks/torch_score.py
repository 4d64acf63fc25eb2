"""Scores of a network that torch computes."""

import statistics
from typing import Any

import torch
from numpy.typing import NDArray

from benchmarks.outcome import Score
from headrace.roles.evaluator import play
from headrace.types import Array

__all__ = ["play_network"]


def play_network(network: torch.nn.Module, environment: str, episodes: int, seed: int) -> Score:
    """Greedy episodes with a network of Q values, by the function that evaluates Headrace."""

    def act(observation: Array) -> NDArray[Any]:
        with torch.inference_mode():
            action: NDArray[Any] = network(torch.from_numpy(observation)).argmax(-1).numpy()
        return action

    returns = play(environment, act, episodes, seed).returns
    return Score(statistics.fmean(returns), statistics.stdev(returns))
