"""Turns steps of one environment into chunks for a table."""

from collections import deque
from typing import TYPE_CHECKING, Any

from headrace._native import ChunkWriter
from headrace.types import Array

if TYPE_CHECKING:
    from headrace.replay.base import ReplayTable  # whose tables make writers

__all__ = ["Writer"]


class Writer:
    """Writes one environment's steps into a table as n-step transitions; each frame is stored once. One thread."""

    def __init__(self, table: "ReplayTable", *, n_step: int, discount: float, chunk_steps: int, actor: int) -> None:
        self._table = table
        self._chunks = ChunkWriter(
            table.signature, n_step=n_step, discount=discount, chunk_steps=chunk_steps, actor=actor
        )
        self._waiting: deque[bytes] = deque()  # what an interrupted call did not insert, the next one does

    def start(self, observation: Array) -> None:
        """Begins an episode with the observation [*O] from reset()."""
        self._chunks.start(observation)

    def append(self, action: Any, reward: float, observation: Array, terminated: bool, truncated: bool) -> None:
        """Adds a step: the action, and the resulting reward and observation [*O]. May wait for the rate limiter."""
        self._chunks.append(action, reward, observation, terminated, truncated)
        if self._chunks.finished:
            self._insert()

    def flush(self) -> None:
        """Sends the complete transitions of the open chunk now."""
        self._chunks.flush()
        self._insert()

    def _insert(self) -> None:
        self._waiting += self._chunks.take()
        while self._waiting:
            self._table.insert(self._waiting[0])
            self._waiting.popleft()
