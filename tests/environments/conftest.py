"""Modules with user factories, and actions of batches, for the tests of this folder."""

import itertools
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

TOY = "headrace.environments.toy"
_numbers = itertools.count()


def zeros(count: int) -> NDArray[np.int64]:
    """Action 0 in each environment."""
    return np.zeros(count, np.int64)


def random_actions(seed: int, step: int, count: int, actions: int) -> NDArray[np.int64]:
    """The same actions for the same seed and step."""
    return np.random.default_rng([seed, step]).integers(0, actions, count)


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module with the given source into the current directory -> its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])

    def write(source: str) -> str:
        name = f"own_environments_{next(_numbers)}"  # a new name each time, because modules stay imported
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        return name

    return write
