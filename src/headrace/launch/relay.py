"""Fetches every policy once for all actors on a host."""

import threading

from headrace.clock import new_event
from headrace.errors import ClosedError, HeadraceError, LaunchError, error_line
from headrace.roles.handles import PolicyHandle
from headrace.servers import EmbeddedServer, Endpoint, RoleServer

__all__ = ["Relay"]

_POLL_SECONDS = 0.01
"""Interval between polls for a newer policy, each of which is one small request."""
_CLOSE_SECONDS = 5.0


class Relay:
    """A server in this process with the run's newest policy, and a thread that fetches each version once.

    Versions are the run's and only increase, so a restarted learner needs a new relay. The relay owns its connection
    `server` and closes it. Any thread may call it.
    """

    def __init__(self, server: RoleServer, policy: PolicyHandle) -> None:
        self._server = server
        self._policy = policy
        self._local = EmbeddedServer()
        self._policy_version = self._news_version = 0  # newest versions published here; used only by the thread
        self._error: HeadraceError | None = None
        self._stop = new_event()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> Endpoint:
        """Where actors on this host find policies and their news as on the run's server, and nothing else."""
        return self._local.endpoint

    def check(self) -> None:
        """Raises the error that ended the thread: ClosedError if the run's server is gone, else LaunchError."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends the thread, the connection and the server; actors that still use it get a ClosedError."""
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
            reason = str(error) if isinstance(error, HeadraceError) else error_line(error)
            self._error = LaunchError(f"newer policies can't be forwarded to the actors on this host: {reason}")

    def _pass_on(self) -> bool:
        """Publishes newer versions here, the policy before its news; returns whether there were any."""
        news = self._server.fetch(self._policy.news, self._news_version)
        if news is None:
            return False
        if news[0] > self._policy_version:
            policy = self._server.fetch(self._policy.name, news[0] - 1)
            if policy is None:
                return False  # the server was restarted between the two fetches
            self._local.publish(self._policy.name, policy[1], policy[0])
            self._policy_version = policy[0]  # may be newer than the news, which will follow
        self._local.publish(self._policy.news, news[1], news[0])
        self._news_version = news[0]
        return True
