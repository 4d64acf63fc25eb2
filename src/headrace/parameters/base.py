"""The contract of every store of versioned parameters: the server, and its clients."""

from typing import Protocol

__all__ = ["ParameterStore"]


class ParameterStore(Protocol):
    """Named, versioned blobs. Every method may be called from any thread."""

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; returns the stored version. Raises ServerError if the version does not increase.

        Version 0 means the next one. Publishing the same bytes under the same version again is not an error. `data` may
        change after the call.
        """

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """Returns version and bytes if the version is above `newer_than`."""
