"""An actor in vectorized environments writes what one in single environments writes; its rewards and seeds."""

import struct
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from headrace import DQN
from headrace.algorithms.r2d2.windows import WindowForm, WindowWriters
from headrace.algorithms.writers import table_signature
from headrace.environments import EnvironmentBatch, describe, make_batch
from headrace.networks.records import ILLEGAL, split
from headrace.replay import BatchBuffer, Table
from headrace.roles.actor import Actor, ActorSettings
from headrace.roles.clock import ACTOR_PHASES, PhaseClock
from headrace.types import Array, EnvironmentSpec

from ..environments.walks import MODES, register, restart_numbers

E = 4
STEPS = 80
NAMES = [mode.value for mode in MODES]


def by_actor(chunks: list[bytes]) -> dict[int, list[bytes]]:
    """The chunks of each environment, whose number is at byte 32 of a chunk's header."""
    found: dict[int, list[bytes]] = {}
    for chunk in chunks:
        found.setdefault(struct.unpack_from("<I", chunk, 32)[0], []).append(chunk)
    return found


def values(spec: EnvironmentSpec, inputs: Array) -> NDArray[np.float32]:
    """Q values that depend on the observation."""
    parts = split(inputs, spec.parts)
    q = np.sin(parts["observation.place"] * [1, 2, 3] + parts["observation.steps"][:, None] * [4, 5, 6])
    return np.where(parts["action_mask"] == 1, q, ILLEGAL).astype(np.float32)


def act(environment: str, steps: int, algorithm: Any) -> tuple[dict[int, list[bytes]], int]:
    """Chunks of each environment, and the steps that were taken."""
    spec = describe(environment)
    restart_numbers()
    chunks: list[bytes] = []
    settings = ActorSettings(environment, 0, 0, (0.0,) * E, algorithm, chunk_steps=4, values=True, spec=spec)
    actor = Actor(
        settings, lambda inputs: values(spec, inputs), lambda *new: chunks.extend(new), PhaseClock(ACTOR_PHASES)
    )
    taken = sum(actor.step() for _ in range(steps))
    return by_actor(chunks), taken


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
def test_n_step_chunks_with_priorities_equal_those_of_single_environments(
    monkeypatch: pytest.MonkeyPatch, mode: AutoresetMode
) -> None:
    name = register(monkeypatch, mode)
    algorithm = DQN(n_step=3, discount=0.9)
    expected, taken = act(name, STEPS, algorithm)
    ours, counted = act(f"vector/{name}", STEPS, algorithm)
    assert taken == E * STEPS
    assert len(expected) == E
    for index, chunks in expected.items():
        assert len(chunks) > STEPS // 5
        assert ours[index] == chunks[: len(ours[index])]
    phantoms = mode is AutoresetMode.NEXT_STEP
    assert (counted < taken) == phantoms
    assert sum(map(len, ours.values())) > 0.7 * sum(map(len, expected.values()))


def test_an_actor_clips_the_rewards_that_it_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """It walks over places 2, 3, 3, 4 and 4, which are the rewards: right, but twice it may not move there."""
    name = register(monkeypatch, AutoresetMode.NEXT_STEP)
    spec = describe(name)
    table = Table(table_signature(spec), capacity=100)
    algorithm = DQN(n_step=1, clip_rewards=True)
    settings = ActorSettings(name, 0, 0, (0.0,), algorithm, chunk_steps=5, spec=spec)
    restart_numbers()

    def rightwards(inputs: Array) -> NDArray[np.float32]:
        return np.where(split(inputs, spec.parts)["action_mask"] == 1, [0, 1, 2], ILLEGAL).astype(np.float32)

    actor = Actor(settings, rightwards, table.insert, PhaseClock(ACTOR_PHASES))
    for _ in range(5):
        actor.step()
    buffer = BatchBuffer(table.signature, 16)
    assert table.sample_into(buffer, 0.0, 0.0)
    assert buffer.arrays.reward.tolist() == [1.0] * 16
    assert actor.environments.take_episodes() == [(0, 16.0, 5, False)]
    actor.close()


def test_actors_of_the_same_seed_play_and_explore_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, starts, actions = describe("CartPole-v1"), [], []
    for first in (0, 2):
        output = Mock(return_value=np.zeros((2, 2), np.float32))
        settings = ActorSettings("CartPole-v1", 3, first, (1.0, 1.0), DQN(), chunk_steps=50, spec=spec)
        actor = Actor(settings, output, lambda *chunks: None, PhaseClock(ACTOR_PHASES))
        step = Mock(wraps=actor.environments.step)
        monkeypatch.setattr(actor.environments, "step", step)
        for _ in range(20):
            actor.step()
        actor.close()
        starts.append(output.call_args_list[0].args[0])
        actions.append([call.args[0] for call in step.call_args_list])
    assert not (starts[0] == starts[1]).any()
    assert not np.array_equal(actions[0], actions[1])


def windows(batch: EnvironmentBatch, steps: int) -> dict[int, list[bytes]]:
    """The windows that R2D2 writes, with states that depend on the observation."""
    form = WindowForm(batch.spec, burn_in=2, learned=2, n_step=2, state_size=1)
    writers = WindowWriters(form, len(batch), 0)
    inputs, chunks = batch.start(), []
    writers.start(inputs)
    for _ in range(steps):
        output = values(batch.spec, inputs)
        actions = output.argmax(1)
        step = batch.step(actions)
        chunks += writers.append(output[:, :1], actions, step)
        inputs = step.next_start
    return by_actor(chunks)


@pytest.mark.parametrize("mode", MODES, ids=NAMES)
def test_windows_equal_those_of_single_environments(monkeypatch: pytest.MonkeyPatch, mode: AutoresetMode) -> None:
    name = register(monkeypatch, mode)
    restart_numbers()
    expected = windows(make_batch(name, E, seed=0), STEPS)
    restart_numbers()
    ours = windows(make_batch(f"vector/{name}", E, seed=0), STEPS)
    for index, chunks in expected.items():
        assert len(ours[index]) > 0.7 * len(chunks)
        assert ours[index] == chunks[: len(ours[index])]
