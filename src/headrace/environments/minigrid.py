"""MiniGrid's rooms (Chevalier-Boisvert et al. 2023) without their texts: "minigrid/DoorKey-5x5-v0"."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from headrace.environments.base import Suite
from headrace.types import EnvironmentDefaults, Sizing

__all__ = ["MiniGrid"]

_PACKAGE_PREFIX = "MiniGrid-"
_DEFAULTS = {
    "minigrid/DoorKey-5x5-v0": EnvironmentDefaults("dqn", Sizing(), "0.965 is the best mean return"),
}


class MiniGrid(Suite):
    """The environments by their Gymnasium ids after "MiniGrid-".

    An observation is a Dict of `direction` and `image`, uint8 [7, 7, 3]: kind, color and state of the object in each
    cell that the agent sees. These are categories, so a network sees them one-hot. `mission`, a text, is left out.
    """

    prefix = "minigrid/"
    packages = "MiniGrid"
    modules = ("minigrid",)
    requirement = "headrace[minigrid]"
    defaults = _DEFAULTS

    def names(self) -> list[str]:
        """Gymnasium's ids of all rooms, with this prefix."""
        known = (name for name in gymnasium.registry if name.startswith(_PACKAGE_PREFIX))
        return [self.prefix + name.removeprefix(_PACKAGE_PREFIX) for name in known]

    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Creates a room."""
        options: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
        room = gymnasium.make(_PACKAGE_PREFIX + name.removeprefix(self.prefix), disable_env_checker=True, **options)
        return _Categories(room)


class _Categories(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Direction and image of a room, as categories."""

    def __init__(self, room: gymnasium.Env[Any, Any]) -> None:
        from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

        super().__init__(room)
        space = room.observation_space
        assert isinstance(space, spaces.Dict)
        counts = np.array([max(names.values()) + 1 for names in (OBJECT_TO_IDX, COLOR_TO_IDX, STATE_TO_IDX)])
        dtype: Any = np.uint8  # as MiniGrid's; the hint of MultiDiscrete says int64
        image = spaces.MultiDiscrete(np.broadcast_to(counts, space["image"].shape or ()), dtype)
        self.observation_space = spaces.Dict(direction=space["direction"], image=image)

    def observation(self, observation: Any) -> dict[str, Any]:
        return {"direction": observation["direction"], "image": observation["image"]}
