"""Headrace: distributed deep reinforcement learning.

import headrace
result = headrace.train("LunarLander-v3", topology=headrace.Apex(actors=4), until_score=200)
result.evaluate(episodes=100)
"""

import os
from typing import Any

# ONNX Runtime reports to its maker unless this is set before it is imported. Roles inherit it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from headrace import errors, replay
from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.dyna_q.config import DynaQ
from headrace.errors import HeadraceError
from headrace.replay import connect
from headrace.topologies.config import AdPsgd, Apex, Hogwild, Lock, ParameterServer, Serial

__all__ = [
    "A3C",
    "D4PG",
    "DQN",
    "AdPsgd",
    "Apex",
    "DynaQ",
    "HeadraceError",
    "Hogwild",
    "Lock",
    "ParameterServer",
    "Serial",
    "connect",
    "errors",
    "replay",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imports `train` at first use: it brings torch, which actors do without."""
    if name == "train":
        from headrace.api import train

        return train
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
