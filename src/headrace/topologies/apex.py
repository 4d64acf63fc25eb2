"""Ape-X: actor processes and one learner (Horgan et al. 2018), optionally with a quantizer (ActorQ)."""

from collections.abc import Callable
from typing import Any

import torch

from headrace.networks import PolicyGraph
from headrace.replay import Batches, Experience
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Learning, Role
from headrace.roles.clock import PhaseClock
from headrace.roles.learner import Learner
from headrace.roles.publisher import Publisher, graph_blobs, parameter_blobs
from headrace.roles.quantizer import QuantizerSettings
from headrace.topologies.base import RunContext
from headrace.topologies.config import Apex
from headrace.topologies.dyna import add_dyna_tables, mixed_batches, planner_roles
from headrace.topologies.experience import add_table
from headrace.types import Array

__all__ = ["ApexProgram"]


class ApexProgram:
    """Actors push chunks with their own priorities; the learner takes prepared batches. Implements `Program`.

    `config.precision` is resolved: not "auto". `generation` is that of the roles' first start; a resumed run starts
    above all earlier ones.
    """

    def __init__(self, config: Apex, context: RunContext, generation: int, pinned: bool) -> None:
        algorithm = context.off_policy
        dyna = algorithm.world_model
        self.acting: PhaseClock | None = None
        self.deterministic = False
        self.saves_experience = not context.server.keeps_experience
        environments = config.actor_count(algorithm) * config.envs_per_actor
        self.actors = _actors(config, context, generation)
        self.services: list[Role] = []
        architecture = context.updater.architecture
        if config.quantizes:
            settings = QuantizerSettings(architecture, config.actor_precision, config.communication_bits)
            self.services = [Role("quantizer", 0, settings.to_json(), generation)]
            self._publisher = Publisher(context.server, parameter_blobs)
        else:
            self._publisher = Publisher(context.server, graph_blobs(PolicyGraph(architecture)))
        if dyna:
            tables = add_dyna_tables(context, dyna, environments, config.chunk_steps)
            self.services += planner_roles(config, context, dyna, generation)
            self.table: Experience = tables
            mixed = mixed_batches(tables, dyna)
            self._ahead: Batches = mixed
            update_priorities: Callable[..., object] = mixed.update_priorities
        else:
            self.table = table = add_table(context, environments, config.chunk_steps)
            allocate = _pinned if pinned else None
            self._ahead = table.batches_ahead(
                algorithm.batch_size, algorithm.importance_exponent, config.batches_ahead, allocate
            )
            update_priorities = table.update_priorities
        self._learner = Learner(
            context.updater,
            self._ahead.next,
            update_priorities if algorithm.prioritized else None,
            self._publisher,
            algorithm.publish_period,
        )
        self.learner: Learning = self._learner

    def step(self, timeout_seconds: float) -> None:
        """One update if there is a batch before the deadline."""
        self._learner.step(timeout_seconds)

    def take_reports(self) -> list[dict[str, Any]]:
        """Empty: the actors' reports come through the mailbox."""
        return []

    def hear(self, report: dict[str, Any]) -> None:
        """No effect: the learner needs no reports."""

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from the learner's clock."""
        self.learner.clock.skip(seconds)

    def figures(self) -> dict[str, Any] | None:
        """None: there are no shared parameters."""
        return None

    def state(self) -> dict[str, Any]:
        """Empty: actors begin new episodes."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """No effect: there is no state."""

    def close(self) -> None:
        """Stops the threads that sample ahead and publish."""
        self._ahead.close()
        self._publisher.close()


def _actors(config: Apex, context: RunContext, generation: int) -> list[Role]:
    algorithm = context.off_policy
    actors = config.actor_count(algorithm)
    exploration = algorithm.exploration(actors * config.envs_per_actor)
    return [
        Role(
            "actor",
            index,
            ActorSettings(
                environment=context.environment,
                seed=context.seed,
                index=index,
                first_environment=index * config.envs_per_actor,
                exploration=tuple(exploration[index::actors]),  # each actor has exploring and greedy ones
                algorithm=algorithm,
                chunk_steps=config.chunk_steps,
                values=algorithm.actor_priorities,
                spec=context.spec,
                pull_period=config.pull_period,
                pull_unit=config.pull_unit,
                precision=config.actor_precision,
                communication_bits=config.communication_bits,
                transitions=algorithm.world_model is not None,
                run_id=context.run_id,
            ).to_json(),
            generation,
        )
        for index in range(actors)
    ]


def _pinned(shape: tuple[int, ...], dtype: str) -> Array:
    """An array in page-locked memory, whose copy to the GPU overlaps with other work."""
    array: Array = torch.empty(shape, dtype=getattr(torch, dtype), pin_memory=True).numpy()
    return array
