"""A run on Redis, the published baseline: actors push chunks; the learner pulls them all and samples in its process.

All keys start with `headrace:RUN:`. Only bytes and numbers are stored (no pickle):

    queue:TABLE              a random value, which names the list that is read: another for each table of this name
    experience:TABLE:QUEUE   list of chunks, oldest first; the string "closed" once the list is no longer read
    parameters:NAME          hash of version and bytes
    mailbox:NAME             list of messages, each preceded by its writer's number and its own
    taken:NAME               the messages that the learner is reading
    claim:NAME               its owner's number, with a time to live that the owner renews
    mark                     a random value that the learner changes; another one shows a flush, or an older copy
"""

import contextlib
import itertools
import secrets
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from headrace._native import Signature
from headrace.errors import ChunkRefused, ClosedError, ConfigError, HeadraceError, ServerError
from headrace.servers.base import LEARNER, Endpoint, RoleServer, RunServer
from headrace.servers.pulled import PulledTable
from headrace.servers.redis_connection import RedisConnection

__all__ = ["RedisRoleServer", "RedisServer"]

_QUEUE_CHUNKS, _QUEUE_BYTES = 64, 64 << 20
"""Maximum queue length for the learner; every actor may exceed it by one chunk."""
_PULL_CHUNKS = _QUEUE_CHUNKS // 2  # half, so that actors push while the learner inserts
_MAILBOX_MESSAGES = 10_000
_SHORTEST_HOLD_SECONDS, _LONGEST_HOLD_SECONDS = 0.002, 0.05
_CLAIM_MILLISECONDS = 4_000
_RENEWAL_SECONDS = 1.0
_CLAIM_WAIT_SECONDS, _CLAIM_POLL_SECONDS = 5.0, 0.1
"""How long a predecessor's claim may remain."""
_NO_QUEUE = b"0"
"""The list into which roles push while there is no `queue`, such as after a flush."""
_CLOSED_SECONDS = 86_400
_LAST_WORDS_SECONDS = 60
_NUMBER = struct.Struct("<QQ")  # sender and sequence number, to recognize repeated messages
_CHUNK_NUMBER, _CHUNK_HEADER_BYTES = 48, 64  # native/core/chunk.h: ChunkHeader.writer

