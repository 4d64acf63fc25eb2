"""The phases of an actor's time as studies record them."""

from collections.abc import Mapping

__all__ = ["ACTOR_PHASES", "recorded"]

ACTOR_PHASES = ("environment", "inference", "pull", "load", "push", "other")


def recorded(seconds: Mapping[str, float]) -> dict[str, float]:
    """The seconds of an actor's clock by these phases; push includes the time for which the server blocks the actor."""
    return {phase: seconds[phase] for phase in ACTOR_PHASES} | {"push": seconds["push"] + seconds["blocked"]}
