"""The one tree of errors.

HeadraceError
├── ConfigError            a setting or argument that can never work
├── EnvironmentFault       an environment that is unknown, unsupported or misbehaves
├── ReplayError            experience that can't be stored or read
│   ├── ChunkRefused       a chunk that does not fit its table
│   └── CorruptFile        a file with invalid bytes
├── ServerError            a request that the server refuses or can't answer
│   └── ClosedError        the table, server or connection is closed
├── StorageError           the operating system refused: no space, no permission
├── CheckpointError        a run directory or checkpoint that can't be used
├── DivergenceError        training whose numbers are no longer finite
└── LaunchError            a process of the run that failed

A message names the field, the value and the requirement. The command line prints it as one line and exits with 2.
"""

import sysconfig
import traceback
from pathlib import Path

__all__ = [
    "CheckpointError",
    "ChunkRefused",
    "ClosedError",
    "ConfigError",
    "CorruptFile",
    "DivergenceError",
    "EnvironmentFault",
    "HeadraceError",
    "LaunchError",
    "ReplayError",
    "ServerError",
    "StorageError",
    "error_line",
    "require",
]


class HeadraceError(Exception):
    """Any error that Headrace raises on purpose."""


class ConfigError(HeadraceError):
    """A setting or an argument that can never work."""


class EnvironmentFault(HeadraceError):
    """An environment that is unknown, unsupported or misbehaves."""


class ReplayError(HeadraceError):
    """Experience that can't be stored or read."""


class ChunkRefused(ReplayError):
    """A chunk that does not fit the table it was sent to."""


class CorruptFile(ReplayError):
    """A file, a packed policy, or settings in a request, with invalid bytes."""


class ServerError(HeadraceError):
    """A request that the server refuses or can't answer.

    Another owner has the name, the version is too low, a token or the memory budget does not allow it, there is no such
    table or shard, or one side breaks the protocol.
    """


class ClosedError(ServerError):
    """The table, server or connection is closed."""


class StorageError(HeadraceError):
    """The operating system refused: no space, no permission, no such file."""


class CheckpointError(HeadraceError):
    """A run directory or checkpoint that can't be used as asked."""


class DivergenceError(HeadraceError):
    """Training whose loss or parameters are no longer finite."""


class LaunchError(HeadraceError):
    """A process of the run that failed."""


def require(field: str, value: object, holds: bool, required: str) -> None:
    """Raises ConfigError, in the form that all settings share, unless `holds`."""
    if not holds:
        shown = "''" if isinstance(value, str) and not value else value
        raise ConfigError(f"{field} is {shown}; it must be {required}")


_PATHS = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
_NOT_A_USERS = (*_PATHS, str(Path(__file__).parent), "<")
"""How the paths of files begin that no user of the library wrote."""


def error_line(error: BaseException) -> str:
    """An unexpected exception as one line, with the line of a user's code that led to it, and its notes."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(_NOT_A_USERS)]
    place = [f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}"] if frames else []
    notes = "; ".join([*place, *getattr(error, "__notes__", [])])
    text = " ".join(str(error).split())
    return type(error).__name__ + (f": {text}" if text else "") + (f" ({notes})" if notes else "")
