"""The connection of a run to a Ray cluster."""

import contextlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError, error_line
from headrace.fields import read_input

try:
    import ray
    from ray.exceptions import GetTimeoutError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise ConfigError(f"launcher is ray, which needs the package ray: pip install 'headrace[ray]' ({error})") from None

from headrace.launch.base import Site
from headrace.launch.ray.hosts import ServerHost, free_port
from headrace.launch.ray.launcher import RayLauncher
from headrace.servers import Endpoint
from headrace.servers.base import RECONNECT_SECONDS
from headrace.signals import held_back

if TYPE_CHECKING:
    from headrace.launch.ray.config import Ray

__all__ = ["open_cluster"]

_CONNECT_SECONDS = 5.0
_SERVER_SECONDS = 60.0
_SHUTDOWN_SECONDS = 30.0
_TALKATIVE = ("ray._private.worker", "ray._private.authentication.authentication_token_setup")
"""Loggers of Ray that would warn that it can't handle SIGTERM in this thread, and tell of the token that it makes."""
_NOT_UPLOADED = ["runs", ".git", ".venv", "build", "__pycache__"]


def _require_listener(address: str) -> None:
    """Raises ConfigError if nothing listens at HOST:PORT; Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
            return
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"ray_address is {address}; it must be auto, HOST:PORT or ray://HOST:PORT of a Ray cluster: {error}"
        ) from None


@contextlib.contextmanager
def open_cluster(config: "Ray") -> Iterator[Site]:
    """Connects to a cluster, or starts one on this machine, which ends with the context.

    A separate thread does both: in the main one Ray would replace the handler of SIGTERM. It lives as long as the
    cluster, whose processes the kernel kills with the thread that started them.
    """
    connect = not ray.is_initialized()
    launchers: list[RayLauncher] = []

    def make_launcher(endpoint: Endpoint, logs: Path) -> RayLauncher:
        launchers.append(RayLauncher(endpoint, logs, config, own=own))
        return launchers[-1]

    ends = contextlib.ExitStack()
    thread = ThreadPoolExecutor(1, "ray")
    try:
        own = connect and _connect(config, thread)
        if config.server_node is not None:
            server, notices = ends.enter_context(_server(config, config.server_node))
            yield Site(make_launcher, server=server, notices=notices)
        elif own:
            yield Site(make_launcher)  # one machine: a Unix socket is faster, and needs no secret
        else:
            yield Site(make_launcher, f"tcp://{_own_address(config)}:0", secrets.token_hex(32), RECONNECT_SECONDS)
    finally:
        with contextlib.ExitStack() as last:
            last.callback(thread.shutdown, wait=False)
            if connect:
                last.enter_context(contextlib.suppress(TimeoutError))  # it may still be connecting
                last.callback(lambda: thread.submit(ray.shutdown).result(_SHUTDOWN_SECONDS))
            last.callback(ends.close)
            for launcher in launchers:
                launcher.close()


@contextlib.contextmanager
def _server(config: "Ray", address: str) -> Iterator[tuple[Endpoint, tuple[str, ...]]]:
    """A server on the node with this address, which Ray restarts there if its process dies; with its notices."""
    nodes = [each["NodeID"] for each in ray.nodes() if each["Alive"] and each["NodeManagerAddress"] == address]
    if not nodes:
        known = ", ".join(sorted({each["NodeManagerAddress"] for each in ray.nodes() if each["Alive"]}))
        raise ConfigError(f"server_node is {address}; it must be the address of a node of the cluster: {known}")
    here = {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(nodes[0], soft=False)}
    token = secrets.token_hex(32)
    patience = max(_SERVER_SECONDS, config.wait_seconds)  # a runtime environment to install, experience to check
    try:
        port = ray.get(ray.remote(free_port).options(**here).remote(address), timeout=patience)
        listened = f"tcp://{address}:{port}"
        host = ray.remote(ServerHost).options(**here, max_restarts=-1)
        server = host.remote(listened, token, str(config.server_data or ""))
        found = tuple(ray.get(server.notices.remote(), timeout=patience))
    except GetTimeoutError:
        raise ConfigError(
            f"the server on node {address} has not started within {patience:.0f} s; a larger --wait-seconds is required"
        ) from None
    except RayError as error:
        raise ConfigError(f"the server can't be started on node {address}: {error_line(error)}") from None
    yield Endpoint(listened, "default", reconnect_seconds=RECONNECT_SECONDS, token=token), found
    try:
        notices = [each for each in ray.get(server.close.remote(), timeout=_SERVER_SECONDS) if each not in found]
    except RayError as error:
        notices = [f"the server on node {address} did not end in order: {error_line(error)}"]
    for notice in notices:
        with contextlib.suppress(OSError):
            print(f"headrace: warning: {notice}", file=sys.stderr, flush=True)
    ray.kill(server)


def _connect(config: "Ray", thread: Executor) -> bool:
    """Connects this process to the cluster; returns whether the cluster was started for it."""
    address = config.ray_address or os.environ.get("RAY_ADDRESS") or None
    if address not in (None, "auto", "local"):
        _require_listener(str(address))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here sends no statistics
    logging.getLogger("ray").setLevel(logging.WARNING)
    options: dict[str, Any] = {}
    if not str(address).startswith("ray://"):
        options |= {"include_dashboard": False, "configure_logging": False}
    if config.ray_runtime_env is not None:
        options["runtime_env"] = _read_runtime_env(config.ray_runtime_env)
    copied = {"runtime_env": {"working_dir": os.getcwd(), "excludes": _NOT_UPLOADED}}
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" in os.environ:  # its runtime environment is given to the job
        copied = {}
    if address is None:
        with contextlib.suppress(ConnectionError):  # there is none on this machine
            _init(thread, "auto", copied | options)
            return False
    own = address in (None, "local")
    _init(thread, address or "local", options if own else copied | options)
    return own


def _init(thread: Executor, address: str, options: dict[str, Any]) -> None:
    """Calls ray.init(). An interrupt counts when it has started a cluster, whose processes would remain otherwise."""
    whole = held_back() if address == "local" else contextlib.nullcontext()
    try:
        with _quiet(*_TALKATIVE), whole:
            thread.submit(ray.init, address=address, log_to_driver=False, **options).result()
    except ConnectionError as error:
        if address == "auto":
            raise
        raise _unusable(address, error) from None
    except (ValueError, TypeError, RuntimeError, OSError, RayError) as error:
        raise _unusable(address, error) from None


@contextlib.contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """A context in which these loggers report errors only."""
    logs = [logging.getLogger(name) for name in names]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _unusable(address: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"the Ray cluster at {address} can't be used (--ray-address, --ray-runtime-env): {error_line(error)}"
    )


def _read_runtime_env(path: Path) -> dict[str, Any]:
    import yaml  # a dependency of ray

    text = read_input("ray_runtime_env", path, "a YAML file")
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"ray_runtime_env is {path}; it can't be read: {error_line(error)}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"ray_runtime_env is {path}; it must be a YAML file of a Ray runtime environment's fields")
    return content


def _own_address(config: "Ray") -> str:
    """This machine's IP address as the cluster sees it."""
    address = config.ray_address or os.environ.get("RAY_ADDRESS", "")
    if not address.startswith("ray://"):
        return str(ray.util.get_node_ip_address())
    host, _, port = address.removeprefix("ray://").rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS) as connection:
        return str(connection.getsockname()[0])
