"""The data plane (C++): tables, parameters, mailboxes, the server that holds them, and a client of it.

Conversion only: every wait and every copy runs without the GIL. Waits take `timeout_seconds` (None: for ever) and
return None or False at the deadline. Errors are the exceptions of `headrace.errors`, raised by kind:
kInvalid -> ConfigError, kRefused/kNotFound/kMalformed -> ServerError, kClosed -> ClosedError, kSystem -> StorageError,
kChunkRefused -> ChunkRefused, kMismatch -> ReplayError, kCorrupt -> CorruptFile.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

def join_bytes(parts: list[bytes | memoryview]) -> bytes:
    """The parts, one after another. Raises ConfigError if one is not bytes or contiguous bytes-like."""

LARGEST_CODE: int
"""The largest code of a weight in 8 bits."""

def quantize(weights: NDArray[np.float32], codes: NDArray[np.int8], scales: NDArray[np.float32]) -> None:
    """Writes codes [I, O] and scales [O] of weights [O, I]. Raises ConfigError for another shape or type."""

class Signature:
    def __init__(
        self,
        observation_shape: Sequence[int],
        observation_dtype: str,
        action_shape: Sequence[int] = (),
        action_dtype: str = "int64",
        stack: int = 1,
    ) -> None: ...
    @staticmethod
    def decode(text: str) -> Signature: ...
    def encode(self) -> str: ...
    @property
    def observation_shape(self) -> tuple[int, ...]: ...
    @property
    def observation_dtype(self) -> str: ...
    @property
    def action_shape(self) -> tuple[int, ...]: ...
    @property
    def action_dtype(self) -> str: ...
    @property
    def stack(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

class BatchView:
    """Nine arrays of one batch, checked once (shape, dtype, C order, writable) and then reused; it keeps them alive."""

    def __init__(
        self,
        signature: Signature,
        observation: NDArray[Any],
        next_observation: NDArray[Any],
        action: NDArray[Any],
        reward: NDArray[np.float32],
        discount: NDArray[np.float32],
        weight: NDArray[np.float32],
        probability: NDArray[np.float32],
        key: NDArray[np.uint64],
        policy_version: NDArray[np.uint64],
    ) -> None: ...

class ChunkWriter:
    def __init__(
        self, signature: Signature, *, n_step: int = 1, discount: float = 0.99, chunk_steps: int = 50, actor: int = 0
    ) -> None: ...
    def start(self, observation: NDArray[Any]) -> None: ...
    def append(
        self,
        action: Any,
        reward: float,
        observation: NDArray[Any],
        terminated: bool,
        truncated: bool,
        chosen_value: float = ...,
        greedy_value: float = ...,
        final_greedy_value: float = ...,
    ) -> None: ...
    def flush(self) -> None: ...
    def set_policy_version(self, version: int) -> None: ...
    def take(self) -> list[bytes]: ...
    @property
    def finished(self) -> int: ...

def append_steps(
    writers: list[ChunkWriter],
    action: NDArray[Any],
    reward: NDArray[np.float32],
    observation: NDArray[Any],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    next_start: NDArray[Any],
    value: NDArray[np.float32] | None = None,
    final_greedy_value: NDArray[np.float32] | None = None,
) -> list[bytes]: ...

class Table:
    def __init__(
        self,
        signature: Signature,
        *,
        capacity: int = 1_000_000,
        capacity_bytes: int = 0,
        sampler: str = "prioritized",
        priority_exponent: float = 0.6,
        samples_per_insert: float = 0.0,
        limiter_tolerance: float = 0.0,
        min_size: int = 1,
        seed: int = 0,
        path: str = "",
    ) -> None: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def capacity(self) -> int: ...
    @property
    def size(self) -> int: ...
    def insert(self, chunk: bytes | bytearray, timeout_seconds: float | None = None) -> int | None: ...
    def sample_into(
        self, batch: BatchView, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool: ...
    def update_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> int: ...
    def set_paused(self, paused: bool) -> None: ...
    def close(self) -> None: ...
    def reopen(self) -> None: ...
    def save(self, path: str) -> None: ...
    def restore(self, path: str) -> None: ...
    def stats(self) -> dict[str, float]: ...

class BatchAhead:
    def __init__(self, table: Table, buffers: Sequence[BatchView], importance_exponent: float) -> None: ...
    def next(self, timeout_seconds: float | None = None) -> int | None: ...
    def release(self, index: int) -> None: ...
    def set_importance_exponent(self, importance_exponent: float) -> None: ...
    def close(self) -> None: ...

class Server:
    def __init__(
        self,
        *,
        data: str = "",
        memory_bytes: int = 0,
        token: bytes | None = None,
        shard_save_seconds: float = 1.0,
        max_connections: int = 4096,
    ) -> None:
        """`data`: a directory that keeps tables and shards; `memory_bytes` 0: no bound; `token`: required over TCP.

        `shard_save_seconds`: interval between two saves of a shard in `data`. `max_connections`: at least 1; a further
        connection is closed with an error.
        """
    @property
    def instance(self) -> int: ...
    def notices(self) -> list[str]:
        """Warnings: files of `data` that the start set aside, experience and updates that are lost, failed saves."""
    def add_table(self, name: str, signature: Signature, **options: Any) -> Table: ...  # options as Table's
    def open_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> Table: ...  # but path
    def table(self, name: str) -> Table: ...
    def table_names(self) -> list[str]: ...
    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int: ...
    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None: ...
    def put(self, mailbox: str, message: bytes) -> None: ...
    def drain(self, mailbox: str) -> list[bytes]: ...
    def drop(self, prefix: str) -> int: ...
    def stats(self) -> dict[str, Any]: ...
    def listen(self, address: str) -> str:
        """Serves on tcp://HOST:PORT, unix:PATH or unix:@NAME from now on. -> the address, name or port picked."""
    def connections(self) -> int: ...
    def disconnect(self) -> None:
        """Ends all connections; for their clients, which may look for the next server on `data`, it is away."""
    def close(self) -> None:
        """Closes tables and connections, and writes tables and shards in `data` to the disk."""

