"""Atari games of the Arcade Learning Environment, preprocessed as DQN has them (Mnih et al. 2015, Methods).

One observation is one frame, uint8 [84, 84]: gray, 4 game frames an action, the maximum of the last two. Stacks of
4 are made outside (FrameStack), so that each frame is stored once. An episode starts with 1 to 30 no-ops, ends with
the game (not with a life) and is truncated after 108,000 game frames. Actions do not stick.
"""

from typing import Any

import gymnasium

from headrace.errors import EnvironmentFault

__all__ = ["BASE_OPTIONS", "STACK", "is_atari", "preprocess", "register"]

STACK = 4

# The base environment delivers every game frame; skipping and pooling are the wrapper's. Gray, because the base
# environment draws its observation at each of them though the wrapper looks at the screen itself: 15 % of the time.
BASE_OPTIONS: dict[str, Any] = {
    "frameskip": 1,
    "repeat_action_probability": 0.0,
    "full_action_space": False,
    "obs_type": "grayscale",
    "max_num_frames_per_episode": 108_000,
}


def is_atari(environment_id: str) -> bool:
    """Tells whether an id names a game in the form that gets the preprocessing: "ALE/Breakout-v5"."""
    return environment_id.rpartition(":")[2].startswith("ALE/")


def register(environment_id: str) -> None:
    """Makes Gymnasium know the "ALE/" ids; raises EnvironmentFault where the extra is not installed."""
    try:
        import ale_py
        import cv2
    except ImportError as error:
        raise EnvironmentFault(
            f'environment "{environment_id}" needs ale-py and OpenCV ({error}): pip install "headrace[atari]"'
        ) from error
    gymnasium.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # before the first game, or each prints a banner
    cv2.setNumThreads(1)  # an actor has one core


def preprocess(environment: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Wraps a game that was made with BASE_OPTIONS."""
    return gymnasium.wrappers.AtariPreprocessing(environment, noop_max=30, frame_skip=4, screen_size=84)
