"""What each module exports: that it is there and documented, and that the public packages forget nothing."""

import importlib
import inspect
import pkgutil
import re
from typing import Any

import pytest

import headrace

NATIVE = "headrace._native"  # documented in its .pyi, and its __all__ would be the compiler's
PROGRAMS = {"headrace.__main__", "headrace.launch.child"}  # run by name, never imported
MODULES = ["headrace", *sorted(m.name for m in pkgutil.walk_packages(headrace.__path__, "headrace."))]
LIBRARY = [name for name in MODULES if name != NATIVE and name not in PROGRAMS]


def public(module: str) -> dict[str, Any]:
    """Public classes and functions of ours in a module's namespace, by the names that they have there."""
    return {
        name: value
        for name, value in vars(importlib.import_module(module)).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith("headrace")
    }


def own_docstring(value: Any) -> str:
    """The written docstring: Python gives a dataclass or named tuple without one its signature instead."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    return "" if re.match(rf"{getattr(value, '__name__', '')}\(", text) else text


def undocumented(value: Any) -> list[str]:
    """Public methods and properties without a docstring that a class defines itself."""
    if not inspect.isclass(value):
        return []
    bodies = {
        name: body.fget if isinstance(body, property) else getattr(body, "__func__", body)
        for name, body in vars(value).items()
        if not name.startswith("_")
    }
    return [name for name, body in bodies.items() if inspect.isfunction(body) and not own_docstring(body)]


@pytest.mark.parametrize("module", MODULES)
def test_exported_names_are_importable(module: str) -> None:
    loaded = importlib.import_module(module)
    missing = [name for name in getattr(loaded, "__all__", []) if not hasattr(loaded, name)]
    assert missing == []


@pytest.mark.parametrize("package", ["headrace", "headrace.replay"])
def test_public_package_exports_what_it_imports(package: str) -> None:
    assert set(public(package)) - set(importlib.import_module(package).__all__) == set()


@pytest.mark.parametrize("module", LIBRARY)
def test_exported_names_are_documented(module: str) -> None:
    exported = getattr(importlib.import_module(module), "__all__", [])
    ours = {name: value for name, value in public(module).items() if name in exported and value.__module__ != NATIVE}
    assert [name for name, value in ours.items() if not own_docstring(value)] == []
    assert [(name, bare) for name, value in ours.items() if (bare := undocumented(value))] == []


def test_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'headrace' has no attribute 'trian'"):
        getattr(headrace, "trian")  # noqa: B009 (the type checker would object to the plain form)