class Client:
    """A blocking connection; one request at a time (calls from several threads queue). ClosedError once it is gone.

    `reconnect_seconds`: for how long a call tries to get a lost connection back before that, also one with a shorter
    deadline or without waiting; nothing is done twice. No deadline bounds the lookup of a host's name.
    """

    def __init__(
        self,
        address: str,
        timeout_seconds: float = 10.0,
        *,
        token: bytes | None = None,
        request_timeout_seconds: float = 30.0,
        reconnect_seconds: float = 0.0,
    ) -> None: ...
    @property
    def instance(self) -> int: ...
    @property
    def reconnections(self) -> int: ...
    def signature(self, table: str) -> Signature: ...
    def insert(self, table: str, *chunks: bytes | bytearray) -> int: ...  # the key of the last
    def post_chunks(self, table: str, *chunks: bytes | bytearray, wait: bool = True) -> bool:
        """Sends chunks, to be stored in order, without waiting for the answer.

        While 4 chunks or 1 MiB are unanswered it waits, or without `wait` takes none of these and returns False. A
        later call, or settle(), raises the error of an earlier one.
        """
    def sample_into(
        self, table: str, batch: BatchView, importance_exponent: float, timeout_seconds: float | None = None
    ) -> bool: ...
    def update_priorities(self, table: str, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> int: ...
    def post_priorities(self, table: str, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> None: ...
    def settle(self) -> None:
        """Waits for the answers to all posted chunks and priorities; raises the first error, those of chunks first."""
    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int: ...
    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None: ...
    def put(self, mailbox: str, message: bytes) -> None: ...
    def drain(self, mailbox: str) -> list[bytes]: ...
    def stats(self) -> dict[str, Any]: ...
    def open_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> int: ...  # but path
    def set_state(self, table: str, state: str) -> None: ...  # "open", "paused" or "closed"
    def drop(self, prefix: str) -> int: ...
    def claim(self, name: str, owner: int, run: int = 0, keep_seconds: float = 0.0) -> None: ...
    def close(self) -> None:
        """Posted chunks and priorities that are unanswered may be lost, and so are their errors: settle() first."""

class BatchStream:
    """Batches kept in flight ahead of a learner, on a separate connection; see io/batch_stream.h."""

    def __init__(
        self,
        address: str,
        table: str,
        batch_size: int,
        importance_exponent: float,
        *,
        credit: int = 4,
        timeout_seconds: float = 10.0,
        token: bytes | None = None,
        request_timeout_seconds: float = 30.0,
        reconnect_seconds: float = 0.0,
    ) -> None: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def shared(self) -> bool: ...
    def next(self, timeout_seconds: float | None = None) -> tuple[NDArray[Any], ...] | None:
        """Nine read-only arrays in the order of BatchView's, valid until the next call; None at the deadline."""
    def post_priorities(self, key: NDArray[np.uint64], priority: NDArray[np.float32]) -> None:
        """Sets priorities to |priority|; they are sent after the next next()."""
    def close(self) -> None: ...

GRADIENT_LIMIT: float
"""Magnitude from which a component of a gradient is refused."""

class OptimizerOptions:
    """Kinds: sgd, momentum, rmsprop, centered-rmsprop, adagrad, adam; torch's arithmetic. Raises ConfigError."""

    def __init__(
        self,
        kind: str,
        *,
        learning_rate: float = 1e-3,
        decay: float = 0.99,
        epsilon: float = 1e-8,
        beta1: float = 0.9,
        beta2: float = 0.999,
    ) -> None:
        """`decay`: of RMSprop's averages; of what momentum keeps."""
    @staticmethod
    def decode(text: str) -> OptimizerOptions: ...
    def encode(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def moments(self) -> int:
        """M: vectors of optimizer state, 0 to 2."""
    @property
    def learning_rate(self) -> float: ...
    @property
    def decay(self) -> float: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def beta1(self) -> float: ...
    @property
    def beta2(self) -> float: ...
    def __eq__(self, other: object) -> bool: ...

class Optimizer:
    """Statistics and steps of one vector of parameters. One thread at a time."""

    def __init__(self, options: OptimizerOptions, count: int) -> None: ...
    def apply(self, parameters: NDArray[np.float32], gradient: NDArray[np.float32]) -> None:
        """One step, in place; both [P]."""
    @property
    def moments(self) -> NDArray[np.float32]:
        """[M, P]: live, and writable."""
    steps: int

def dense_instructions() -> list[str]:
    """Instruction sets of dense networks that this processor has, the fastest first; the last is "portable"."""

def softmax(
    logits: NDArray[np.float32],
    probability: NDArray[np.float32],
    log_probability: NDArray[np.float32],
    *,
    instructions: str = "",
) -> None:
    """Writes the softmax of each row and its log; all [B, Z]. `instructions` as of DenseNetwork. Raises ConfigError."""

def project(
    support: NDArray[np.float32],
    probability: NDArray[np.float32],
    reward: NDArray[np.float32],
    discount: NDArray[np.float32],
    projected: NDArray[np.float32],
    *,
    instructions: str = "",
) -> None:
    """Writes the distributions [B, Z] of reward + discount v, projected onto the atoms [Z], for those of v [B, Z].

    The atoms, at least two, are evenly spaced and increase. `instructions` as of DenseNetwork. Raises ConfigError.
    """

class DenseLayer:
    """activation(normalization(weight x + bias)), with offsets into the network's vector of parameters.

    x may be batch-normalized first.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        weight: int,
        bias: int,
        activation: str = "none",
        normalization: int | None = None,
        source: int | None = None,
        by_input: bool = False,
        batch: tuple[int, int] | None = None,
    ) -> None:
        """`activation`: none, relu, tanh, elu or silu. `normalization`: offset of the gain and, after it, the shift.

        `source`: the index of the layer whose outputs it reads; None: the network's input. The weight is [outputs,
        inputs], or with `by_input` [inputs, outputs]. `batch`: x is batch-normalized, with gain and then shift [inputs]
        at the first offset, and running mean and then variance [inputs] at the second one, in the statistics.
        """

class DenseNetwork:
    """Outputs and gradients of dense layers, for parameters [P] that it only reads. One thread at a time."""

    def __init__(
        self,
        inputs: Sequence[tuple[int, bool]],
        layers: Sequence[DenseLayer],
        *,
        parameters: int,
        dueling: bool = False,
        instructions: str = "",
        statistics: int = 0,
    ) -> None:
        """`inputs`: of each array its width, and whether it is of bytes, which are scaled by 1/255.

        The output has the outputs of all layers that no layer reads, side by side. If `dueling`, these must be a value
        [1] and advantages [A], and the output is value + advantage - mean(advantage). `instructions`: one of
        dense_instructions(); empty: the fastest. `statistics`: S, the length of their vector, if layers are
        batch-normalized. Raises ConfigError.
        """
    def forward(
        self,
        parameters: NDArray[np.float32],
        x: tuple[NDArray[Any], ...],
        y: NDArray[np.float32],
        statistics: NDArray[np.float32] | None = None,
        measured: NDArray[np.float32] | None = None,
        limits: tuple[float, float] = (1.0, 0.0),
    ) -> None:
        """Writes y [B, outputs] for x, an array [B, width] for each input. Raises ConfigError.

        Batch normalization uses the running `statistics` [S], or where `measured` [S] is given those of the batch,
        which it writes there; `limits` are those of batch renormalization's r and d.
        """
    def backward(
        self,
        parameters: NDArray[np.float32],
        dy: NDArray[np.float32],
        gradient: NDArray[np.float32] | None = None,
        dx: tuple[NDArray[np.float32] | None, ...] | None = None,
    ) -> None:
        """Writes the gradients of sum(dy y) of the last forward(), with the same parameters.

        dy is [B, outputs]; `gradient` [P], of which parameters of no layer are not written; dx has an array [B, width]
        for each input, or None. Raises ConfigError.
        """
    @property
    def outputs(self) -> int: ...
    @property
    def instructions(self) -> str: ...

class SharedModel:
    """A model in memory that the worker processes of a machine share; see core/shared_model.h for what races.

    Any number of threads and processes at once, but one at a time for each worker; load() while no one else uses it.
    """

    @staticmethod
    def create(
        parameters: NDArray[np.float32],
        optimizer: OptimizerOptions,
        *,
        mode: str,
        workers: int,
        own_optimizer_state: bool,
        l1_penalty: float = 0.0,
    ) -> SharedModel:
        """`mode`: lock, hogwild, or ad-psgd, whose workers have their own parameters and optimizer state.

        `l1_penalty`, of ad-psgd only: each update ends with the proximal operator of learning rate × this × the sum of
        the parameters' magnitudes.
        """
    @staticmethod
    def open(path: str) -> SharedModel:
        """Joins what another process made; raises ClosedError where that is gone, ConfigError where it is none."""
    @property
    def path(self) -> str:
        """Under which others open it, for as long as the maker's object lives."""
    @property
    def count(self) -> int:
        """P."""
    @property
    def workers(self) -> int:
        """W."""
    @property
    def parameter_sets(self) -> int:
        """R: W with ad-psgd, else 1."""
    @property
    def version(self) -> int:
        """Updates applied by all."""
    def parameters(self, worker: int) -> NDArray[np.float32]:
        """[P], live: the shared ones, or of ad-psgd the worker's own."""
    def read_into(self, out: NDArray[np.float32], worker: int = -1) -> int:
        """A copy [P] and its version; under the lock where there is one. -1, of ad-psgd: the mean of all who joined."""
    def join(self, worker: int) -> None:
        """Starts a worker: resets its own optimizer state unless it was loaded; ad-psgd: copies the mean parameters."""
    def apply(self, worker: int, gradient: NDArray[np.float32], base_version: int) -> tuple[int, int]:
        """-> version after it, and updates by others since `base_version`, or -1: refused because it is not finite."""
    def average(self, worker: int, neighbor: int) -> bool:
        """Of ad-psgd: both get their mean. False, and nothing is done, where the neighbor has not joined."""
    def lock_wait_seconds(self, worker: int) -> float: ...
    def state(self) -> dict[str, NDArray[Any]]:
        """Copies: version [], steps [S], joined [W], parameters [R, P], moments [S, M, P].

        R is W with ad-psgd, else 1; S is W where statistics are each worker's own, else 1.
        """
    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Takes back what state() gave; raises ConfigError where shapes differ. The first join() keeps it."""

class ShardedModel:
    """A model's parameters as shards "NAME/0", "NAME/1", ... of one or several servers; see io/sharded_model.h.

    Shard i is on the i-th of the addresses, and so round. One call at a time (others queue).
    """

    def __init__(
        self,
        addresses: Sequence[str],
        name: str,
        count: int,
        *,
        shards: int = 1,
        share: bool = True,  # over Unix sockets gradients lie in shared memory
        timeout_seconds: float = 10.0,
        token: bytes | None = None,
        request_timeout_seconds: float = 30.0,
        reconnect_seconds: float = 0.0,
    ) -> None: ...
    def open(
        self,
        optimizer: OptimizerOptions,
        initial: NDArray[np.float32] | None = None,
        *,
        fresh: bool,
        policy: str = "accept",  # "accept", "drop", "scale" or "compensate"
        max_staleness: int = 0,
        compensation: float = 0.0,
    ) -> int:
        """Makes the shards of `initial` [P] where they are not there (or `fresh`). -> the model's version.

        Without `initial` they must be there: ServerError.
        """
    def push(self, gradient: NDArray[np.float32]) -> tuple[int, int, str]:
        """Applies a gradient [P] at what was fetched last. -> version, staleness, "accepted", "dropped", "refused"."""
    def fetch_into(self, parameters: NDArray[np.float32]) -> int | None:
        """Brings [P], as the last call left it, up to date. -> its version; None where nothing is newer."""
    def state(self) -> tuple[int, NDArray[np.float32]]:
        """Version, and parameters and the optimizer's moments [1 + M, P]."""
    def load(self, version: int, state: NDArray[np.float32]) -> None:
        """Puts back what state() gave, for all workers."""
    @property
    def shared(self) -> bool: ...
    @property
    def reconnections(self) -> int: ...
    def close(self) -> None: ...

class Session:
    """The sans-I/O protocol session, for tests and fuzzing: bytes in, bytes out."""

    def __init__(self, server: Server, max_frame_bytes: int = ..., token: bytes | None = None) -> None: ...
    def receive(self, data: bytes) -> bytes: ...
    @property
    def closing(self) -> bool: ...
