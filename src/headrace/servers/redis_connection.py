"""A connection to Redis: one address, one retry rule, and a one-line error for every failure."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit

from headrace.errors import ClosedError, ConfigError, HeadraceError, ServerError, StorageError
from headrace.servers.base import Endpoint, shown

if TYPE_CHECKING:
    import redis

__all__ = ["RedisAddress", "RedisConnection"]

T = TypeVar("T")

_PORT = 6379
_TIMEOUT_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_PIPELINE = "of pipeline caused error: "  # redis-py puts the command before this text; it is not shown
_READ_BYTES = 1 << 18  # one socket read may return this much of a chunk


class RedisAddress(NamedTuple):
    """Address of a Redis; str() omits the password."""

    host: str
    port: int
    database: int
    user: str
    password: str

    @staticmethod
    def parse(text: str) -> "RedisAddress":
        """Reads redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]; raises ConfigError, which repeats no password."""
        with contextlib.suppress(ValueError):  # for a bad host or port, or a name that no host can have
            url = urlsplit(text)
            (url.hostname or "").encode("idna")
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
    """Calls to one Redis, retried while it is unavailable; raises ConfigError, or StorageError if it never answered.

    Every method may be called from any thread. `first_seconds` is how long the first call is retried.
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
        self.outages = 0  # calls that were answered after an outage
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
        """Returns `work(client of redis-py)`, which must be idempotent: it is repeated if an answer was lost.

        While Redis is unavailable, loading or out of memory, the call is retried for the endpoint's reconnect_seconds
        (without `patient`: not retried). After that, and for all other errors, raises ClosedError if Redis is gone, and
        StorageError or ConfigError if it refuses, in one line with Redis's own message.
        """
        return self._try_for(self._reconnect_seconds if patient else 0.0, work)

    def wait(self, seconds: float) -> None:
        """Sleeps; raises ClosedError immediately if the connection is closed in the meantime."""
        self._closed.wait(seconds)
        self._check()

    def close(self, reason: HeadraceError | None = None) -> None:
        """Ends waiting calls; they and all later calls raise `reason`, or ClosedError."""
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
                self._check()  # a connection closed by another thread fails in many ways
                if not isinstance(error, self._redis.RedisError):
                    raise
                deadline = deadline or time.monotonic() + seconds
                left = deadline - time.monotonic()
                translated = self._translate(error)
                if left <= 0 or not self._passes(error):
                    raise translated from error
            self.wait(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _check(self) -> None:
        if self._closed.is_set():
            raise self._reason or ClosedError(f"the connection to {self.address} is closed")

    def _passes(self, error: "redis.RedisError") -> bool:
        """Whether an error may be temporary."""
        e = self._redis
        if isinstance(error, e.AuthenticationError | e.exceptions.AuthorizationError):
            return False
        read_only = isinstance(error, e.ReadOnlyError) or "-READONLY" in str(error)  # of a script, before Redis 7
        return read_only or isinstance(error, e.ConnectionError | e.TimeoutError) or _is_out_of_memory(error)

    def _translate(self, error: "redis.RedisError") -> HeadraceError:
        """The error as a HeadraceError. Checks classes in the order of redis-py's inheritance."""
        e = self._redis
        said = str(error).rpartition(_PIPELINE)[2].rstrip(".") or type(error).__name__
        if isinstance(error, e.AuthenticationError | e.exceptions.AuthorizationError | e.exceptions.NoPermissionError):
            return ConfigError(f"{self.address} requires the right password and permissions: {said}")
        if isinstance(error, e.InvalidResponse):
            return ConfigError(f"what answers at {self.address} is not a Redis: {said}")
        if "DB index" in said or "Invalid Database" in said:
            return ConfigError(f"{self.address} has no database {self.address.database}: {said}")
        if said.startswith("TAKEN") or "WRONGTYPE" in said:  # before Redis 7 a script's error begins with its place
            return self._ended(said)
        if isinstance(error, e.ConnectionError | e.TimeoutError) and not isinstance(error, e.BusyLoadingError):
            return ClosedError(f"no Redis at {self.address}: {said}")
        hint = "; a larger maxmemory is required, or fewer actors" if _is_out_of_memory(error) else ""
        return StorageError(f"{self.address} refuses: {said}{hint}")

    def _ended(self, said: str) -> HeadraceError:
        """What the scripts say of a run that this end does not have any more, and a list of a run that is closed."""
        if said.startswith("TAKEN"):
            return ServerError(f"the run at {self.address} was taken by another learner during an outage")
        return ClosedError(f"the run at {self.address} is closed")


def _is_out_of_memory(error: Exception) -> bool:
    return "used memory > 'maxmemory'" in str(error)


def _password(endpoint: Endpoint) -> str | None:
    secret = endpoint.secret()
    try:
        return None if secret is None else secret.decode()
    except UnicodeDecodeError:
        raise ConfigError(
            f"token_file is {endpoint.token_file}; a Redis's password must be text, and this file is not UTF-8"
        ) from None
