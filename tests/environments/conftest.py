"""Modules with user factories, for the tests of this folder."""

import itertools
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

_numbers = itertools.count()


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
