"""An actor's n-step transitions in the table, and the chunks of an actor that was restored."""

import json

import numpy as np

from headrace import DQN
from headrace.algorithms.config import OffPolicy
from headrace.algorithms.writers import table_signature
from headrace.environments import describe
from headrace.replay import Table
from headrace.roles.actor import Actor, ActorSettings
from headrace.roles.clock import ACTOR_PHASES, PhaseClock

TOY = "headrace.environments.toy"


def make_actor(environment: str, algorithm: OffPolicy, chunks: list[bytes]) -> Actor:
    """An actor in one environment that always takes action 0 and adds its chunks to `chunks`."""
    settings = ActorSettings(environment, 0, 0, (0.0,), algorithm, chunk_steps=4, spec=describe(environment))
    return Actor(
        settings, lambda _: np.array([[1, 0]], np.float32), lambda *new: chunks.extend(new), PhaseClock(ACTOR_PHASES)
    )


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
