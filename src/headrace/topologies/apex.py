"""Ape-X: actor processes around one learner (Horgan et al. 2018)."""

from typing import Any

import torch

from headrace.algorithms.dqn.exploration import epsilon_ladder
from headrace.machine import available_cores
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Role
from headrace.roles.clock import PhaseClock
from headrace.roles.learner import Learner
from headrace.topologies.base import Workshop
from headrace.topologies.config import Apex
from headrace.topologies.experience import add_table
from headrace.types import Array

__all__ = ["ApexProgram", "actor_count"]


def actor_count(config: Apex) -> int:
    """The actors asked for, or one for each core but the learner's."""
    return config.actors or max(1, available_cores() - 1)


class ApexProgram:
    """Actors push chunks with their own priorities; the learner takes batches that are ready; implements `Program`.

    `generation` is that of the actors' first start; a resumed run begins above all earlier ones.
    """

    def __init__(self, config: Apex, workshop: Workshop, generation: int, pinned: bool) -> None:
        algorithm = workshop.algorithm
        actors = actor_count(config)
        environments = actors * config.envs_per_actor
        self.acting: PhaseClock | None = None
        self.deterministic = False
        self.table = add_table(workshop, environments, config.chunk_steps)
        ladder = epsilon_ladder(environments, config.epsilon_base, config.epsilon_exponent)
        self.roles = [
            Role(
                "actor",
                index,
                ActorSettings(
                    environment=workshop.environment,
                    seed=workshop.seed,
                    index=index,
                    first_environment=index * config.envs_per_actor,
                    epsilon=tuple(ladder[index::actors]),  # every actor has its share of bold and of greedy ones
                    n_step=algorithm.n_step,
                    discount=algorithm.discount,
                    chunk_steps=config.chunk_steps,
                    clip_rewards=algorithm.clip_rewards,
                    values=algorithm.prioritized,
                    pull_period=config.pull_period,
                    run_id=workshop.run_id,
                ).to_json(),
                generation,
            )
            for index in range(actors)
        ]
        self._ahead = self.table.batches_ahead(
            algorithm.batch_size,
            algorithm.importance_exponent,
            config.batches_ahead,
            _pinned if pinned else None,
        )
        self.learner = Learner(
            workshop.updater,
            self._ahead.next,
            self.table.update_priorities if algorithm.prioritized else None,
            workshop.server,
            algorithm.publish_period,
        )

    def step(self, timeout_seconds: float) -> None:
        """One update, if there is a batch before the deadline."""
        self.learner.step(timeout_seconds)

    def take_reports(self) -> list[dict[str, Any]]:
        """None: the actors' reports come by mail."""
        return []

    def skip(self, seconds: float) -> None:
        """The learner's clock leaves these out."""
        self.learner.clock.skip(seconds)

    def state(self) -> dict[str, Any]:
        """Nothing: actors begin new episodes."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing to take back."""

    def close(self) -> None:
        """Stops the thread that samples ahead."""
        self._ahead.close()


def _pinned(shape: tuple[int, ...], dtype: str) -> Array:
    """An array in page-locked memory, from which a copy to the GPU overlaps with other work."""
    array: Array = torch.empty(shape, dtype=getattr(torch, dtype), pin_memory=True).numpy()
    return array
