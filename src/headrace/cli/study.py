"""`headrace study`: reproduces a published comparison on this machine."""

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from headrace.cli.arguments import Positional, find_environment, flag_types, given_flags, parse, require_known
from headrace.errors import ConfigError
from headrace.report.display import say
from headrace.studies.base import Plan, Scale, Study
from headrace.studies.catalogue import STUDIES, find_study
from headrace.studies.run import read_origin, render_study, run_study

__all__ = ["run"]

_PROG = "headrace study"


@dataclass(frozen=True)
class _Options:
    scale: Scale = "small"
    """small takes a few minutes on two cores; full covers everything published and takes an hour or much more."""
    output: Path | None = None
    """Directory for the CSV files and the page; study-NAME if not set."""
    render: Path | None = None
    """Only make the page from the CSV files in this directory; takes no other option."""


@dataclass(frozen=True)
class _NamedOptions(_Options):
    name: Annotated[Positional[str], tyro.conf.arg(metavar="NAME")] = ""
    """Name of the study."""


def run(arguments: Sequence[str]) -> int:
    """Runs a study; returns the exit code."""
    words = list(arguments)
    flags = _every_flag()
    place = find_environment(words, flags, [study.name for study in STUDIES])
    if place is None:
        if {"-h", "--help"} & set(words):
            parse(_NamedOptions, ["--help"], prog=_PROG, description=_listing())  # exits here
        require_known(words, flags, _PROG)
        raise ConfigError(f"study needs a name: {_PROG} NAME, such as {STUDIES[0].name} (see {_PROG} --help)")
    study = find_study(words.pop(place))
    _require_own(words, study)
    renders = any(word.partition("=")[0] == "--render" for word in words)
    print(f"wrote {_render(study, words) if renders else _measure(study, words)}")
    return 0


def _measure(study: Study, words: Sequence[str]) -> Path:
    options = _parse(study, words)
    output = options.output or Path(f"study-{study.name}")
    return run_study(study, options.scale, output, options.own, say, partial(_plan_of, study))


def _render(study: Study, words: Sequence[str]) -> Path:
    """Writes the page from a directory's files; scale and options are those of the command that wrote them."""
    folder = _parse(study, words).render
    if len(words) != (1 if "=" in words[0] else 2):
        raise ConfigError(f"--render takes no other option; leave out everything but --render {folder}")
    origin = read_origin(study, folder)
    options = _parse(study, _words_of(origin.command))
    return render_study(study, options.scale, options.own, folder, origin, partial(_plan_of, study))


def _plan_of(study: Study, command: str) -> Plan:
    """The plan of a command; nothing if it is damaged, or has options that there are no more."""
    try:
        options = _parse(study, _words_of(command))
    except ConfigError:
        return {}
    return study.plan(options.scale, options.own)


def _words_of(command: str) -> list[str]:
    """The words after `headrace study NAME`; raises ConfigError for a damaged command, which a file had."""
    try:
        return shlex.split(command)[3:]
    except ValueError as error:
        raise ConfigError(f"command is {command!r:.100}; it must be a command of headrace study: {error}") from error


def _parse(study: Study, words: Sequence[str]) -> Any:
    return parse(_options_type(study.options), words, prog=f"{_PROG} {study.name}", description=f"{study.summary}.")


def _options_type(own: type[Any]) -> type[Any]:
    """The options of all studies and of this study."""
    own_field = ("own", Annotated[own, tyro.conf.arg(name="")], field(default_factory=own))
    return dataclasses.make_dataclass("StudyOptions", [own_field], bases=(_Options,), frozen=True)


def _listing() -> str:
    lines = []
    for each in STUDIES:
        own = " ".join(flag_types(each.options))
        lines.append(f"  {each.name}: {each.summary}" + (f"; options: {own}" if own else ""))
    studies = "\n".join(lines)
    return (
        f"Reproduce a published comparison on this machine and show both results side by side.\n\n{studies}\n\n"
        f"{_PROG} NAME --help shows the options of a study."
    )


def _every_flag() -> dict[str, Any]:
    flags = flag_types(_Options)
    for study in STUDIES:
        flags |= flag_types(study.options)
    return flags


def _require_own(words: Sequence[str], study: Study) -> None:
    """Raises ConfigError for an option that only other studies have."""
    own = {**flag_types(_Options), **flag_types(study.options)}
    given = given_flags(words)
    for other in STUDIES:
        foreign = [flag for flag in given if flag in flag_types(other.options) and flag not in own]
        if foreign:
            raise ConfigError(f"{foreign[0]} is an option of study {other.name}, not of {study.name}; leave it out")
