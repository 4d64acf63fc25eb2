"""From an algorithm's settings to its learner side."""

import torch

from headrace.algorithms.base import Updater
from headrace.algorithms.config import OffPolicy
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.d4pg.updater import D4PGUpdater
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.dqn.updater import DQNUpdater
from headrace.types import EnvironmentSpec

__all__ = ["build_updater"]


def build_updater(config: OffPolicy, spec: EnvironmentSpec, device: torch.device, seed: int) -> Updater:
    """Networks and optimizers; raises ConfigError where the environment's actions or frames don't suit them."""
    if isinstance(config, D4PG):
        return D4PGUpdater(config, spec, device, seed)
    assert isinstance(config, DQN)
    return DQNUpdater(config, spec, device, seed)
