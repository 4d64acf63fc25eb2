"""Roles of Ape-X, and the learner's part in the training process."""

from collections.abc import Callable

from headrace.networks.policy_graph import PolicyGraph
from headrace.replay import Batches, Experience
from headrace.roles.base import Learning, Role
from headrace.roles.handles import PARAMETERS, POLICY, REPLAY, SIMULATED, TRANSITIONS
from headrace.roles.learner import Learner
from headrace.roles.planner import PlannerRole, PlannerSettings
from headrace.roles.publisher import Publisher, graph_blobs, parameter_blobs
from headrace.roles.quantizer import QuantizerRole
from headrace.roles.remote_actor import ActorRole
from headrace.topologies.apex.config import Apex
from headrace.topologies.base import Program, RunContext
from headrace.topologies.dyna import add_dyna_tables, mixed_batches
from headrace.topologies.experience import add_table
from headrace.types import Array

__all__ = ["ApexProgram"]


class ApexProgram(Program):
    """Actors push chunks with their own priorities; the learner takes prepared batches.

    Experience goes from actors through REPLAY to the learner. Policies go from the learner to actors by POLICY, or by
    PARAMETERS to the quantizer and by POLICY to actors. Planners learn from TRANSITIONS and fill SIMULATED.

    `config.precision` is resolved: not "auto". `generation` is that of the roles' first start; a resumed run starts
    above all earlier ones.
    """

    def __init__(self, config: Apex, context: RunContext, generation: int, pinned: bool) -> None:
        self._config, self._context, self._generation = config, context, generation
        self._algorithm = algorithm = context.off_policy
        self.saves_experience = not context.server.keeps_experience
        architecture = context.updater.architecture
        actors = config.actor_count(algorithm)
        environments = actors * config.envs_per_actor
        exploration = algorithm.exploration(environments)
        self.actors: list[Role] = [
            self._actor(index, tuple(exploration[index::actors]))  # each actor has exploring and greedy ones
            for index in range(actors)
        ]
        self.services: list[Role] = []
        if config.quantizes:
            self.services.append(
                QuantizerRole(
                    0,
                    architecture,
                    config.actor_precision,
                    config.communication_bits,
                    parameters=PARAMETERS,
                    policy=POLICY,
                    generation=generation,
                )
            )
        dyna = algorithm.world_model
        if dyna:
            self.services += [self._planner(index) for index in range(dyna.planners)]
            tables = add_dyna_tables(context, dyna, environments, config.chunk_steps)
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
        blobs = parameter_blobs(PARAMETERS) if config.quantizes else graph_blobs(PolicyGraph(architecture), POLICY)
        self._publisher = Publisher(context.server, blobs)
        self._learner = Learner(
            context.updater,
            self._ahead.next,
            update_priorities if algorithm.prioritized else None,
            self._publisher,
            algorithm.publish_period,
        )
        self.learner: Learning = self._learner

    @property
    def waited_seconds(self) -> float:
        """Seconds in which step() has waited for batches beyond its timeout."""
        return self._learner.overdue_seconds

    def step(self, timeout_seconds: float) -> None:
        """One update if there is a batch before the deadline."""
        self._learner.step(timeout_seconds)

    def skip(self, seconds: float) -> None:
        """Excludes these seconds from the learner's clock."""
        self.learner.clock.skip(seconds)

    def close(self) -> None:
        """Stops the threads that sample ahead and publish."""
        self._ahead.close()
        self._publisher.close()

    def _actor(self, index: int, exploration: tuple[float, ...]) -> ActorRole:
        config, context, algorithm = self._config, self._context, self._algorithm
        settings = context.actor_settings(
            index * config.envs_per_actor,
            exploration,
            config.chunk_steps,
            values=algorithm.actor_priorities(context.spec),
            pull_period=config.pull_period,
            pull_unit=config.pull_unit,
            precision=config.actor_precision,
            communication_bits=config.communication_bits,
        )
        transitions = TRANSITIONS if algorithm.world_model else None
        return ActorRole(
            index, settings, policy=POLICY, replay=REPLAY, transitions=transitions, generation=self._generation
        )

    def _planner(self, index: int) -> PlannerRole:
        config, context, dyna = self._config, self._context, self._algorithm.world_model
        assert dyna is not None
        precision, bits = config.actor_precision, config.communication_bits
        settings = PlannerSettings(context.spec, dyna, context.seed, precision, bits)
        return PlannerRole(
            index,
            settings,
            policy=POLICY,
            transitions=TRANSITIONS,
            simulated=SIMULATED,
            generation=self._generation,
        )


def _pinned(shape: tuple[int, ...], dtype: str) -> Array:
    """An array in page-locked memory, whose copy to the GPU overlaps with other work."""
    import torch

    array: Array = torch.empty(shape, dtype=getattr(torch, dtype), device="cpu", pin_memory=True).numpy()
    return array
