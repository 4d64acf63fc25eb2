"""Stacks the last K frames of each environment for the policy."""

from collections.abc import Sequence

import numpy as np

from headrace.types import Array, EnvironmentSpec

__all__ = ["FrameStack"]


class FrameStack:
    """Stacks of the last K frames of E environments, oldest first; at an episode's start its first frame is repeated.

    Tables clamp their stacks in the same way, so actors and learners see the same stacks. If K is 1, there is no stack
    axis and every method returns its argument. Otherwise each call returns new arrays, which the caller may keep. One
    thread.
    """

    def __init__(self, count: int, spec: EnvironmentSpec) -> None:
        self._depth = spec.stack
        self._stacks = np.empty((count, spec.stack, *spec.observation_shape), spec.observation_dtype)

    def start(self, observation: Array) -> Array:
        """First frames [E, *O] of every environment -> [E, K, *O], or [E, *O] if K is 1."""
        if self._depth == 1:
            return observation
        self._stacks = np.repeat(observation[:, None], self._depth, axis=1)
        return self._stacks

    def push(self, next_start: Array, ended: Array) -> Array:
        """Adds one frame [E, *O], the first of a new episode where `ended` [E] -> [E, K, *O], or [E, *O] if K is 1."""
        if self._depth == 1:
            return next_start
        stacks = np.empty_like(self._stacks)
        stacks[:, :-1] = self._stacks[:, 1:]
        stacks[:, -1] = next_start
        for index in np.flatnonzero(ended):
            stacks[index] = next_start[index]
        self._stacks = stacks
        return stacks

    def with_final(self, observation: Array, index: int) -> Array:
        """Stack [K, *O] with the final `observation` [*O] of environment `index`; call it before `push`.

        The value at a truncation is bootstrapped from it. The stacks do not change.
        """
        if self._depth == 1:
            return observation
        return np.concatenate([self._stacks[index, 1:], observation[None]])

    def restore(self, frames: Sequence[Array]) -> Array:
        """Stacks from all frames [T+1, *O] of each environment's open episode -> [E, K, *O], or [E, *O] if K is 1."""
        if self._depth == 1:
            return np.stack([rows[-1] for rows in frames])
        self._stacks = np.stack([rows[np.maximum(np.arange(len(rows) - self._depth, len(rows)), 0)] for rows in frames])
        return self._stacks
