"""The command `headrace`: finds the subcommand, and turns errors into one line and an exit code."""

import difflib
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from headrace.errors import ConfigError, HeadraceError, LaunchError
from headrace.signals import held_back, interruptible

__all__ = ["main"]

_GROUPS = {
    "commands": {
        "train": "train a policy in an environment",
        "tune": "find good settings for training",
        "resume": "resume a run from its last checkpoint",
        "evaluate": "play greedy episodes with a run's policy",
        "report": "write a run's report, one HTML page",
        "dashboard": "show runs or a server in a browser, live",
        "export": "write a policy as an ONNX file",
        "check": "step an environment and say what is wrong, slow or unsupported",
        "simulate": "predict a run's speed on machines of other sizes",
        "presets": "show the default settings of each environment",
        "study": "reproduce a published comparison on this machine",
    },
    "several machines": {
        "serve": "run a server that holds experience and parameters",
        "learner": "train on a server, with separately started actors or workers",
        "actor": "act for a run on a server",
        "worker": "act and learn for a run on a server",
        "stats": "show a server's contents and activity",
        "drop": "remove a run from a server",
    },
}
_COMMANDS = [name for group in _GROUPS.values() for name in group]


def _listing() -> str:
    """The commands by group, as --help shows them."""
    return "\n\n".join(
        f"{title}:\n" + "\n".join(f"  {name:<10} {text}" for name, text in group.items())
        for title, group in _GROUPS.items()
    )


_HELP = f"""usage: headrace COMMAND [...]

Distributed deep reinforcement learning, from one command.

{_listing()}

options:
  -h, --help     show this help, or with a command the help of that command
  --version      show the version

examples:
  headrace train LunarLander-v3 --until-score 200
  headrace train CartPole-v1 --topology serial --steps 50k --seed 1
  headrace train CartPole-v1 --hidden 2048 2048 --precision int8
  headrace train LunarLander-v3 --help          every setting, with its default for LunarLander-v3
  headrace tune LunarLander-v3 --tune learning-rate=log:1e-4:1e-2 --parallel 2
  headrace evaluate RUN --episodes 100 --video landing.mp4
  headrace report RUN
  headrace dashboard runs
  headrace serve --listen tcp://10.0.0.1:7447 --token-file token --data experience
  headrace actor --server tcp://10.0.0.1:7447 --token-file token
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    0: done; 1: a process of the run failed, or the reader of the output closed it; 2: a mistake; 130: interrupted.
    """
    whole = arguments is None  # a process of this command only
    if whole:
        _open_standard_files()
    code = _report(list(sys.argv[1:] if arguments is None else arguments), last=whole)
    if whole:
        import_module("headrace.launch.leaving").leave_soon(code)
    return code


def _open_standard_files() -> None:
    """Opens those that the parent process has closed, or a file of the run would take what is written to them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _report(words: list[str], *, last: bool) -> int:
    """Runs one command, the process's last work or not, and turns errors into one line and an exit code."""
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (as long as the process)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        with interruptible(last=last):
            code = _run(words)
            sys.stdout.flush()
        return code
    except HeadraceError as error:
        print(f"headrace: error: {error}", file=sys.stderr)
        return 1 if isinstance(error, LaunchError) else 2
    except KeyboardInterrupt:
        print("headrace: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.filename is not None:
            print(f"headrace: error: {error.filename}: {error.strerror}", file=sys.stderr)
            return 2
        print(f"headrace: error: can't write the output: {error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(_HELP, end="")
        return 0
    if words[0] == "--version":
        print(f"headrace {import_module('importlib.metadata').version('headrace')}")
        return 0
    name, rest = words[0], words[1:]
    if name not in _COMMANDS:
        close = difflib.get_close_matches(name, _COMMANDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"the commands are {', '.join(_COMMANDS)}"
        raise ConfigError(f"{name} is not a command; {hint}")
    try:
        with held_back():
            command = import_module(f"headrace.cli.{name}")
        return int(command.run(rest))
    except SystemExit as end:  # after --help
        return end.code if isinstance(end.code, int) else int(end.code is not None)
