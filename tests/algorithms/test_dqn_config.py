"""Settings that can never work are refused by name."""

from dataclasses import replace
from typing import Any

import pytest

from headrace import DQN, Apex, Serial
from headrace.errors import ConfigError
from headrace.types import EnvironmentSpec


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_step": 0}, "n_step is 0; it must be above 0"),
        ({"priority_exponent": -0.1}, "priority_exponent is -0.1; it must be 0 or more"),
        (
            {"prioritized": False, "importance_exponent": 0.6},
            "importance_exponent is 0.6; it must be the default unless prioritized is true",
        ),
        ({"discount": 1.5}, "discount is 1.5; it must be between 0 and 1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"replay_capacity": 100, "learning_starts": 50}, "replay_capacity is 100; it must be at least the batch size"),
        ({"target_update_rate": 0.0}, "target_update_rate is 0.0"),
        ({"hidden": (64, 0)}, "hidden is (64, 0)"),
        ({"loss": "cubic"}, "loss is cubic; it must be huber or squared"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"epsilon_base": 1.5}, "epsilon_base is 1.5; it must be between 0 and 1"),
        ({"epsilon_exponent": -1.0}, "epsilon_exponent is -1.0; it must be 0 or more"),
    ],
)
def test_dqn(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DQN(**settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Apex, {"actors": 0}, "actors is 0; it must be above 0"),
        (Apex, {"envs_per_actor": -1}, "envs_per_actor is -1"),
        (Apex, {"batches_ahead": 1}, "batches_ahead is 1; it must be 2 or more"),
        (Serial, {"chunk_steps": 0}, "chunk_steps is 0"),
    ],
)
def test_topologies(kind: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(**settings)
    assert message in str(caught.value)


def test_epsilons_of_separate_actors_form_a_ladder() -> None:
    assert DQN(epsilon_base=0.5, epsilon_exponent=2.0).exploration(3) == pytest.approx([0.5, 0.25, 0.125])


def test_serial_epsilon_decays_equally_for_all_environments() -> None:
    config = DQN(epsilon_decay_steps=100, epsilon_final=0.1)
    assert config.serial_exploration(2, 50) == pytest.approx([0.55, 0.55])
    assert config.serial_exploration(2, 1000) == pytest.approx([0.1, 0.1])


def test_a_step_that_finishes_a_chunk_inserts_its_transitions_and_those_that_wait_for_rewards() -> None:
    """At an episode's end: a chunk of 50, and 2 transitions whose 3 rewards were not complete; 4 samples for each."""
    form = DQN(n_step=3, samples_per_step=4.0).table_form(EnvironmentSpec((3,), "float32", 5), 50)
    assert (form.n_step, form.chunk_steps, form.burst) == (3, 50, 4 * 52)


def test_actors_send_priorities_if_sampling_is_prioritized() -> None:
    spec = EnvironmentSpec((3,), "float32", 5)
    assert DQN().actor_priorities(spec)
    assert not DQN(prioritized=False).actor_priorities(spec)
    assert not DQN().actor_priorities(replace(spec, branches=(2, 3)))
