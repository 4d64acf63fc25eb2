"""A trained policy for use from Python: of a run, or of a file that `headrace export` wrote."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import onnx
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from headrace.algorithms.config import Algorithm
from headrace.environments import FrameStack, make, require_spec
from headrace.environments.actions import (
    ActionMap,
    ActionPart,
    BranchActions,
    ContinuousActions,
    DiscreteActions,
    action_parts,
)
from headrace.environments.records import Packer, finite_float32
from headrace.environments.spaces import close, first_reset, read_spaces
from headrace.errors import CheckpointError, ConfigError, error_line, require
from headrace.fields import read_json, write_json
from headrace.parameters import Policy
from headrace.report.output import while_reading
from headrace.report.run_directory import RunDirectory
from headrace.roles.evaluator import GreedyPolicy
from headrace.settings import RunConfig
from headrace.training.checkpoint import Checkpoint, read_newest
from headrace.training.evaluation import Moment
from headrace.training.hang_watch import watched
from headrace.types import Array, EnvironmentSpec
from headrace.zoo import KeptPolicy

__all__ = ["Interface", "SavedPolicy", "Trained", "load_kept", "load_policy", "read_trained"]

_KEY = "headrace"
"""Key of the interface in the metadata of an exported graph."""


@dataclass(frozen=True)
class _ActionSpace:
    """An environment's Discrete space, which begins at `start`, a Box, or another one with these parts."""

    start: int = 0
    parts: tuple[ActionPart, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""

    @staticmethod
    def of(space: gymnasium.Space[Any]) -> "_ActionSpace":
        if isinstance(space, spaces.Discrete):
            return _ActionSpace(int(space.start))
        if not isinstance(space, spaces.Box):
            return _ActionSpace(0, action_parts(space))
        low, high = (tuple(map(float, bound.ravel().tolist())) for bound in (space.low, space.high))
        return _ActionSpace(0, (), low, high, tuple(space.shape), np.dtype(space.dtype).name)

    def to_map(self) -> ActionMap:
        if self.parts:
            return BranchActions(self.parts)
        if not self.dtype:
            return DiscreteActions(self.start)
        return ContinuousActions(*(np.array(bound, self.dtype).reshape(self.shape) for bound in (self.low, self.high)))


@dataclass(frozen=True)
class Interface:
    """A policy's observations and actions, and the algorithm, which chooses greedy actions by the policy's outputs."""

    spec: EnvironmentSpec
    algorithm: Algorithm
    action_space: _ActionSpace

    def write(self, graph: bytes) -> bytes:
        """The ONNX graph with this interface in its metadata."""
        model = onnx.load_model_from_string(graph)
        model.metadata_props.add(key=_KEY, value=write_json(self))
        written: bytes = model.SerializeToString()
        return written

    @staticmethod
    def read(graph: bytes, path: Path) -> "Interface":
        """The interface of a graph from `path`; raises CheckpointError if it has none."""
        try:
            model = onnx.load_model_from_string(graph)
        except Exception as error:  # protobuf's, whose classes have no types
            raise CheckpointError(f"{path} is not an ONNX file: {error}") from error
        text = {entry.key: entry.value for entry in model.metadata_props}.get(_KEY)
        if text is None:
            raise CheckpointError(f"{path} has no metadata {_KEY!r}; a file that headrace export wrote is required")
        try:
            return read_json(Interface, text, f"metadata {_KEY!r}")
        except ConfigError as error:
            raise CheckpointError(f"{path} is from another version: {error}") from error


class SavedPolicy:
    """A trained policy, which chooses actions without exploration. One thread.

    If policies of this environment see the last K frames, or if it is recurrent, the policy remembers what it saw: call
    reset() between episodes. A policy whose observations have parts or action masks needs a packer.
    """

    def __init__(self, graph: bytes, interface: Interface, version: int = 1, packer: Packer | None = None) -> None:
        self._packer = packer
        self.interface = interface
        self.spec = interface.spec
        """Shapes and dtype of observations and actions."""
        self._policy = GreedyPolicy(interface.algorithm, Policy(graph, version), interface.spec)
        self._actions = interface.action_space.to_map()
        self._stack: FrameStack | None = None
        self._ended: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def reset(self, ended: ArrayLike | None = None) -> None:
        """Forgets what was seen of all environments, or of those whose episode ended, [B] bool."""
        if ended is None:
            self._stack = None
            self._policy.restart()
            return
        mask = _array("ended", ended)
        seen = self._ended.shape if self._stack else mask.shape[:1]
        valid = mask.dtype == np.bool_ and mask.shape == seen
        require("ended", f"{mask.dtype} {list(mask.shape)}", valid, f"bool {list(seen)}, one value per environment")
        if self._stack:
            self._ended |= mask

    def act(self, observation: Any, info: Mapping[str, Any] | None = None) -> Any:
        """The action for one frame [*O], as the environment's step() takes it, or the actions [B, ...] for [B, *O].

        If the action is a Dict or a Tuple, those of a batch are a dict or a tuple of arrays [B, ...].

        The frames of a batch are of B environments, the same ones until the next reset(). An observation with parts is
        a single one, as the environment returns it; `info`, which it returns too, has the action mask if there is one.
        Raises ConfigError if shape or dtype of the observation is not that of `spec`, or a value is not finite, and
        EnvironmentFault if a part or the mask is not what the environment's spaces declare.
        """
        frames, single = self._frames(observation) if self._packer is None else (self._pack(observation, info), True)
        count = len(frames)
        if self._stack is None:
            self._stack, self._ended = FrameStack(count, self.spec), np.zeros(count, np.bool_)
            inputs = self._stack.start(frames)
        elif (self.spec.stack > 1 or self._policy.recurrent) and len(self._ended) != count:
            before = len(self._ended)
            raise ConfigError(f"observation has {count} environments; it must have {before}, or reset() comes first")
        else:
            inputs = self._stack.push(frames, self._ended)
            self._policy.reset(self._ended)
            self._ended = np.zeros(count, np.bool_)
        actions = self._policy.act(np.ascontiguousarray(inputs))
        return self._actions.to_environment(actions)[0] if single else self._actions.to_batch(actions)

    def _pack(self, observation: Any, info: Mapping[str, Any] | None) -> Array:
        """The record [1, R] of one observation."""
        assert self._packer is not None
        record = np.empty((1, *self.spec.observation_shape), np.uint8)
        self._packer.pack(observation, info, record[0], final=False)
        return record

    def _frames(self, observation: ArrayLike) -> tuple[Array, bool]:
        """Checked frames [B, *O], and whether it was a single one."""
        frames = _array("observation", observation)
        shape, dtype = self.spec.observation_shape, self.spec.observation_dtype
        single = frames.shape == shape
        given = f"of shape {list(frames.shape)}"
        fits = single or (frames.shape[1:] == shape and frames.ndim > len(shape) and len(frames) > 0)
        require("observation", given, fits, f"of shape {list(shape)}, or {['B', *shape]} for a batch".replace("'", ""))
        can_cast = np.can_cast(frames.dtype, dtype, "same_kind")
        require("observation", f"of dtype {frames.dtype}", can_cast, f"of dtype {dtype}")
        with np.errstate(over="ignore"):  # what is too large is refused below
            whole, frames = frames, frames.astype(dtype, copy=False)
        if frames.dtype.kind in "iu" and frames is not whole:
            require("observation", "too large", bool((frames == whole).all()), f"within {dtype} in every value")
        if frames.dtype.kind == "f":
            require("observation", "not finite", bool(finite_float32(frames).all()), "finite as float32 in every value")
        return frames[None] if single else frames, single


def _array(name: str, value: ArrayLike) -> Array:
    """The value as an array; raises ConfigError for one that is none, such as rows of several lengths."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{name} is not an array ({error_line(error)})") from error


class Trained(NamedTuple):
    """A policy with the environment that it was trained in: of a run's newest checkpoint, or of the zoo."""

    environment: str
    algorithm: Algorithm
    spec: EnvironmentSpec
    graph: bytes
    moment: Moment
    """When in training the policy was taken."""
    seed: int
    """Seed of the episodes if no other is given."""
    hang_seconds: float

    @staticmethod
    def of_run(config: RunConfig, checkpoint: Checkpoint) -> "Trained":
        """The policy of a run."""
        name, algorithm, graph = config.environment, config.algorithm, checkpoint.policy()
        moment, spec = checkpoint.state.moment, checkpoint.state.spec
        return Trained(name, algorithm, spec, graph, moment, config.seed, config.hang_seconds)

    @staticmethod
    def of_zoo(kept: KeptPolicy) -> "Trained":
        """A policy of the zoo."""
        graph = _read_graph(kept.path)
        interface = Interface.read(graph, kept.path)
        moment = Moment(kept.environment_steps, kept.learner_steps, kept.training_seconds)
        name, seed, hang_seconds = kept.environment, kept.episode_seed, RunConfig.hang_seconds
        return Trained(name, interface.algorithm, interface.spec, graph, moment, seed, hang_seconds)

    def open(self, environment: gymnasium.Env[Any, Any], first: object) -> SavedPolicy:
        """The policy in an environment, whose first reset() returned `first`.

        Raises EnvironmentFault if the environment is not the one that the policy was trained in.
        """
        found = read_spaces(environment, self.environment, first)
        require_spec(self.environment, found.spec, self.spec)
        interface = Interface(found.spec, self.algorithm, _ActionSpace.of(environment.action_space))
        return SavedPolicy(self.graph, interface, self.moment.version, found.packer)

    def open_alone(self) -> SavedPolicy:
        """The policy, for which its environment is created, reset and closed; raises as open()."""
        with watched(self.hang_seconds):
            environment = make(self.environment)
            try:
                return self.open(environment, first_reset(environment, self.environment))
            finally:
                close(environment, self.environment)


def read_trained(source: RunDirectory | KeptPolicy) -> Trained:
    """Reads the policy of a run or of the zoo; raises CheckpointError if it can't be used."""
    if isinstance(source, KeptPolicy):
        return Trained.of_zoo(source)
    config = source.read_config()
    return read_newest(source.checkpoints_path, lambda checkpoint: Trained.of_run(config, checkpoint))


def load_policy(path: Path) -> SavedPolicy:
    """The policy of a run directory's newest checkpoint, or of an .onnx file that `headrace export` wrote.

    That of a run requires the run's environment, whose spaces are read. Raises CheckpointError if `path` is neither, or
    a file of a policy whose observations have parts or action masks.
    """
    with while_reading(path):
        is_run = path.is_dir() or not path.exists()
    if is_run:
        return read_trained(RunDirectory.open(path)).open_alone()
    graph = _read_graph(path)
    interface = Interface.read(graph, path)
    if interface.spec.parts:
        raise CheckpointError(
            f"{path} takes observations with parts or action masks, which only the environment's spaces describe; the "
            "run directory is required"
        )
    return SavedPolicy(graph, interface)


def load_kept(kept: KeptPolicy) -> SavedPolicy:
    """A policy of the zoo; its environment is created only if its observations have parts or action masks."""
    trained = read_trained(kept)
    return trained.open_alone() if trained.spec.parts else load_policy(kept.path)


def _read_graph(path: Path) -> bytes:
    if not path.is_file():  # a device or a pipe may never end
        raise CheckpointError(f"{path} is neither a run directory nor an .onnx file")
    with while_reading(path):
        return path.read_bytes()
