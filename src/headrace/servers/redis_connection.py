"""A Redis as its callers need it: one address, one way to wait, one line for each thing that goes wrong."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit

from headrace.errors import ClosedError, ConfigError, HeadraceError, StorageError
from headrace.replay.remote import read_token
from headrace.servers.base import Endpoint, shown

if TYPE_CHECKING:
    import redis

__all__ = ["RedisAddress", "RedisConnection"]

T = TypeVar("T")

_PORT = 6379
_TIMEOUT_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_PIPELINE = "of pipeline caused error: "  # redis-py puts the command before it, of which nobody needs to hear
_READ_BYTES = 1 << 18  # as much of a chunk as one read of the socket may bring


class RedisAddress(NamedTuple):
    """Where a Redis is; as text without its password."""

    host: str
    port: int
    database: int
    user: str
    password: str

    @staticmethod
    def parse(text: str) -> "RedisAddress":
        """Reads redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]; raises ConfigError, which repeats no password."""
        with contextlib.suppress(ValueError):  # urlsplit's own of a host or a port
            url = urlsplit(text)
            database = url.path.removeprefix("/") or "0"
            port = url.port or _PORT
            plain = url.scheme == "redis" and not url.query and not url.fragment
            if plain and url.hostname and database.isdecimal() and database.isascii():
                user, password = unquote(url.username or ""), unquote(url.password or "")
                return RedisAddress(url.hostname, port, int(database), user, password)
        raise ConfigError(
            f"server is {shown(text)}; an address of Redis must be redis://[:PASSWORD@]HOST[:PORT][/DB], DB a number, "
            "with / ? # @ in the password as %2F %3F %23 %40"
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{quote(self.user)}@" if self.user else ""
        return f"redis://{user}{host}:{self.port}/{self.database}"


class RedisConnection:
    """Calls to one Redis, tried again while it is away; raises ConfigError, StorageError where none answers at first.

    Every method may be called from any thread. `first_seconds`: for how long the first call is tried.
    """

    def __init__(self, endpoint: Endpoint, first_seconds: float) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError as error:
            raise ConfigError(
                f'a redis:// server needs the client library ({error}): pip install "headrace[redis]"'
            ) from error
        self._redis = redis
        self.address = RedisAddress.parse(endpoint.address)
        self._reconnect_seconds = endpoint.reconnect_seconds
        self.outages = 0  # calls that had their answer after Redis was away
        self._reason: HeadraceError | None = None
        self._closed = threading.Event()
        self._pool = redis.ConnectionPool(
            host=self.address.host,
            port=self.address.port,
            db=self.address.database,
            username=self.address.user or None,
            password=self.address.password or _password(endpoint),
            protocol=2,
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            socket_read_size=_READ_BYTES,
            retry=Retry(NoBackoff(), 0),
        )
        self._client = redis.Redis(connection_pool=self._pool)
        try:
            self._try_for(first_seconds, lambda client: client.ping())
        except ClosedError as error:
            self.close()
            raise StorageError(str(error)) from error
        except HeadraceError:
            self.close()
            raise

    def call(self, work: Callable[[Any], T], *, patient: bool = True) -> T:
        """The answer to `work(client of redis-py)`, which must bear being done twice: it is, where an answer was lost.

        Where Redis is away, loading, or has no memory left, it is tried again for the endpoint's reconnect_seconds
        (not `patient`: once). Then, and for all other errors: ClosedError where Redis is gone, StorageError or
        ConfigError where it refuses, in one line with Redis's own words.
        """
        return self._try_for(self._reconnect_seconds if patient else 0.0, work)

    def wait(self, seconds: float) -> None:
        """Sleeps; raises ClosedError at once where this is closed meanwhile."""
        self._closed.wait(seconds)
        self._check()

    def close(self, reason: HeadraceError | None = None) -> None:
        """Ends calls that wait; they and all later ones raise `reason`, or ClosedError."""
        if not self._closed.is_set():
            self._reason = reason
            self._closed.set()
        self._pool.disconnect()

    def _try_for(self, seconds: float, work: Callable[[Any], T]) -> T:
        deadline: float | None = None
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self._check()
            try:
                answer = work(self._client)
                self.outages += deadline is not None
                return answer
            except Exception as error:
                self._check()  # what another thread closes breaks in many ways
                if not isinstance(error, self._redis.RedisError):
                    raise
                deadline = deadline or time.monotonic() + seconds
                left = deadline - time.monotonic()
                told = self._told(error)
                if left <= 0 or not self._passes(error):
                    raise told from error
            self.wait(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _check(self) -> None:
        if self._closed.is_set():
            raise self._reason or ClosedError(f"the connection to {self.address} is closed")

    def _passes(self, error: "redis.RedisError") -> bool:
        """Whether what is wrong may be over soon."""
        e = self._redis
        if isinstance(error, e.AuthenticationError | e.exceptions.AuthorizationError):
            return False
        return isinstance(error, e.ConnectionError | e.TimeoutError | e.ReadOnlyError) or _is_out_of_memory(error)

    def _told(self, error: "redis.RedisError") -> HeadraceError:
        """The error in our terms. Classes in the order in which redis-py derives them from each other."""
        e = self._redis
        said = str(error).rpartition(_PIPELINE)[2].rstrip(".") or type(error).__name__
        if isinstance(error, e.AuthenticationError | e.exceptions.AuthorizationError | e.exceptions.NoPermissionError):
            return ConfigError(f"{self.address} lets nobody in without the right password and permissions: {said}")
        if isinstance(error, e.InvalidResponse):
            return ConfigError(f"what answers at {self.address} is not a Redis: {said}")
        if "DB index" in said or "Invalid Database" in said:
            return ConfigError(f"{self.address} has no database {self.address.database}: {said}")
        if said.startswith("WRONGTYPE"):
            return ClosedError(f"the run at {self.address} is closed")
        if isinstance(error, e.ConnectionError | e.TimeoutError) and not isinstance(error, e.BusyLoadingError):
            return ClosedError(f"no Redis at {self.address}: {said}")
        hint = "; a larger maxmemory is required, or fewer actors" if _is_out_of_memory(error) else ""
        return StorageError(f"{self.address} refuses: {said}{hint}")


def _is_out_of_memory(error: Exception) -> bool:
    return "used memory > 'maxmemory'" in str(error)


def _password(endpoint: Endpoint) -> str | None:
    if not endpoint.token_file:
        return None
    try:
        return read_token(endpoint.token_file).decode()
    except UnicodeDecodeError:
        raise ConfigError(
            f"token_file is {endpoint.token_file}; a Redis's password must be text, and this file is not UTF-8"
        ) from None
