"""Imports a user's modules."""

import importlib
import os
import sys
import threading
from types import ModuleType

from headrace.errors import ConfigError

__all__ = ["import_user_module", "require_not_imported"]


class _Importing(threading.local):
    name: str | None = None


_importing = _Importing()


def import_user_module(name: str) -> ModuleType:
    """Imports a module, which may be in the current directory; may raise anything, as the module may."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:  # `python -m` adds it; an installed command does not
        sys.path.insert(0, here)
    outer, _importing.name = _importing.name, name
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            error.add_note("modules are looked for in the current directory and on PYTHONPATH")
        raise
    finally:
        _importing.name = outer


def require_not_imported(call: str) -> None:
    """Raises ConfigError if a user's module makes this call while it is imported: each process would begin a run."""
    if _importing.name is not None:
        raise ConfigError(
            f'module "{_importing.name}" calls {call} when it is imported, as each process of a run does: the call '
            'must be below `if __name__ == "__main__":`'
        )
