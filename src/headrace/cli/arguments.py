"""Fills a dataclass from a command line with tyro; every mistake is one ConfigError."""

import contextlib
import dataclasses
import difflib
import io
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import tyro
from tyro.conf import FlagCreatePairsOff, Positional
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from headrace.errors import ConfigError
from headrace.settings import ServerConfig
from headrace.values import parse_count, parse_duration, parse_number, parse_size

__all__ = [
    "Address",
    "Assignments",
    "Environment",
    "MetricsListen",
    "Period",
    "Positional",
    "Run",
    "RunName",
    "SavePeriod",
    "Seconds",
    "ServerOptions",
    "Size",
    "Switch",
    "TimeLimit",
    "find_environment",
    "flag_of",
    "flag_types",
    "given_flags",
    "parse",
    "repeating",
    "require_known",
]

T = TypeVar("T")

_FLAG_NAMES = {
    "time_limit_seconds": "time-limit",
    "period_seconds": "period",
    "shard_save_period_seconds": "shard-save-period",
    "algorithm_name": "algorithm",
    "topology_name": "topology",
    "launcher_name": "launcher",
    "address": "server",
}
"""Fields whose flags have other names."""


def _word(convert: Callable[[str], Any], metavar: str) -> PrimitiveConstructorSpec[Any]:
    """A type written as one word; None is shown as "none", and a whole number without ".0"."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: convert(words[0]),
        is_instance=lambda value: value is None or isinstance(value, int | float | str | Path),
        str_from_instance=lambda value: [_shown(value)],
    )


def _shown(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "none" if value is None else str(value)


_ENVIRONMENTS = (
    "Gymnasium id, a task of a suite (dm_control/DOMAIN-TASK, ALE/GAME for Atari, minatar/GAME, minigrid/TASK, "
    "bsuite/EXPERIMENT/NUMBER), vector/ID or envpool/ID, or package.module:factory."
)
Environment = Annotated[Positional[str], tyro.conf.arg(metavar="ENV", help=_ENVIRONMENTS)]
"""The environment, a command's first argument."""
Run = Annotated[Positional[Path], tyro.conf.arg(metavar="RUN")]
"""The run directory, a command's first argument."""
Address = Annotated[Positional[str], tyro.conf.arg(metavar="ADDRESS")]
"""The server, a command's first argument."""
RunName = Annotated[Positional[str], tyro.conf.arg(metavar="RUN")]
"""The name of a run on a server."""
TimeLimit = Annotated[float | None, _word(parse_duration, "TIME"), tyro.conf.arg(name="time-limit")]
"""Seconds, written 90, 90s, 10m or 2h."""
Seconds = Annotated[float, _word(parse_duration, "TIME")]
"""Seconds, written likewise."""
Period = Annotated[Seconds, tyro.conf.arg(name="period")]
"""The same for an interval."""
SavePeriod = Annotated[Seconds, tyro.conf.arg(name="shard-save-period")]
"""The same for saves of shards."""
Size = Annotated[int | None, _word(parse_size, "SIZE")]
"""Bytes, written 512M, 8G or 1.5GiB."""
MetricsListen = Annotated[str | None, _word(str, "[HOST:]PORT")]
"""Where metrics are served."""
Switch = FlagCreatePairsOff[bool]
"""False unless the flag is given."""
Assignments = Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="NAME=VALUES")]
"""The values of a flag that may be given several times, each time with one value."""


@dataclasses.dataclass(frozen=True)
class ServerOptions(ServerConfig):
    """The server of a run as flags."""

    address: Annotated[str | None, tyro.conf.arg(name="server")] = None
    """Separate server: tcp://HOST:PORT, unix:PATH, dpdk:KIND,... (docs/bypass.md), or redis://HOST:PORT[/DB]."""

    def to_config(self) -> ServerConfig:
        """The same settings for a run."""
        return ServerConfig(self.address, self.run, self.token_file)


_WORDS = (Environment, Run, Address, RunName)
"""Types of positional arguments."""
_REGISTRY = ConstructorRegistry()


