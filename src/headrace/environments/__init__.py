"""Environments: Gymnasium ids, user factories, Atari and dm_control, in batches and with stacked frames."""

from headrace.environments.base import Suite
from headrace.environments.batch import EnvironmentBatch, Episode, OpenEpisode, episode_seed
from headrace.environments.catalogue import make
from headrace.environments.spaces import describe, require_spec
from headrace.environments.stack import FrameStack

__all__ = [
    "EnvironmentBatch",
    "Episode",
    "FrameStack",
    "OpenEpisode",
    "Suite",
    "describe",
    "episode_seed",
    "make",
    "require_spec",
]
