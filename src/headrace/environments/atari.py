"""Atari games of the Arcade Learning Environment, preprocessed as for DQN (Mnih et al. 2015, Methods).

An observation is one gray frame, uint8 [84, 84]: the maximum of the last two of the 4 game frames of an action.
FrameStack makes the stacks of 4, so that each frame is stored once. An episode starts with 1 to 30 no-ops, ends with
the game (not with a life) and is truncated after 108,000 game frames. Actions are not sticky.
"""

from typing import Any

import gymnasium

from headrace.environments.base import Suite
from headrace.types import EnvironmentDefaults, Sizing

__all__ = ["Atari"]

_STACK = 4

# The base environment returns every game frame; the wrapper skips and pools. Gray observations save 15 % of the time:
# the base environment draws one at every game frame, although the wrapper reads the screen itself.
_BASE_OPTIONS: dict[str, Any] = {
    "frameskip": 1,
    "repeat_action_probability": 0.0,
    "full_action_space": False,
    "obs_type": "grayscale",
    "max_num_frames_per_episode": 108_000,
}
_DEFAULTS = {
    "ALE/...": EnvironmentDefaults(
        "dqn",
        Sizing(4, 8),
        "every ALE/... game; a policy that has learned to wait plays for 27,000 steps, so few episodes are evaluated",
        evaluation_period_seconds=600.0,
        evaluation_episodes=3,
        final_evaluation_episodes=10,
        checkpoint_period_seconds=1800.0,
    ),
}


class Atari(Suite):
    """The games by their Gymnasium ids, such as "ALE/Breakout-v5"."""

    prefix = "ALE/"
    packages = "ale-py and OpenCV"
    modules = ("ale_py", "cv2")
    requirement = "headrace[atari]"
    defaults = _DEFAULTS

    def load(self, environment_id: str) -> None:
        """Registers the games with Gymnasium; raises EnvironmentFault if the extra is not installed."""
        super().load(environment_id)
        import ale_py
        import cv2

        gymnasium.register_envs(ale_py)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # before the first game, or each prints a banner
        cv2.setNumThreads(1)  # an actor has one core

    def names(self) -> list[str]:
        """Gymnasium's ids of all games."""
        return [name for name in gymnasium.registry if name.startswith(self.prefix)]

    def make(self, name: str, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """Creates a game with its preprocessing."""
        game = gymnasium.make(name, disable_env_checker=True, render_mode=render_mode, **_BASE_OPTIONS)
        environment = gymnasium.wrappers.AtariPreprocessing(game, noop_max=30, frame_skip=4, screen_size=84)
        environment.metadata = {**environment.metadata, "stack": _STACK}
        return environment
