"""Environments: Gymnasium ids, user factories, Atari and dm_control, in batches and with stacked frames."""

from headrace.environments.base import EnvironmentBatch, Episode, OpenEpisode, Suite, VectorSuite, episode_seed
from headrace.environments.batches import make_batch, repeats_episodes
from headrace.environments.catalogue import make
from headrace.environments.spaces import describe, require_spec
from headrace.environments.stack import FrameStack

__all__ = [
    "EnvironmentBatch",
    "Episode",
    "FrameStack",
    "OpenEpisode",
    "Suite",
    "VectorSuite",
    "describe",
    "episode_seed",
    "make",
    "make_batch",
    "repeats_episodes",
    "require_spec",
]
