"""All algorithms by name: those of this package, and those that installed packages add (`headrace.registry`)."""

from typing import TYPE_CHECKING

from headrace.registry import Registry

if TYPE_CHECKING:
    from headrace.algorithms.config import Algorithm

__all__ = ["ALGORITHMS"]

ALGORITHMS: "Registry[Algorithm]" = Registry(
    "algorithm",
    "headrace.algorithms",
    "headrace.algorithms.config:Algorithm",
    {
        "dqn": "headrace.algorithms.dqn:DQN",
        "dyna-q": "headrace.algorithms.dyna_q:DynaQ",
        "d4pg": "headrace.algorithms.d4pg:D4PG",
        "td3": "headrace.algorithms.td3:TD3",
        "sac": "headrace.algorithms.sac:SAC",
        "crossq": "headrace.algorithms.crossq:CrossQ",
        "a3c": "headrace.algorithms.a3c:A3C",
        "r2d2": "headrace.algorithms.r2d2:R2D2",
    },
    required=("summary", "action_kinds"),
    check="headrace.algorithms.config:require_contract",
)
