"""The settings and the policy that SAC and CrossQ share."""

from typing import Any

import pytest

from headrace.algorithms.crossq.config import CrossQ
from headrace.algorithms.sac.actor_critic import GaussianActorCritic
from headrace.algorithms.sac.config import SAC
from headrace.errors import ConfigError

from .conftest import SPEC

pytestmark = pytest.mark.parametrize("kind", [SAC, CrossQ])
Kind = type[GaussianActorCritic]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"critic_learning_rate": 0.0}, "critic_learning_rate is 0.0"),
        ({"critic_hidden": (64, 0)}, "critic_hidden is (64, 0)"),
        ({"critic_hidden": ()}, "critic_hidden is ()"),
    ],
)
def test_refused(kind: Kind, settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(**settings)
    assert str(caught.value).startswith(f"{field}; it must be ")


def test_all_environments_sample_the_policy_itself(kind: Kind) -> None:
    assert kind().exploration(3) == [1.0, 1.0, 1.0]
    assert kind().serial_exploration(3, 10**6) == [1.0, 1.0, 1.0]


def test_actors_compute_a_plain_mlp(kind: Kind) -> None:
    architecture = kind(hidden=(32, 16)).architecture(SPEC)
    assert architecture.layout.size == 3 * 32 + 32 + 32 * 16 + 16 + 16 * 4 + 4
