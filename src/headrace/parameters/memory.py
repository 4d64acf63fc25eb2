"""The state of a recurrent policy, carried from step to step."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.types import Array

__all__ = ["Advance", "Memory"]

Advance = Callable[[Array, NDArray[np.float32]], tuple[NDArray[np.float32], NDArray[np.float32]]]
"""Maps observations [E, *input] and states [E, S] to the policy's outputs [E, *] and the next states [E, S]."""


class Memory:
    """The states of E environments; zeros at the start of each episode. One thread.

    `advance` is the policy, whose states have the width S, `size`. The number of environments is that of the first
    observations.
    """

    def __init__(self, advance: Advance, size: int) -> None:
        self._advance = advance
        self._size = size
        self.state: NDArray[np.float32] = np.zeros((0, size), np.float32)
        """States [E, S] before the next output; output() replaces the array. Empty before the first."""

    def start(self, count: int) -> None:
        """Sets the states of E environments to zeros."""
        self.state = np.zeros((count, self._size), np.float32)

    def output(self, observation: Array) -> NDArray[np.float32]:
        """The policy's outputs [E, *] for observations [E, *input]; the states advance."""
        if not len(self.state):
            self.start(len(observation))
        output, self.state = self._advance(observation, self.state)
        return output

    def reset(self, ended: Array) -> None:
        """Begins new episodes where `ended` [E]."""
        if self._size and ended.any():
            self.state = np.where(ended[:, None], np.float32(0), self.state)