# A learner that lost its claim in an outage leaves everything to the next one. KEYS and ARGV end with the claim and its
# owner, who is "" for the roles.
_OWNED = """
local owner = redis.call('GET', KEYS[#KEYS])
if ARGV[#ARGV] ~= '' and owner and owner ~= ARGV[#ARGV] then return redis.error_reply('TAKEN by another learner') end
"""
# -> whether it was stored, and the stored version. A repetition is not an error, since an answer may have been lost.
_PUBLISH = f"""{_OWNED}
local stored = redis.call('HGET', KEYS[1], 'version') or '0'
local version = ARGV[1]
if version == '0' then version = string.format('%.0f', tonumber(stored) + 1) end
if version == stored and redis.call('HGET', KEYS[1], 'bytes') == ARGV[2] then return {{1, version}} end
if tonumber(version) <= tonumber(stored) then return {{0, stored}} end
redis.call('HSET', KEYS[1], 'version', version, 'bytes', ARGV[2])
redis.call('PERSIST', KEYS[1])
return {{1, version}}
"""
# Takes or renews a claim. -> its owner
_CLAIM = """
local owner = redis.call('GET', KEYS[1]) or ARGV[1]
if owner == ARGV[1] then redis.call('SET', KEYS[1], owner, 'PX', ARGV[2]) end
return owner
"""
# Takes all messages, after deleting those that the last call read: writers trim only the mailbox.
_TAKE = f"""{_OWNED}
if ARGV[1] == '1' then redis.call('DEL', KEYS[2]) end
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAMENX', KEYS[1], KEYS[2]) end
return redis.call('LRANGE', KEYS[2], 0, -1)
"""
# Replaces the mark, unless memory is full. -> the mark before, and whether it was replaced
_EXCHANGE = f"""{_OWNED}
local before = redis.call('GET', KEYS[1])
local set = redis.pcall('SET', KEYS[1], ARGV[1])
return {{before, set.ok and 1 or 0}}
"""
# Ends a list: pushing to a string is an error. It expires, and so does the name of the queue, if that is this list's.
# In this order, since the first command frees memory for the second.
_END = f"""{_OWNED}
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], 'closed', 'EX', ARGV[2])
if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('EXPIRE', KEYS[2], ARGV[2]) end
"""
_TRIM = f"""{_OWNED}
redis.call('LTRIM', KEYS[1], ARGV[1], -1)
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class _Run:
    """Operations on Redis that both ends of a run share."""

    def __init__(self, endpoint: Endpoint, first_seconds: float) -> None:
        self._endpoint = endpoint
        self._connection = RedisConnection(endpoint, first_seconds)
        self._claims_lock = threading.Lock()  # guards _claims and _renewal; orders renewals and releases
        self._claims: dict[str, bytes] = {}
        self._renewal: threading.Thread | None = None
        self._owner = b""  # of the claim LEARNER; roles have no part in it

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; see `ParameterStore`."""
        key = self._key("parameters", name)
        stored, number = self._connection.call(lambda client: self._owned(client, _PUBLISH, [key], version, data))
        if not stored:
            raise ServerError(f"version of {name} is {version}; it must be above {int(number)}, the one stored")
        return int(number)

    def version(self, name: str) -> int:
        """The version of a blob, without its bytes; 0 if there is none."""
        key = self._key("parameters", name)
        return int(self._connection.call(lambda client: client.hget(key, "version")) or 0)

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """A newer blob; see `ParameterStore`. Transfers only the version if the blob is not newer."""
        if self.version(name) <= newer_than:
            return None
        key = self._key("parameters", name)
        version, data = self._connection.call(lambda client: client.hmget(key, "version", "bytes"))
        return None if version is None else (int(version), data)

    def claim(self, name: str, owner: int) -> None:
        """Claims a name until this object is closed; raises ServerError if another owner holds it.

        The claim of an owner that ended without releasing it expires after 4 seconds.
        """
        mine = str(owner).encode()
        if self._take(name, mine) != mine:
            raise ServerError(f"{name} of run {self._endpoint.run} at {self._connection.address} has another owner")
        with self._claims_lock:
            self._claims[name] = mine
            if self._renewal is None:
                self._renewal = threading.Thread(target=self._renew, name="claims", daemon=True)
                self._renewal.start()

    def close(self) -> None:
        """Releases claims and closes the connection, from any thread; a waiting call raises ClosedError."""
        with self._claims_lock:
            for name, owner in self._claims.items():
                with contextlib.suppress(HeadraceError):  # Redis may be gone, or this object closed
                    self._release(name, owner)
            self._claims.clear()
        self._connection.close()

    def _key(self, *parts: str) -> str:
        return ":".join(("headrace", quote(self._endpoint.run, safe=""), *parts))  # no run's name is another's prefix

    def _owned(self, client: Any, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        """Runs a script that begins with _OWNED."""
        names = *keys, self._key("claim", LEARNER)
        return client.eval(script, len(names), *names, *arguments, self._owner)

    def _queue(self, table: str) -> bytes:
        key = self._key("queue", table)
        return self._connection.call(lambda client: client.get(key)) or _NO_QUEUE

    def _list(self, table: str, queue: bytes) -> str:
        return self._key("experience", table, queue.decode())

    def _take(self, name: str, owner: bytes, *, patient: bool = True) -> bytes:
        key = self._key("claim", name)
        holder: bytes = self._connection.call(
            lambda client: client.eval(_CLAIM, 1, key, owner, _CLAIM_MILLISECONDS), patient=patient
        )
        return holder

    def _release(self, name: str, owner: bytes) -> None:
        key = self._key("claim", name)
        self._connection.call(lambda client: client.eval(_RELEASE, 1, key, owner), patient=False)

    def _renew(self) -> None:
        with contextlib.suppress(HeadraceError):  # wait() raises once this object is closed
            while True:
                self._connection.wait(_RENEWAL_SECONDS)
                with self._claims_lock:
                    for name, owner in self._claims.items():
                        holder = owner
                        with contextlib.suppress(HeadraceError):  # unavailable; other calls wait for it or report it
                            holder = self._take(name, owner, patient=False)
                        if holder != owner:
                            gone = f"{name} of run {self._endpoint.run} at {self._connection.address}"
                            self._connection.close(ServerError(f"{gone} was taken by another owner during an outage"))


class RedisRoleServer(_Run, RoleServer):
    """A run on Redis as one of its roles sees it."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, first_seconds=endpoint.reconnect_seconds)
        self._lock = threading.Lock()  # keeps chunks and messages in numerical order
        self._writer = secrets.randbits(64) or 1
        self._numbers = itertools.count(1)
        self._lists: dict[str, str] = {}  # by table

    def insert(self, table: str, *chunks: bytes) -> None:
        """Sends chunks, each followed by a wait for space in the learner's queue; returns no keys.

        All go into the queue that the first found: ClosedError once a new run, or another start, has replaced it.
        """
        for chunk in chunks:
            self._insert(table, chunk)

    def _insert(self, table: str, chunk: bytes) -> None:
        if len(chunk) < _CHUNK_HEADER_BYTES:
            raise ChunkRefused(f"chunk has {len(chunk)} bytes; it must have the {_CHUNK_HEADER_BYTES} of a header")
        key = self._lists.get(table) or self._lists.setdefault(table, self._list(table, self._queue(table)))
        most = max(1, min(_QUEUE_CHUNKS, _QUEUE_BYTES // len(chunk)))
        numbered = bytearray(chunk)
        with self._lock:
            _NUMBER.pack_into(numbered, _CHUNK_NUMBER, self._writer, next(self._numbers))
            length = self._connection.call(lambda client: client.rpush(key, memoryview(numbered)))
        hold = _SHORTEST_HOLD_SECONDS
        while length > most:
            self._connection.wait(hold)
            hold = min(2 * hold, _LONGEST_HOLD_SECONDS)
            length = self._connection.call(lambda client: client.llen(key))

    def put(self, mailbox: str, message: bytes) -> None:
        """Sends a message; if 10,000 are waiting, the oldest is dropped."""
        key = self._key("mailbox", mailbox)
        with self._lock:
            numbered = _NUMBER.pack(self._writer, next(self._numbers)) + message

            def push(client: Any) -> None:
                both = client.pipeline(transaction=False)
                both.rpush(key, numbered)
                both.ltrim(key, -_MAILBOX_MESSAGES, -1)
                both.execute()

            self._connection.call(push)


class RedisServer(_Run, RunServer):
    """A run on Redis as the training process sees it. Holds the run's claim LEARNER.

    Raises ConfigError if another learner has the run, or if Redis would evict experience.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, first_seconds=0.0)
        self._tables: list[PulledTable] = []
        self._queues: dict[str, bytes] = {}  # by table
        self._read: set[str] = set()  # mailboxes whose taken messages were read
        self._last_messages: dict[int, int] = {}
        self._drain_lock = threading.Lock()  # guards _read and _last_messages
        self._mark = b""
        try:
            self._require_no_eviction()
            self._claim_run(secrets.randbits(63))
            self.restarted()
        except BaseException:
            super().close()
            raise

    @property
    def endpoint(self) -> Endpoint:
        """How roles connect to it."""
        return self._endpoint

    @property
    def serves_samples(self) -> bool:
        """False: only this process samples."""
        return False

    def add_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> PulledTable:
        """An empty table in this process, filled from Redis.

        The first one drops all other data of the run's earlier starts, and with `fresh` also chunks that were not
        pulled; what actors of these send later is refused.
        """
        earlier = self._queue(name)
        fresh = fresh or self._connection.call(lambda client: client.type(self._list(name, earlier))) == b"string"
        self._queues[name] = secrets.token_hex(8).encode() if fresh else earlier
        queue = _Queue(self._connection, self._list(name, self._queues[name]), _PULL_CHUNKS, self._owned)
        table = PulledTable(signature, queue.read, lambda: self._end(name, self._queues[name]), **options)
        if not self._tables:
            self._drop(but=("claim", "mark") if fresh else ("claim", "mark", "experience", "queue"), patient=True)
        self._open_queue(name, earlier)
        self._tables.append(table)
        return table

    def drain(self, mailbox: str) -> list[bytes]:
        """Messages that have arrived since the last call, each once."""
        messages = []
        with self._drain_lock:
            for numbered in self._take_messages(mailbox):
                if len(numbered) < _NUMBER.size:
                    raise ServerError(
                        f"{self._key('mailbox', mailbox)} has a message of {len(numbered)} bytes, which is not of this "
                        f"run: at least {_NUMBER.size} are required, and no other programs that write to the run's keys"
                    )
                writer, number = _NUMBER.unpack_from(numbered)
                if number > self._last_messages.get(writer, 0):
                    self._last_messages[writer] = number
                    messages.append(numbered[_NUMBER.size :])
        return messages

    def _take_messages(self, mailbox: str) -> list[bytes]:
        """Messages that have arrived, oldest first; repeats them if an answer was lost."""
        keys = self._key("mailbox", mailbox), self._key("taken", mailbox)

        def take(client: Any) -> list[bytes]:
            read = mailbox in self._read
            self._read.discard(mailbox)  # a repeated call must not delete unread messages
            messages: list[bytes] = self._owned(client, _TAKE, keys, int(read))
            return messages

        messages = self._connection.call(take)
        self._read.add(mailbox)
        return messages

    def restarted(self) -> bool:
        """Whether Redis lost published data: it was flushed, restarted, or replaced by an older copy."""
        key, mark = self._key("mark"), secrets.token_hex(8).encode()
        before, written = self._connection.call(lambda client: self._owned(client, _EXCHANGE, [key], mark))
        lost = before not in (self._mark, mark)  # `mark` itself: written by an attempt whose answer was lost
        if lost:
            for name in self._queues:
                self._open_queue(name, self._queue(name))
        if written:
            self._mark = mark
        return lost

    def outages(self) -> int:
        """Number of calls that succeeded after a retry."""
        return self._connection.outages

    def close(self) -> None:
        """Ends tables, threads and the connection, and removes the run's data from Redis.

        Published blobs remain for a minute, so that roles that poll rarely can read the last ones. All of it remains if
        another learner has the run.
        """
        for table in self._tables:
            table.close()
        try:
            if self._take(LEARNER, self._owner, patient=False) == self._owner:
                self._drop(but=("claim", "experience", "parameters", "queue"), patient=False)
                self._connection.call(self._let_expire, patient=False)
        except HeadraceError:
            self._connection.close()  # Redis is gone: there is nothing to remove
        super().close()

    def _claim_run(self, owner: int) -> None:
        deadline = time.monotonic() + _CLAIM_WAIT_SECONDS
        while True:
            try:
                self.claim(LEARNER, owner)
                self._owner = str(owner).encode()
                return
            except ClosedError:
                raise
            except ServerError:
                if time.monotonic() >= deadline:
                    raise ConfigError(
                        f"run is {self._endpoint.run}; it must be one without a learner on {self._connection.address}, "
                        "and another learner has this one: stop that, or take another name"
                    ) from None
            self._connection.wait(_CLAIM_POLL_SECONDS)

    def _open_queue(self, table: str, earlier: bytes) -> None:
        """Lets roles push into the table's queue, and ends an earlier one, which some may still have."""
        key, queue = self._key("queue", table), self._queues[table]
        self._connection.call(lambda client: client.set(key, queue))
        if earlier != queue:
            self._end(table, earlier)

    def _end(self, table: str, queue: bytes) -> None:
        """Ends a queue, for a day."""
        keys = self._list(table, queue), self._key("queue", table)
        with contextlib.suppress(HeadraceError):  # if Redis is gone, actors notice that too
            self._connection.call(lambda client: self._owned(client, _END, keys, queue, _CLOSED_SECONDS), patient=False)

    def _drop(self, *, but: tuple[str, ...], patient: bool) -> None:
        """Removes the run's keys except those of these kinds."""
        kept = tuple(self._key(kind).encode() for kind in but)

        def sweep(client: Any) -> None:
            keys = [key for key in client.scan_iter(self._key("*"), count=1000) if not key.startswith(kept)]
            if keys:
                client.unlink(*keys)

        self._connection.call(sweep, patient=patient)

    def _let_expire(self, client: Any) -> None:
        for key in client.scan_iter(self._key("parameters", "*"), count=1000):
            client.expire(key, _LAST_WORDS_SECONDS)

    def _require_no_eviction(self) -> None:
        try:
            memory = self._connection.call(lambda client: client.info("memory"))
        except ConfigError:
            return  # not permitted; then only the mark shows that Redis lost data
        policy = memory.get("maxmemory_policy", "noeviction")
        if memory.get("maxmemory", 0) and policy.startswith("allkeys"):
            raise ConfigError(
                f"maxmemory-policy of {self._connection.address} is {policy}; it must be noeviction: otherwise "
                "it would silently discard experience and policies"
            )


class _Queue:
    """A list with a single reader. Items are removed with the next read, so that a lost answer loses nothing.

    No other reader may remove items. `owned` runs scripts, which fail once the run has another owner.
    """

    def __init__(self, connection: RedisConnection, key: str, most: int, owned: Callable[..., Any]) -> None:
        self._connection = connection
        self._key = key
        self._most = most
        self._owned = owned
        self._seen = 0

    def read(self) -> list[bytes]:
        """Returns at most `most` arrived items, oldest first; repeats them if an answer was lost."""

        def advance(client: Any) -> list[bytes]:
            seen, self._seen = self._seen, 0  # a repeated call must not remove unread items
            both = client.pipeline(transaction=False)  # no MULTI: Redis refuses it without free memory
            self._owned(both, _TRIM, [self._key], seen)
            both.lrange(self._key, 0, self._most - 1)
            found: list[bytes] = both.execute()[1]
            return found

        found = self._connection.call(advance)
        self._seen = len(found)
        return found
