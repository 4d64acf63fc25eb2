"""Rules of the house that import contracts can't express."""

import ast
from pathlib import Path

import headrace
from headrace.algorithms.config import Algorithm
from headrace.algorithms.registry import known_algorithms
from headrace.topologies.config import TOPOLOGIES, Topology

SOURCE = Path(headrace.__file__).parent


def names_of(kinds: list[type]) -> set[str]:
    """The classes and all their bases and subclasses in Headrace."""
    bases = {base for kind in kinds for base in kind.__mro__ if base.__module__.startswith("headrace.")}
    return {kind.__name__ for kind in bases}


def questions(room: str, names: set[str]) -> list[str]:
    """Places outside of `room` that ask whether an object is of one of these classes."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        if file.is_relative_to(SOURCE / room):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            asks = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("isinstance", "issubclass")
            )
            compares = isinstance(node, ast.Compare) and any(
                isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "type"
                for each in (node.left, *node.comparators)
            )
            if asks or compares:
                used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                found += [f"{file.relative_to(SOURCE)}:{node.lineno}: {name}" for name in sorted(used & names)]
    return found


def test_only_algorithms_ask_which_algorithm_it_is() -> None:
    assert questions("algorithms", names_of([Algorithm, *known_algorithms().values()])) == []


def test_only_topologies_ask_which_topology_it_is() -> None:
    assert questions("topologies", names_of([Topology, *TOPOLOGIES.values()])) == []


def test_questions_are_found() -> None:
    assert any("topologies/" in place for place in questions("algorithms", names_of([*TOPOLOGIES.values()])))
