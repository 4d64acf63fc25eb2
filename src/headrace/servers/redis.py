"""A run on Redis, the published baseline: actors push chunks, the learner pulls them all and samples in its process.

Everything is under `headrace:RUN:`, and nothing but bytes and numbers is stored (no pickle):

    experience:TABLE   list of chunks, oldest first; the string "closed" once nobody reads them any more
    parameters:NAME    hash of version and bytes
    mailbox:NAME       list of messages, each behind its writer's number and its own
    taken:NAME         those of them that the learner reads
    claim:NAME         its owner's number, with a time to live that the owner renews
    mark               a random value that the learner changes: where it is another's, Redis was flushed or put back
"""

import contextlib
import itertools
import secrets
import struct
import threading
import time
from typing import Any
from urllib.parse import quote

from headrace._native import Signature
from headrace._native import Table as NativeTable
from headrace.errors import ChunkRefused, ClosedError, ConfigError, HeadraceError, ReplayError
from headrace.servers.base import LEARNER, Endpoint
from headrace.servers.pulled import PulledTable
from headrace.servers.redis_connection import RedisConnection

__all__ = ["RedisRoleServer", "RedisServer"]

_QUEUE_CHUNKS, _QUEUE_BYTES = 64, 64 << 20
"""What waits for the learner at most, and one chunk of every actor more."""
_PULL_CHUNKS = _QUEUE_CHUNKS // 2  # so that actors push while the learner takes in what it pulled
_MAILBOX_MESSAGES = 10_000
_SHORTEST_HOLD_SECONDS, _LONGEST_HOLD_SECONDS = 0.002, 0.05
_CLAIM_MILLISECONDS = 4_000
_RENEWAL_SECONDS = 1.0
_CLAIM_WAIT_SECONDS, _CLAIM_POLL_SECONDS = 5.0, 0.1
"""For how long a predecessor's claim may still be there."""
_CLOSED_SECONDS = 86_400
_LAST_WORDS_SECONDS = 60
_NUMBER = struct.Struct("<QQ")  # who sends it, and the how-manieth: what is sent again is known by it
_CHUNK_NUMBER, _CHUNK_HEADER_BYTES = 48, 64  # native/core/chunk.h: ChunkHeader.writer

# -> whether it was stored, and the version stored. The same once more is no error: an answer was lost.
_PUBLISH = """
local stored = redis.call('HGET', KEYS[1], 'version') or '0'
local version = ARGV[1]
if version == '0' then version = string.format('%.0f', tonumber(stored) + 1) end
if version == stored and redis.call('HGET', KEYS[1], 'bytes') == ARGV[2] then return {1, version} end
if tonumber(version) <= tonumber(stored) then return {0, stored} end
redis.call('HSET', KEYS[1], 'version', version, 'bytes', ARGV[2])
redis.call('PERSIST', KEYS[1])
return {1, version}
"""
# Takes or renews a claim. -> its owner
_CLAIM = """
local owner = redis.call('GET', KEYS[1]) or ARGV[1]
if owner == ARGV[1] then redis.call('SET', KEYS[1], owner, 'PX', ARGV[2]) end
return owner
"""
# Takes all messages there are, once those that were read last time are forgotten: writers trim what nobody took alone.
_TAKE = """
if ARGV[1] == '1' then redis.call('DEL', KEYS[2]) end
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAMENX', KEYS[1], KEYS[2]) end
return redis.call('LRANGE', KEYS[2], 0, -1)
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class _Run:
    """What both ends of a run do on Redis."""

    def __init__(self, endpoint: Endpoint, first_seconds: float) -> None:
        self._endpoint = endpoint
        self._connection = RedisConnection(endpoint, first_seconds)
        self._claims_lock = threading.Lock()  # guards _claims and _renewal, and orders renewals and releases
        self._claims: dict[str, bytes] = {}
        self._renewal: threading.Thread | None = None

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; see `ParameterStore`."""
        key = self._key("parameters", name)
        stored, number = self._connection.call(lambda client: client.eval(_PUBLISH, 1, key, version, data))
        if not stored:
            raise ReplayError(f"version of {name} is {version}; it must be above {int(number)}, the one stored")
        return int(number)

    def version(self, name: str) -> int:
        """That of a blob, without its bytes; 0 where there is none."""
        key = self._key("parameters", name)
        return int(self._connection.call(lambda client: client.hget(key, "version")) or 0)

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """A newer blob; see `ParameterStore`. No more than its version moves where it is not newer."""
        if self.version(name) <= newer_than:
            return None
        key = self._key("parameters", name)
        version, data = self._connection.call(lambda client: client.hmget(key, "version", "bytes"))
        return None if version is None else (int(version), data)

    def claim(self, name: str, owner: int) -> None:
        """Takes a name for as long as this is open; raises ReplayError where another owner holds it.

        That of an owner who went without a word is free 4 seconds later.
        """
        mine = str(owner).encode()
        if self._take(name, mine) != mine:
            raise ReplayError(f"{name} of run {self._endpoint.run} at {self._connection.address} has another owner")
        with self._claims_lock:
            self._claims[name] = mine
            if self._renewal is None:
                self._renewal = threading.Thread(target=self._renew, name="claims", daemon=True)
                self._renewal.start()

    def close(self) -> None:
        """Gives claims back and ends the connection, from any thread; a call that waits raises ClosedError."""
        with self._claims_lock:
            for name, owner in self._claims.items():
                with contextlib.suppress(HeadraceError):  # where Redis is gone, or this is closed already
                    self._release(name, owner)
            self._claims.clear()
        self._connection.close()

    def _key(self, *parts: str) -> str:
        return ":".join(("headrace", quote(self._endpoint.run, safe=""), *parts))  # no run's name begins another's

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
        with contextlib.suppress(HeadraceError):  # wait() raises once this is closed
            while True:
                self._connection.wait(_RENEWAL_SECONDS)
                with self._claims_lock:
                    for name, owner in self._claims.items():
                        holder = owner
                        with contextlib.suppress(HeadraceError):  # away; whoever else calls waits for it, or says so
                            holder = self._take(name, owner, patient=False)
                        if holder != owner:
                            gone = f"{name} of run {self._endpoint.run} at {self._connection.address}"
                            self._connection.close(ReplayError(f"{gone} was taken by another while it was away"))


