"""One fetch of every policy for all the actors of a host."""

import threading

from headrace.errors import ClosedError, HeadraceError, LaunchError
from headrace.launch.base import last_words
from headrace.roles.base import NEWS, POLICY, Stop
from headrace.servers import EmbeddedServer, Endpoint, RoleServer

__all__ = ["Relay"]

_POLL_SECONDS = 0.01
"""Between looks for a newer policy, each of which is one small request."""
_CLOSE_SECONDS = 5.0


class Relay:
    """A server in this process that has the run's newest policy, and a thread that fetches each version once.

    Versions are the run's and only rise: a learner that is started anew needs another relay. `server` is a connection
    of the relay's own, which it closes. Any thread may call it.
    """

    def __init__(self, server: RoleServer) -> None:
        self._server = server
        self._local = EmbeddedServer()
        self._policy_version = self._news_version = 0  # of the newest here; only the thread uses them
        self._error: HeadraceError | None = None
        self._stop = Stop()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> Endpoint:
        """Where actors of this host find POLICY and NEWS as on the run's server, and nothing else."""
        return self._local.endpoint

    def check(self) -> None:
        """Raises what ended the thread: ClosedError where the run's server is gone, LaunchError for all else."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends thread, connection and server; actors that still ask it get a ClosedError."""
        self._stop.set()
        self._server.close()  # the thread may be waiting for it
        self._thread.join(_CLOSE_SECONDS)
        self._local.close()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if not self._pass_on():
                    self._stop.wait(_POLL_SECONDS)
        except ClosedError as error:
            self._error = error
        except Exception as error:
            reason = str(error) if isinstance(error, HeadraceError) else last_words(error)
            self._error = LaunchError(f"newer policies can't be passed on to the actors here: {reason}")

    def _pass_on(self) -> bool:
        """Publishes here what is newer there, the policy before its news; whether there was anything."""
        news = self._server.fetch(NEWS, self._news_version)
        if news is None:
            return False
        if news[0] > self._policy_version:
            policy = self._server.fetch(POLICY, news[0] - 1)
            if policy is None:
                return False  # the server was started anew between the two
            self._local.publish(POLICY, policy[1], policy[0])
            self._policy_version = policy[0]  # which may be newer than the news: they follow
        self._local.publish(NEWS, news[1], news[0])
        self._news_version = news[0]
        return True
