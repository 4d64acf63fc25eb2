"""Rules between packages that import contracts can't express."""

import ast
from pathlib import Path

import pytest

import headrace
from headrace.algorithms.config import Algorithm
from headrace.algorithms.registry import ALGORITHMS
from headrace.topologies.config import Topology
from headrace.topologies.registry import TOPOLOGIES

SOURCE = Path(headrace.__file__).parent


def names_of(kinds: list[type]) -> set[str]:
    """The classes and all their bases and subclasses in Headrace."""
    bases = {base for kind in kinds for base in kind.__mro__ if base.__module__.startswith("headrace.")}
    return {kind.__name__ for kind in bases}


def names_in(node: ast.AST) -> set[str]:
    """Names, and the attributes of modules such as `config.DQN`."""
    parts = list(ast.walk(node))
    names = {each.id for each in parts if isinstance(each, ast.Name)}
    return names | {each.attr for each in parts if isinstance(each, ast.Attribute)}


def is_call(node: ast.AST, *functions: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions


def asks(node: ast.AST) -> bool:
    """Whether code asks for a class: by a function, by comparing types, or by matching a pattern."""
    if isinstance(node, ast.Compare):
        return any(is_call(each, "type") for each in (node.left, *node.comparators))
    return isinstance(node, ast.MatchClass) or is_call(node, "isinstance", "issubclass")


def questions(source: str, names: set[str]) -> list[tuple[int, str]]:
    """Lines that ask whether an object is of one of these classes, and the class."""
    nodes = [node for node in ast.walk(ast.parse(source)) if asks(node)]
    return [(node.lineno, name) for node in nodes for name in sorted(names_in(node) & names)]  # type: ignore[attr-defined]


def outside(package: str, names: set[str]) -> list[str]:
    """Places outside of a package that ask."""
    files = [file for file in sorted(SOURCE.rglob("*.py")) if not file.is_relative_to(SOURCE / package)]
    return [f"{file.relative_to(SOURCE)}: {found}" for file in files for found in questions(file.read_text(), names)]


def test_only_algorithms_ask_which_algorithm_it_is() -> None:
    assert outside("algorithms", names_of([Algorithm, *ALGORITHMS.known().values()])) == []


def test_only_topologies_ask_which_topology_it_is() -> None:
    assert outside("topologies", names_of([Topology, *TOPOLOGIES.known().values()])) == []


CLOCKED = ("gradients", "parameters", "roles", "topologies", "training")
"""Packages whose code takes time, waits and threads from `headrace.clock`, so that a run can be simulated."""
MACHINE = {"concurrent.futures", "secrets", "threading", "time"}
EXCEPTIONS = {
    "training/hang_watch.py": {"threading"},  # asks which thread is the main thread
    "training/interrupts.py": {"threading"},  # signals are the machine's, and so is the patience with them
}


def machine_imports(source: str) -> set[str]:
    """The modules of MACHINE that code imports."""
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [each.name for node in imports if isinstance(node, ast.Import) for each in node.names]
    return MACHINE & {*names, *(node.module or "" for node in imports if isinstance(node, ast.ImportFrom))}


def test_roles_and_runs_take_time_and_threads_from_the_clock_only() -> None:
    files = [file for package in CLOCKED for file in sorted((SOURCE / package).rglob("*.py"))]
    found = {str(file.relative_to(SOURCE)): machine_imports(file.read_text()) for file in files}
    assert {name: modules for name, modules in found.items() if modules} == EXCEPTIONS


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import time", "time"),
        ("def f():\n  from time import sleep", "time"),
        ("import json, threading as t", "threading"),
        ("from concurrent.futures import Future", "concurrent.futures"),
    ],
)
def test_imports_of_the_machines_time_are_found(source: str, module: str) -> None:
    assert machine_imports(source) == {module}


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(a, DQN)",
        "isinstance(a, int | config.DQN)",
        "issubclass(type(a), (A3C, DQN))",
        "type(a) is DQN",
        "type(a) in (DQN,)",
        "match a:\n  case DQN():\n    pass",
    ],
)
def test_questions_are_found(source: str) -> None:
    assert [name for _, name in questions(source, {"DQN"})] == ["DQN"]
