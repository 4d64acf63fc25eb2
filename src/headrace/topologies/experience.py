"""The table that a topology's experience goes through."""

from headrace._native import Server, Table
from headrace.algorithms.dqn.config import DQN
from headrace.roles.actor import table_signature
from headrace.roles.base import TABLE
from headrace.types import EnvironmentSpec

__all__ = ["add_table"]


def add_table(
    server: Server, spec: EnvironmentSpec, algorithm: DQN, seed: int, environments: int, chunk_steps: int
) -> Table:
    """Adds the replay table, its limiter set to the algorithm's replay ratio.

    Actors finish their chunks in bursts, one of each environment at nearly the same time; the limiter's tolerance is
    two bursts, so that the learner works on one while the actors gather the next and neither waits.
    """
    burst = algorithm.samples_per_step * chunk_steps * environments
    return server.add_table(
        TABLE,
        table_signature(spec),
        capacity=algorithm.replay_capacity,
        capacity_bytes=algorithm.replay_bytes,
        sampler="prioritized" if algorithm.prioritized else "uniform",
        priority_exponent=algorithm.priority_exponent,
        samples_per_insert=algorithm.samples_per_step,
        limiter_tolerance=algorithm.batch_size + 2 * burst,
        min_size=max(algorithm.learning_starts, algorithm.batch_size),
        seed=seed,
    )