@_REGISTRY.primitive_rule
def _words(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Types written as one word; whole numbers may be 200k or 1e6."""
    if info.type in (int, int | None):
        return _word(parse_count, "N")
    if info.type in (float, float | None):
        return _word(parse_number, "X")
    if info.type == str | None:
        return _word(str, "TEXT")
    return _word(Path, "PATH") if info.type == Path | None else None


def parse(kind: type[T], arguments: Sequence[str], *, prog: str, description: str, default: T | None = None) -> T:
    """Fills `kind` from the arguments; --help prints the help and exits with 0. Raises ConfigError for any mistake."""
    require_known(arguments, flag_types(kind), prog)
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                kind,
                prog=prog,
                args=list(arguments),
                description=description,
                default=tyro.MISSING_NONPROP if default is None else default,
                registry=_REGISTRY,
            )
    except SystemExit as end:
        if not end.code:
            raise
        raise ConfigError(f"{_first_paragraph(complaint.getvalue())} (see {prog} --help)") from None


def flag_types(kind: type) -> dict[str, Any]:
    """The flags of a dataclass and their types, such as "--n-step": int; nested dataclasses are included."""
    flags: dict[str, Any] = {}
    hints = get_type_hints(kind, include_extras=True)
    types = get_type_hints(kind)
    for name in (field.name for field in dataclasses.fields(kind)):
        plain = types[name]
        if isinstance(plain, type) and dataclasses.is_dataclass(plain):
            flags |= flag_types(plain)
        elif hints[name] not in _WORDS:
            flags["--" + _FLAG_NAMES.get(name, name.replace("_", "-"))] = str if hints[name] == Assignments else plain
    return flags


def flag_of(word: str) -> str:
    """The flag of a word: --n_step=3 as --n-step."""
    return word.partition("=")[0].replace("_", "-")


def given_flags(words: Sequence[str]) -> list[str]:
    """The words as flags, in alphabetical order: --no-double as --double."""
    return sorted({re.sub("^--no-", "--", flag_of(word)) for word in words})


def require_known(arguments: Sequence[str], flags: dict[str, Any], prog: str) -> None:
    """Raises ConfigError for the first unknown flag, with a similar flag as a suggestion."""
    for word in arguments:
        flag, (_, equals, value) = flag_of(word), word.partition("=")
        if flags.get(re.sub("^--no-", "--", flag)) is bool:
            if equals:
                raise ConfigError(f"{flag} takes no value, but {value} is given; write {flag} alone")
            continue
        if flag in flags or flag in ("-h", "--help") or not re.match(r"-[^\d.]", word):
            continue
        close = difflib.get_close_matches(flag, flags, n=1)
        hint = f"did you mean {close[0]}?" if close else f"{prog} --help lists the options"
        raise ConfigError(f"{flag} is not an option of {prog}; {hint}")


def find_environment(arguments: Sequence[str], flags: dict[str, Any], names: Collection[str] = ()) -> int | None:
    """Position of the environment among the arguments: the first word that is neither a flag nor a flag's value.

    A flag with several string values takes all words up to the next flag or to one of `names`, the possible values of
    the word.
    """
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if not word.startswith("-"):
            return index
        kind = flags.get(word.replace("_", "-"))  # None for "--flag=value" too, which takes no other word
        index += 1
        if get_origin(kind) is tuple:
            texts = str in get_args(kind)
            while index < len(arguments) and _is_value(arguments[index], texts, names):
                index += 1
        elif kind not in (None, bool):
            index += 1
    return None


def _is_value(word: str, texts: bool, names: Collection[str]) -> bool:
    """Whether a flag with several values takes a word: a number or, if its values are strings, any word but `names`."""
    if texts:
        return not word.startswith("-") and word not in names
    return re.fullmatch(r"[\d.,_]+(e[+-]?\d+)?[a-z]*", word, re.IGNORECASE) is not None


def repeating(arguments: Sequence[str], directory: str) -> list[str]:
    """The arguments that repeat a run, without --quiet and `directory`, a flag whose value must be another."""
    flag = directory.replace("-", "[-_]")
    text = re.sub(rf"(^|\0)--{flag}(=|\0)[^\0]*", "", "\0".join(arguments))
    return [word for word in text.strip("\0").split("\0") if word != "--quiet"]


def _first_paragraph(box: str) -> str:
    """The text of tyro's error box in one line: the part between its title and the rule before the repeated help.

    The title is part of the frame or, if the output is not UTF-8, above a rule of hyphens.
    """
    lines: list[str] = []
    inside = False
    for line in re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines():
        text = line.strip("│ ")
        if re.fullmatch(r"[─-]{3,}|[╭╰].*", text):
            if inside:
                break
            inside = True
        elif inside:
            lines.append(text)
    text = re.sub(r"^Missing from .*?: (\S+) .*\(required\)", r"\1 is missing", " ".join(lines))
    return text.removeprefix("Error parsing ").rstrip(". ")
