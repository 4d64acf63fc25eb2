"""Headrace: distributed deep reinforcement learning.

import headrace
result = headrace.train("LunarLander-v3", topology=headrace.Apex(actors=4), until_score=200)
result.evaluate(episodes=100)
action = headrace.load(result.path).act(observation)
headrace.tune("LunarLander-v3", tune={"learning-rate": "log:1e-4:1e-2"}, trials=20, parallel=2)
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# ONNX Runtime reports to its maker unless this is set before it is imported. Roles inherit it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from headrace import errors
from headrace.algorithms.registry import ALGORITHMS
from headrace.errors import HeadraceError
from headrace.launch.registry import LAUNCHERS
from headrace.topologies.registry import TOPOLOGIES

if TYPE_CHECKING:
    from headrace import replay
    from headrace.algorithms.a3c.config import A3C
    from headrace.algorithms.crossq.config import CrossQ
    from headrace.algorithms.d4pg.config import D4PG
    from headrace.algorithms.dqn.config import DQN
    from headrace.algorithms.dyna_q.config import DynaQ
    from headrace.algorithms.r2d2.config import R2D2
    from headrace.algorithms.sac.config import SAC
    from headrace.algorithms.td3.config import TD3
    from headrace.api import load, resume, train, tune
    from headrace.launch.config import Processes
    from headrace.launch.ray import Ray
    from headrace.launch.simulated import Simulated
    from headrace.replay import connect
    from headrace.topologies.apex import Apex
    from headrace.topologies.serial import Serial
    from headrace.topologies.workers import AdPsgd, Hogwild, Lock, ParameterServer

__all__ = [
    "A3C",
    "D4PG",
    "DQN",
    "R2D2",
    "SAC",
    "TD3",
    "AdPsgd",
    "Apex",
    "CrossQ",
    "DynaQ",
    "HeadraceError",
    "Hogwild",
    "Lock",
    "ParameterServer",
    "Processes",
    "Ray",
    "Serial",
    "Simulated",
    "connect",
    "errors",
    "load",
    "replay",
    "resume",
    "train",
    "tune",
]


_HOMES = {
    **ALGORITHMS.homes,
    **TOPOLOGIES.homes,
    "connect": "headrace.replay",
    **dict.fromkeys(("load", "resume", "train", "tune"), "headrace.api"),
    **LAUNCHERS.homes,
}


def __dir__() -> list[str]:
    """Also the members that are not imported yet."""
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # a type checker knows the members, and would take any other name for one

    def __getattr__(name: str) -> Any:
        """Imports a member at first use: the command line handles signals before NumPy is imported."""
        if name == "replay":
            return import_module("headrace.replay")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