class RedisRoleServer(_Run):
    """A run on Redis as one of its roles sees it; implements `RoleServer`."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, first_seconds=endpoint.reconnect_seconds)
        self._lock = threading.Lock()  # keeps chunks and messages in the order of their numbers
        self._writer = secrets.randbits(64) or 1
        self._numbers = itertools.count(1)

    def insert(self, table: str, *chunks: bytes) -> None:
        """Sends chunks, each once the learner's queue has room for it; their keys are not known."""
        for chunk in chunks:
            self._insert(table, chunk)

    def _insert(self, table: str, chunk: bytes) -> None:
        if len(chunk) < _CHUNK_HEADER_BYTES:
            raise ChunkRefused(f"chunk has {len(chunk)} bytes; it must have the {_CHUNK_HEADER_BYTES} of a header")
        key = self._key("experience", table)
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
        """Sends a message; where 10,000 wait already, the oldest goes."""
        key = self._key("mailbox", mailbox)
        with self._lock:
            numbered = _NUMBER.pack(self._writer, next(self._numbers)) + message

            def push(client: Any) -> None:
                both = client.pipeline(transaction=False)
                both.rpush(key, numbered)
                both.ltrim(key, -_MAILBOX_MESSAGES, -1)
                both.execute()

            self._connection.call(push)


