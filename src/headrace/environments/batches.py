"""Creates batches of environments."""

from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.environments.base import EnvironmentBatch, VectorSuite
from headrace.environments.batch import SingleEnvironments
from headrace.environments.catalogue import make_vector
from headrace.environments.suites import find_suite
from headrace.environments.vector import VectorEnvironments

__all__ = ["make_batch", "repeats_episodes"]


def make_batch(
    environment_id: str,
    count: int,
    *,
    seed: int,
    first_index: int = 0,
    clip_rewards: bool = False,
    longest_episode: int | None = None,
    beat: Callable[[], object] = lambda: None,
) -> EnvironmentBatch:
    """Creates E environments, numbered from `first_index`: vectorized ones if the id is that of a `VectorSuite`.

    See `EnvironmentBatch` for the other arguments. Raises EnvironmentFault as `make` does.
    """
    kind: Callable[..., EnvironmentBatch] = SingleEnvironments
    arguments: tuple[Any, ...] = (environment_id, count)
    if not repeats_episodes(environment_id):
        kind = VectorEnvironments
        arguments += (partial(make_vector, environment_id, count),)
    return kind(
        *arguments,
        seed=seed,
        first_index=first_index,
        clip_rewards=clip_rewards,
        longest_episode=longest_episode,
        beat=beat,
    )


def repeats_episodes(environment_id: str) -> bool:
    """Whether a resumed run can repeat its open episodes: with single environments, not with vectorized ones."""
    return not isinstance(find_suite(environment_id), VectorSuite)
