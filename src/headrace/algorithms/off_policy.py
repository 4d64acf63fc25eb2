"""What the updaters of off-policy algorithms have in common."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.learned import Follower, Learned
from headrace.gradients.base import ParameterVector
from headrace.gradients.flat import read_vector
from headrace.networks.architecture import Architecture
from headrace.networks.base import Network
from headrace.types import Array, Batch

__all__ = ["OffPolicyUpdater"]


class OffPolicyUpdater:
    """Implements `algorithms.base.Updater` except for update().

    `policy` is the network of `architecture` over the parameters of `policy_vector`. The learned vectors stand in the
    order in which they were opened. The targets move with the updates of `followed`.
    """

    def __init__(
        self,
        architecture: Architecture,
        policy: Network,
        policy_vector: ParameterVector,
        learned: Learned,
        follower: Follower,
        followed: ParameterVector,
    ) -> None:
        self.architecture = architecture
        self._policy = policy
        self._policy_vector = policy_vector
        self._learned = learned
        self._follower = follower
        self._followed_vector = followed
        self._followed = followed.version

    @property
    def version(self) -> int:
        """Number of updates, by all learners: the version of the first vector."""
        return next(iter(self._learned.vectors.values())).version

    def pull(self) -> int:
        """Updates all vectors; moves the targets as often as was due since the last call."""
        for vector in self._learned.vectors.values():
            vector.pull()
        version = self._followed_vector.version
        self._follower.follow(self._followed, version, self._followed_vector.parameter_sets)
        self._followed = version
        return self.version

    def transfer(self, batch: Batch) -> tuple[Any, ...]:
        """observation, next_observation, placed for the networks; action, reward, discount, weight as they are."""
        observation, next_observation = map(self._policy.place, (batch.observation, batch.next_observation))
        return observation, next_observation, batch.action, batch.reward, batch.discount, batch.weight

    def weights(self) -> dict[str, Array]:
        """The policy's parameters."""
        self.pull()
        return self.architecture.layout.views(read_vector(self._policy_vector.parameters))

    def act(self, observation: Array) -> NDArray[np.float32]:
        """The policy's outputs [B, *] for observations [B, *input]."""
        return self._policy.output(self._policy.place(observation))

    def state(self) -> dict[str, Array]:
        """Targets, vectors with their optimizer moments, the random state if any, and the number of updates."""
        self.pull()
        return self._learned.state(self._followed)

    def load(self, state: Mapping[str, Array]) -> None:
        """Restores what state() returned; raises CheckpointError if names or shapes differ."""
        self._followed = self._learned.load(state)
