"""Atari games of the Arcade Learning Environment, preprocessed as DQN has them (Mnih et al. 2015, Methods).

One observation is one frame, uint8 [84, 84]: gray, 4 game frames an action, the maximum of the last two. Stacks of
4 are made outside (FrameStack), so that each frame is stored once. An episode starts with 1 to 30 no-ops, ends with
the game (not with a life) and is truncated after 108,000 game frames. Actions do not stick.
"""

from typing import Any

import gymnasium

from headrace.environments.base import Suite

__all__ = ["Atari"]

_STACK = 4

# The base environment delivers every game frame; skipping and pooling are the wrapper's. Gray, because the base
# environment draws its observation at each of them though the wrapper looks at the screen itself: 15 % of the time.
_BASE_OPTIONS: dict[str, Any] = {
    "frameskip": 1,
    "repeat_action_probability": 0.0,
    "full_action_space": False,
    "obs_type": "grayscale",
    "max_num_frames_per_episode": 108_000,
}


class Atari(Suite):
    """The games, by their Gymnasium ids, as "ALE/Breakout-v5"."""

    prefix = "ALE/"
    packages = "ale-py and OpenCV"
    modules = ("ale_py", "cv2")
    requirement = "headrace[atari]"

    def load(self, environment_id: str) -> None:
        """Makes Gymnasium know the games; raises EnvironmentFault where the extra is not installed."""
        super().load(environment_id)
        import ale_py
        import cv2

        gymnasium.register_envs(ale_py)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # before the first game, or each prints a banner
        cv2.setNumThreads(1)  # an actor has one core

    def names(self) -> list[str]:
        """Ids of all games, as Gymnasium has them."""
        return [name for name in gymnasium.registry if name.startswith(self.prefix)]

    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Makes a game and its preprocessing."""
        game = gymnasium.make(name, disable_env_checker=True, render_mode=render_mode, **_BASE_OPTIONS)
        environment = gymnasium.wrappers.AtariPreprocessing(game, noop_max=30, frame_skip=4, screen_size=84)
        environment.metadata = {**environment.metadata, "stack": _STACK}
        return environment
