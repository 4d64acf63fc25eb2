"""An actor's n-step transitions in the table, their priorities, and the chunks of an actor that was restored."""

import json

import numpy as np
import pytest

from headrace import DQN
from headrace.algorithms.config import OffPolicy
from headrace.algorithms.writers import table_signature
from headrace.environments import describe
from headrace.replay import Table
from headrace.roles.actor import Actor, ActorSettings
from headrace.roles.clock import ACTOR_PHASES, PhaseClock

TOY = "headrace.environments.toy"


def make_actor(
    environment: str,
    algorithm: OffPolicy,
    chunks: list[bytes],
    q: tuple[float, float] = (1, 0),
    values: bool = False,
) -> Actor:
    """An actor in one environment that has the same Q values for all observations and adds its chunks to `chunks`."""
    spec = describe(environment)
    settings = ActorSettings(environment, 0, 0, (0.0,), algorithm, chunk_steps=4, values=values, spec=spec)
    return Actor(
        settings, lambda _: np.array([q], np.float32), lambda *new: chunks.extend(new), PhaseClock(ACTOR_PHASES)
    )


def probabilities(steps: int) -> dict[tuple[int, int], float]:
    """The probability of each transition of an actor's first steps in `Frames`, by its episode and step.

    The rewards are 1, the Q values 1 and 3, the discount is 0.5, and the actor computes the priorities.
    """
    chunks: list[bytes] = []
    actor = make_actor(f"{TOY}:Frames", DQN(n_step=1, discount=0.5), chunks, q=(1, 3), values=True)
    for _ in range(steps):
        actor.step()
    actor.close()
    signature = table_signature(describe(f"{TOY}:Frames"))
    table = Table(signature, capacity=100, sampler="prioritized", priority_exponent=1.0)
    table.insert(*chunks)
    batch = table.sample(512)
    assert batch is not None
    places = zip(batch.observation[:, 0, 0].tolist(), batch.observation[:, 1, 0].tolist(), strict=True)
    return dict(zip(places, batch.probability.tolist(), strict=True))


def test_transitions_have_the_algorithm_s_discount_and_number_of_steps() -> None:
    """Of an episode with 6 rewards of 1 that terminates: 1 + 0.5 + 0.25 = 1.75, and a discount of 0.5^3 = 0.125."""
    chunks: list[bytes] = []
    actor = make_actor(f"{TOY}:Frames", DQN(n_step=3, discount=0.5), chunks)
    for _ in range(12):
        actor.step()
    actor.close()
    table = Table(table_signature(describe(f"{TOY}:Frames")), capacity=100)
    table.insert(*chunks)
    batch = table.sample(128)
    assert batch is not None
    episode, step = batch.observation[:, 0, 0], batch.observation[:, 1, 0]  # as the frames show them
    found = {
        int(t): (float(batch.reward[row]), float(batch.discount[row]))
        for row, t in enumerate(step)
        if episode[row] == 0
    }
    assert found == {0: (1.75, 0.125), 1: (1.75, 0.125), 2: (1.75, 0.125), 3: (1.75, 0), 4: (1.5, 0), 5: (1, 0)}


def test_initial_priorities_are_the_td_errors_of_the_actor_s_q_values() -> None:
    """|1 + 0.5 * 3 - 3| = 0.5, but |1 - 3| = 2 for the last step, which terminates the episode: 4.5 in all."""
    expected = {(0, step): 0.5 / 4.5 for step in range(5)} | {(0, 5): 2 / 4.5}
    assert probabilities(steps=6) == pytest.approx(expected)


def test_the_priority_of_a_truncated_step_counts_the_largest_q_value_of_the_last_observation() -> None:
    """The second episode is truncated, so all its steps have the priority 0.5: with the first, 7.5 in all."""
    found = probabilities(steps=12)
    assert {step: found[1, step] for step in range(6)} == pytest.approx(dict.fromkeys(range(6), 0.5 / 7.5))


def test_a_restored_actor_sends_no_chunk_again() -> None:
    """Of chunks of 4 transitions, each finished 2 steps after its last one: 4 in 18 steps, 2 in the next 8."""
    original: list[bytes] = []
    restored: list[bytes] = []
    actor, other = (make_actor(f"{TOY}:Corridor", DQN(n_step=3), chunks) for chunks in (original, restored))
    for _ in range(20):
        actor.step()
    assert len(original) == 4
    other.restore(json.loads(json.dumps(actor.state())))
    for _ in range(6):
        actor.step()
        other.step()
    actor.close()
    other.close()
    assert len(original) == 6
    assert restored == original[4:]
