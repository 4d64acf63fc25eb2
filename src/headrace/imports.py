"""Imports a user's modules."""

import importlib
import os
import sys
from types import ModuleType

__all__ = ["import_user_module"]


def import_user_module(name: str) -> ModuleType:
    """Imports a module, which may be in the current directory; may raise anything, as the module may."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:  # `python -m` adds it; an installed command does not
        sys.path.insert(0, here)
    return importlib.import_module(name)
