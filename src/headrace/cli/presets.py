"""`headrace presets`: shows the preset of each environment."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from headrace.algorithms.config import Algorithm
from headrace.algorithms.registry import ALGORITHMS
from headrace.cli.arguments import Positional, Switch, parse
from headrace.errors import require
from headrace.settings import PRESETS, Preset, preset, presets_of
from headrace.topologies.registry import TOPOLOGIES

__all__ = ["run"]

_PIPE_COLUMNS = 120  # if the output is not a terminal
_MOST_PRESETS = 5  # in one table


@dataclass(frozen=True)
class _Options:
    environment: Annotated[Positional[str | None], tyro.conf.arg(metavar="[ENV]")] = None
    """Environment whose preset is shown in full."""
    algorithm: str | None = None
    """Algorithm whose presets are shown; by default those of all, or with ENV the environment's default."""
    frugal: Switch = False
    """Show the presets that need few environment steps."""


def run(arguments: Sequence[str]) -> int:
    """Prints the table; returns the exit code."""
    options = parse(
        _Options, arguments, prog="headrace presets", description="Show the settings that each environment starts from."
    )
    name = options.environment
    require("environment", ascii(name), name is None or (name != "" and name.isprintable()), "a name")
    console = Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS, highlight=False)
    if options.environment is None:
        shown: set[str] = set()
        for algorithm in [options.algorithm] if options.algorithm else ALGORITHMS.known():
            presets = presets_of(algorithm, frugal=options.frugal)
            names = list(presets)
            for begin in range(0, len(names), _MOST_PRESETS):
                chosen = names[begin : begin + _MOST_PRESETS]
                console.print(_compare(algorithm, {each: presets[each] for each in chosen}))
            shown |= set(presets)
        if not shown:
            kind = "frugal presets" if options.frugal else "presets"
            command = f"headrace train ENV --algorithm {options.algorithm} --help"
            console.print(f"{options.algorithm} has no {kind}; `{command}` shows its defaults")
            return 0
        console.print("· as the default; `headrace presets ENV` shows one in full")
        for name, each in PRESETS.items():
            if name in shown:
                console.print(f"{name}: {each.note}")
    else:
        one = preset(options.environment, options.algorithm, frugal=options.frugal)
        console.print(f"{options.environment}: {one.note}", markup=False)
        console.print(_one(one))
        console.print(f"each is a flag; `headrace train {options.environment} --help` says what it means", markup=False)
    return 0


def _compare(algorithm: str, presets: Mapping[str, Preset]) -> Table:
    """All presets of one algorithm side by side: the settings that differ from the default in any of them."""
    table = Table(pad_edge=False)
    table.add_column(f"{algorithm} setting", no_wrap=True)
    table.add_column("default", justify="right", style="dim")
    for environment in presets:
        table.add_column(environment.replace("/", "/\n"), justify="right")
    table.add_row("steps", "", *(f"{each.steps:,}" for each in presets.values()), end_section=True)
    for part, default in _parts(ALGORITHMS.find(algorithm)()):
        for field in fields(default):
            usual = getattr(default, field.name)
            values = [getattr(_part(each, part), field.name) for each in presets.values()]
            if any(value != usual for value in values):
                shown = [_show(value) if value != usual else "[dim]·[/dim]" for value in values]
                table.add_row(_label(part, field.name), _show(usual), *shown)
    return table


def _one(chosen: Preset) -> Table:
    """One preset in full; settings that differ from the defaults are highlighted."""
    table = Table(pad_edge=False)
    table.add_column("setting", no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("default", justify="right", style="dim")
    table.add_row("steps", f"[bold]{chosen.steps:,}[/bold]", "", end_section=True)
    for part, default in _parts(type(chosen.algorithm)()):
        for field in fields(default):
            value, usual = getattr(_part(chosen, part), field.name), getattr(default, field.name)
            shown = _show(value) if value == usual else f"[bold]{_show(value)}[/bold]"
            table.add_row(_label(part, field.name), shown, _show(usual))
        table.add_section()
    return table


def _parts(default: Algorithm) -> list[tuple[str, Any]]:
    """The parts of a preset and their defaults; of the topologies the algorithm's default and serial."""
    topologies = dict.fromkeys((default.default_topology, "serial"))
    return [("algorithm", default), *((name, TOPOLOGIES.find(name)()) for name in topologies)]


def _part(chosen: Preset, name: str) -> Any:
    return chosen.algorithm if name == "algorithm" else chosen.topology(name)


def _label(part: str, name: str) -> str:
    flag = "--" + name.replace("_", "-")
    return flag if part == "algorithm" else f"{flag} ({part})"


def _show(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_show, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else "auto" if value is None else str(value)
