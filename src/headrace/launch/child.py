"""The process of one role; the launcher gives it kind, index, generation, endpoint and its own process id."""

import ctypes
import os
import signal
import sys
import traceback
from types import FrameType

from headrace.errors import ClosedError, HeadraceError
from headrace.launch.base import last_words
from headrace.launch.processes import FAULT_STATUS
from headrace.launch.run_role import run_role
from headrace.roles.base import Role, Stop
from headrace.servers import Endpoint

_PR_SET_PDEATHSIG = 1


def _die_with(parent: int) -> None:
    """Has the kernel kill this process when its parent dies (Linux)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Runs the role until SIGTERM, or until the server is gone."""
    kind, index, generation, endpoint, parent = sys.argv[1:]
    _die_with(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    stop = Stop()

    def finish(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        raise ClosedError("asked to stop")  # out of any wait; what is unsent is sent on the way

    signal.signal(signal.SIGTERM, finish)
    try:
        run_role(Role(kind, int(index), sys.stdin.read(), int(generation)), Endpoint.from_json(endpoint), stop)
    except ClosedError:
        pass
    except HeadraceError as error:
        print(error, file=sys.stderr)
        sys.exit(FAULT_STATUS)
    except Exception as error:
        traceback.print_exc()
        print(last_words(error), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
