"""Ends a process in which an environment has run."""

import os
import sys
import threading

from headrace.launch.watcher import Family

__all__ = ["leave_soon"]

_GRACE_SECONDS = 5.0


def leave_soon(status: int, *, quiet: bool = False) -> None:
    """Ends this process with `status` in 5 seconds if threads or exit functions keep it from ending earlier.

    Must be called last. A process that ends this way kills the processes it started and, unless `quiet`, prints one
    line.
    """
    timer = threading.Timer(_GRACE_SECONDS, _leave, (status, quiet))
    timer.daemon = True
    timer.start()


def _leave(status: int, quiet: bool) -> None:
    family = Family([os.getpid()])
    family.scan()
    family.end()
    main = threading.main_thread()
    names = sorted(thread.name for thread in threading.enumerate() if not thread.daemon and thread is not main)
    what = f"thread {', '.join(names)} has" if names else "a function registered with atexit has"
    if sys.stderr is not None and not quiet:
        print(f"headrace: warning: {what} not ended {_GRACE_SECONDS:.0f} s after the rest", file=sys.stderr, flush=True)
    os._exit(status)