class RedisServer(_Run):
    """A run on Redis as the training process sees it; implements `RunServer`. Holds the run's claim LEARNER.

    Raises ConfigError where another learner has the run, or where Redis would throw experience away by itself.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, first_seconds=0.0)
        self._tables: list[PulledTable] = []
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
        """How roles reach it."""
        return self._endpoint

    @property
    def keeps_experience(self) -> bool:
        """False: but for a short queue it is in this process."""
        return False

    def begin(self, *, fresh: bool) -> None:
        """Nothing yet: the table is what begins."""

    def add_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> PulledTable:
        """An empty table in this process, filled from Redis.

        All else that an earlier start of the run left there goes, and with `fresh` the chunks that nobody pulled too.
        """
        native = NativeTable(signature, **options)
        key = self._key("experience", name)
        if self._connection.call(lambda client: client.type(key)) == b"string":  # the closed one of an earlier start
            self._connection.call(lambda client: client.delete(key))
        self._drop(but=("claim", "mark") if fresh else ("claim", "mark", "experience"), patient=True)
        queue = _Queue(self._connection, key, _PULL_CHUNKS)
        table = PulledTable(native, queue.read, lambda: self._end(key))
        self._tables.append(table)
        return table

    def drain(self, mailbox: str) -> list[bytes]:
        """Messages that have arrived since the last call, each once."""
        messages = []
        with self._drain_lock:
            for numbered in self._take_messages(mailbox):
                writer, number = _NUMBER.unpack_from(numbered)
                if number > self._last_messages.get(writer, 0):
                    self._last_messages[writer] = number
                    messages.append(numbered[_NUMBER.size :])
        return messages

    def _take_messages(self, mailbox: str) -> list[bytes]:
        """What has arrived, the oldest first; all of it again where an answer was lost."""
        keys = self._key("mailbox", mailbox), self._key("taken", mailbox)

        def take(client: Any) -> list[bytes]:
            read = mailbox in self._read
            self._read.discard(mailbox)  # done twice, it would forget what nobody saw
            messages: list[bytes] = client.eval(_TAKE, 2, *keys, int(read))
            return messages

        messages = self._connection.call(take)
        self._read.add(mailbox)
        return messages

    def restarted(self) -> bool:
        """Whether Redis lost what was published: flushed, started anew, or an older copy took its place."""
        key, mark = self._key("mark"), secrets.token_hex(8).encode()

        def exchange(client: Any) -> tuple[bytes | None, bool]:
            both = client.pipeline(transaction=False)
            both.get(key)
            both.set(key, mark)
            before, written = both.execute(raise_on_error=False)
            if isinstance(before, Exception):
                raise before
            return before, written is True  # refused where there is no memory: then the old one stands

        before, written = self._connection.call(exchange)
        lost = before not in (self._mark, mark)  # this one: written by a try whose answer was lost
        if written:
            self._mark = mark
        return lost

    def outages(self) -> int:
        """How many calls had to be made again."""
        return self._connection.outages

    def close(self) -> None:
        """Ends tables, threads and the connection, and takes out of Redis what the run had there.

        What was published stays for a minute, so that whoever asks now and then reads the last of it.
        """
        for table in self._tables:
            table.close()
        try:
            self._drop(but=("claim", "experience", "parameters"), patient=False)
            self._connection.call(self._let_expire, patient=False)
        except HeadraceError:
            self._connection.close()  # Redis is gone: nothing is left to take out, nor to wait for
        super().close()

    def _claim_run(self, owner: int) -> None:
        deadline = time.monotonic() + _CLAIM_WAIT_SECONDS
        while True:
            try:
                return self.claim(LEARNER, owner)
            except ClosedError:
                raise
            except ReplayError:
                if time.monotonic() >= deadline:
                    raise ConfigError(
                        f"run is {self._endpoint.run}; it must be one without a learner on {self._connection.address}, "
                        "and another learner has this one: stop that, or take another name"
                    ) from None
            self._connection.wait(_CLAIM_POLL_SECONDS)

    def _end(self, key: str) -> None:
        """Puts an end to a list: pushing to a string is an error. For a day, so that no run stays there for ever."""

        def replace(client: Any) -> None:
            both = client.pipeline(transaction=False)  # one after the other: the first makes room for the second
            both.delete(key)
            both.set(key, "closed", ex=_CLOSED_SECONDS)
            both.execute()

        with contextlib.suppress(HeadraceError):  # where Redis is gone, actors see that too
            self._connection.call(replace, patient=False)

    def _drop(self, *, but: tuple[str, ...], patient: bool) -> None:
        """Takes the run's keys away, but those of these kinds."""
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
            return  # a user who may not ask; that Redis loses something is seen by its mark only
        policy = memory.get("maxmemory_policy", "noeviction")
        if memory.get("maxmemory", 0) and policy.startswith("allkeys"):
            raise ConfigError(
                f"maxmemory-policy of {self._connection.address} is {policy}; it must be noeviction: experience and "
                "policies would disappear from it without a word otherwise"
            )


class _Queue:
    """A list that one reader takes from. What was read goes with the next read, so that a lost answer loses nothing.

    Nobody else may take anything out of it.
    """

    def __init__(self, connection: RedisConnection, key: str, most: int) -> None:
        self._connection = connection
        self._key = key
        self._most = most
        self._seen = 0

    def read(self) -> list[bytes]:
        """What has arrived, the oldest first, up to so many; all of it again where an answer was lost."""

        def advance(client: Any) -> list[bytes]:
            seen, self._seen = self._seen, 0  # done twice, it would take what nobody saw
            both = client.pipeline(transaction=False)  # no MULTI: without memory Redis refuses whatever is in one
            both.ltrim(self._key, seen, -1)
            both.lrange(self._key, 0, self._most - 1)
            found: list[bytes] = both.execute()[1]
            return found

        found = self._connection.call(advance)
        self._seen = len(found)
        return found
