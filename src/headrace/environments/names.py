"""Names of environments with and without a version."""

import re
from collections.abc import Collection

__all__ = ["newest"]


def newest(name: str, known: Collection[str]) -> str | None:
    """The name if it is known, else its newest version, "CartPole-v1" for "CartPole"; None if there is none."""
    if name in known:
        return name
    pattern = re.compile(f"{re.escape(name)}-v([0-9]+)")
    versions = [int(found[1]) for found in map(pattern.fullmatch, known) if found]
    return f"{name}-v{max(versions)}" if versions else None
