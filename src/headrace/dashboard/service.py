"""Serves the page to browsers until it is interrupted."""

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from headrace.dashboard.application import make_application
from headrace.dashboard.runs import RunsFolder
from headrace.dashboard.server_monitor import ServerMonitor
from headrace.dashboard.sites import RunsSite, ServerSite, Site
from headrace.errors import ConfigError

__all__ = ["require_token", "runs_site", "serve", "server_site"]

_GRACE_SECONDS = 2


def require_token(host: str, token: bytes | None) -> None:
    """Raises ConfigError for a host beyond loopback without a token."""
    if token is None and not _is_loopback(host):
        raise ConfigError(
            f"host is {host!a}, which other machines can reach; add --page-token-file FILE, "
            "or leave --host out to listen on this machine only"
        )


def runs_site(root: Path) -> Site:
    """The runs of a folder."""
    return RunsSite(RunsFolder(root))


@contextlib.contextmanager
def server_site(address: str, token: bytes | None) -> Iterator[Site]:
    """A context in which a server is watched; raises HeadraceError for one that refuses, and an address that can't be.

    A server that does not answer may come later.
    """
    with contextlib.closing(ServerMonitor(address, token)) as monitor:
        monitor.start()
        yield ServerSite(monitor)


def serve(site: Site, host: str, port: int, token: bytes | None, announce: Callable[[str], None]) -> None:
    """Serves a site until SIGINT or SIGTERM; `announce` gets the page's address.

    Raises ConfigError if the address can't be used.
    """
    require_token(host, token)
    listener = _listen(host, port)
    with contextlib.closing(listener):
        server: uvicorn.Server
        application = make_application(site, token, ending=lambda: server.should_exit)
        server = uvicorn.Server(
            uvicorn.Config(
                application,
                log_level="warning",
                access_log=False,
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        name = f"[{host}]" if ":" in host else host
        announce(f"http://{name}:{listener.getsockname()[1]}/")
        server.run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"dashboard can't listen on {host!a}, port {port}: {reason}") from error


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
