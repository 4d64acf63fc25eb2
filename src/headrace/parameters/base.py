"""The contract of everything that holds versioned parameters: the server, and a client of it."""

from typing import Protocol

__all__ = ["ParameterStore"]


class ParameterStore(Protocol):
    """Named, versioned blobs. Every method may be called from any thread."""

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; 0 takes the next version. The version stored; raises ReplayError where it does not rise.

        The same bytes under the same version once more are no error.
        """

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """Version and bytes where there is a version above `newer_than`."""
