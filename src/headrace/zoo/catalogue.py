"""The policies in `policies/`, described by its `index.json`.

`python -m benchmarks.zoo --keep` writes both from runs that it measured.
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError

__all__ = ["FOLDER", "PREFIX", "KeptPolicy", "find_kept", "kept_policies", "zoo_name"]

PREFIX = "zoo:"
FOLDER = Path(__file__).parent / "policies"


@dataclass(frozen=True)
class KeptPolicy:
    """A policy, the run that trained it, and its score."""

    environment: str
    algorithm: str
    file: str
    """ONNX file in the folder, as `headrace export` wrote it."""
    mean_return: float
    """Of greedy episodes that had no part in training."""
    std_return: float
    episodes: int
    episode_seed: int
    """Seed of these episodes."""
    environment_steps: int
    learner_steps: int
    training_seconds: float
    config: dict[str, Any]
    """The settings of the run, as in its config.json."""
    trained_by: str
    """Command that trained it."""
    commit: str
    date: str

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / self.file


def zoo_name(path: str | Path) -> str | None:
    """NAME of zoo:NAME; None for any other path."""
    text = str(path)
    return text.removeprefix(PREFIX) if text.startswith(PREFIX) else None


@functools.cache
def kept_policies() -> dict[str, KeptPolicy]:
    """All policies by name: the environment's, with -ALGORITHM if that is not the environment's default."""
    entries = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
    return {name: KeptPolicy(**entry) for name, entry in entries.items()}


def find_kept(name: str) -> KeptPolicy:
    """The policy of this name; raises ConfigError, with all names, if there is none."""
    kept = kept_policies()
    if name not in kept:
        raise ConfigError(
            f"policy is {PREFIX}{name:.60}; it must be one of {', '.join(PREFIX + each for each in kept)}"
        )
    return kept[name]
