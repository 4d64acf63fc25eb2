"""Builds an algorithm's learner side from its settings."""

import torch

from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.a3c.updater import A3CUpdater
from headrace.algorithms.base import Updater
from headrace.algorithms.config import Algorithm
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.d4pg.updater import D4PGUpdater
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.dqn.updater import DQNUpdater
from headrace.errors import ConfigError
from headrace.gradients.base import OpenVector
from headrace.types import EnvironmentSpec

__all__ = ["build_updater"]


def build_updater(
    config: Algorithm, spec: EnvironmentSpec, device: torch.device, seed: int, open_: OpenVector | None = None
) -> Updater:
    """Networks and optimizers; raises ConfigError if the environment's actions or observations are unsupported.

    `open_` creates the parameter vector that workers share; by default the vector belongs to this process.
    """
    if isinstance(config, A3C):
        return A3CUpdater(config, spec, device, seed, open_)
    if isinstance(config, D4PG):
        if open_ is not None:
            raise ConfigError("algorithm is d4pg, whose workers can't share parameters: dqn or a3c is required")
        return D4PGUpdater(config, spec, device, seed)
    assert isinstance(config, DQN)
    return DQNUpdater(config, spec, device, seed, open_)
