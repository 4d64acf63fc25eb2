"""The contract of every algorithm: its settings, and what it answers for itself."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from headrace.algorithms.exploration import Exploration
from headrace.algorithms.registry import ALGORITHMS
from headrace.algorithms.writers import StepWriters, TableForm, TransitionWriters, table_signature
from headrace.errors import ConfigError, error_line, require
from headrace.fields import MOST_STEPS, check_types, require_positive, require_unused, write_fields
from headrace.networks.architecture import Architecture, Kind
from headrace.parameters.memory import Memory
from headrace.types import Array, EnvironmentSpec

if TYPE_CHECKING:
    from headrace.algorithms.base import RolloutPolicy, Updater
    from headrace.algorithms.dyna_q.config import DynaQ
    from headrace.gradients.base import OpenVector

__all__ = [
    "MOST_BATCH",
    "MOST_RATIO",
    "MOST_TRANSITIONS",
    "ActionKind",
    "Algorithm",
    "Engine",
    "OffPolicy",
    "OnPolicy",
    "OptimizerName",
    "Tuned",
    "action_kind",
    "require_contract",
    "require_decays",
    "require_fractions",
    "require_not_negative",
    "require_optimizer",
    "require_sigmas",
    "require_widths",
]

ActionKind = Literal["discrete", "multi-discrete", "continuous"]
Engine = Literal["auto", "native", "torch"]
OptimizerName = Literal["adam", "rmsprop", "centered-rmsprop", "adagrad", "momentum", "sgd"]

NETWORKS = ("auto", *get_args(Kind))
"""The kinds of built-in networks, and "auto", which chooses one for the observations."""
_DECAYS: dict[str, tuple[OptimizerName, ...]] = {
    "optimizer_decay": ("rmsprop", "centered-rmsprop", "momentum"),
    "adam_beta1": ("adam",),
}
"""Settings by the optimizers that have them."""
MOST_BATCH = 65_536
"""Limit on the transitions in one batch: the most that a server gathers at once."""
MOST_TRANSITIONS = 2**40
"""Limit for one table: the number of distinct keys."""
MOST_RATIO = 100_000
"""Limit on transitions sampled, or simulated, per environment step: far above it a run would hardly advance."""
_MOST_BYTES = 1 << 46
"""Far above the memory of a machine."""
_MOST_N_STEP = 4_096
"""Limit of the native writer of chunks."""
_MOST_EXPONENT = 4
_MOST_WIDTH = 65_536
_MOST_LAYERS = 64


class Tuned(NamedTuple):
    """Settings that are known to work in an environment, and the environment steps that they are meant for."""

    algorithm: "Algorithm"
    steps: int


@dataclass(frozen=True)
class Algorithm(ABC):
    """Settings of acting and publishing that all algorithms share, and what an algorithm answers for itself.

    An algorithm is a subclass of `OffPolicy`, which learns from replay, or of `OnPolicy`, which learns from rollouts.
    It adds its settings and is registered by name (`algorithms/registry.py`). Its module must not import torch, which
    processes do without if none of their networks needs it.

    Counts called steps are environment steps; counts called updates are gradient steps of the learner. Raises
    ConfigError with the field's name if a value can never work.
    """

    name: ClassVar[str]
    """Name on the command line and in files."""
    summary: ClassVar[str]
    """What --help says of it, in a few words."""
    action_kinds: ClassVar[tuple[ActionKind, ...]]
    """Kinds of action spaces that it takes."""
    unused_settings: ClassVar[tuple[str, ...]] = ()
    """Names of inherited settings, and of a topology's, that have no effect on it: giving one is refused."""
    fixed_exploration: ClassVar[tuple[str, ...]] = ()
    """Its settings of an exploration that is fixed for each environment, as Ape-X's."""
    decaying_exploration: ClassVar[tuple[str, ...]] = ()
    """Its settings of one that changes with the run's steps, as that of the other topologies."""
    default_topology: ClassVar[str]
    """Name of the topology that runs it unless another is asked for."""

    network: str = "auto"
    """auto: a CNN for frames and boards (nature, grid), otherwise an MLP (mlp); minatar, ong: the CNNs of Young and
    Tian 2019 and Ong et al. 2015. package.module:function: the torch module that it returns (docs/own_network.md)."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the MLP's hidden layers, or of the dense layers after the CNN (Nature: 512)."""

    discount: float = 0.99
    """gamma: the factor by which each later reward counts less."""
    learning_rate: float = 1e-3
    """Step size of the optimizer; in actor-critics, of the policy's."""
    clip_rewards: bool = False
    """Train on rewards clipped to [-1, 1] (Mnih et al. 2015); scores are always raw."""
    publish_period: int = 20
    """Updates between publications of the policy to separate actors, as in apex."""

    def __post_init__(self) -> None:
        check_types(self)
        require_positive(self, "learning_rate")
        require_positive(self, "publish_period", most=MOST_STEPS)
        require_fractions(self, "discount")
        require_widths(self, "hidden")
        require_network(self.network)

    @property
    def own_network(self) -> bool:
        """Whether the policy's network is a torch module of the user's."""
        return ":" in self.network

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """Settings that are known to work, by environment or family of environments ("ALE/...")."""
        return {}

    @classmethod
    def frugal_presets(cls) -> Mapping[str, Tuned]:
        """Settings that need few environment steps rather than few seconds, by environment."""
        return {}

    def require_spaces(self, spec: EnvironmentSpec) -> None:
        """Raises ConfigError if the algorithm does not take the environment's actions or observations."""
        kind = action_kind(spec)
        if kind not in self.action_kinds:
            able = ", ".join(name for name, other in ALGORITHMS.known().items() if kind in other.action_kinds)
            raise ConfigError(
                f"algorithm is {self.name}, and the environment's actions are {kind}: one of {able} is required"
            )
        if spec.masked:
            self.require_masked(self.architecture(spec))

    def require_masked(self, policy: Architecture) -> None:
        """Raises ConfigError if this network of its policy does not apply the environment's action masks."""
        if not policy.head.masked:
            raise ConfigError(
                f"algorithm is {self.name}, whose network applies no action masks, and the environment has them: an "
                "algorithm with one output for each action, and a masked Head, is required"
            )

    @property
    def other_widths(self) -> tuple[int, ...]:
        """Widths of the hidden layers of networks other than the policy's."""
        return ()

    def architecture(self, spec: EnvironmentSpec) -> Architecture:
        """The policy's network: by default one output for each action, or for each dimension of continuous actions."""
        return Architecture.of(spec, self.network, self.hidden)

    @abstractmethod
    def updater_class(self) -> "Callable[..., Updater]":
        """The class of its updater, called with these settings, the environment's spaces and a `NetworkOpener`.

        It is imported here: actors do without it.
        """

    def make_updater(
        self,
        spec: EnvironmentSpec,
        device: str,
        seed: int,
        open_vector: "OpenVector | None" = None,
        engine: Engine = "auto",
    ) -> "Updater":
        """Networks and optimizers; raises ConfigError as require_spaces(), or if the engine can't compute them.

        `seed` determines initial values and noise. `device` is "cpu", or a GPU as torch names it. `open_vector` opens
        the parameter vectors that workers share; by default they belong to this process. `engine` computes the
        networks.
        """
        from headrace.algorithms.engine import choose_engine
        from headrace.algorithms.opener import NetworkOpener

        self.require_spaces(spec)
        chosen = choose_engine(engine, device, self.architecture(spec), self.other_widths)
        opener = NetworkOpener(chosen, device, open_vector, np.random.Generator(np.random.PCG64(seed)))
        return self.updater_class()(self, spec, opener)

    @abstractmethod
    def greedy(self, output: NDArray[np.float32], spec: EnvironmentSpec) -> Array:
        """Actions without exploration for the policy's outputs [B, *].

        They are [B], [B, D] if actions have D dimensions, or continuous [B, A] in [-1, 1].
        """

    @property
    def replay(self) -> "OffPolicy | None":
        """These settings, if the algorithm learns from replay."""
        return None

    @property
    def rollouts(self) -> "OnPolicy | None":
        """These settings, if the algorithm learns from rollouts of its current policy."""
        return None

    @property
    def statistics_rate(self) -> float:
        """How far moving averages that its updater shares in a vector move to each batch's values; 0: it has none.

        The gradients of such a vector are not those of a loss.
        """
        return 0.0

    @property
    def world_model(self) -> "DynaQ | None":
        """These settings, if the algorithm plans with a world model."""
        return None

    def to_record(self) -> dict[str, Any]:
        """The settings as JSON, with the algorithm's name."""
        return {"name": ALGORITHMS.name_of(self), **write_fields(self)}

    @staticmethod
    def from_record(record: dict[str, Any]) -> "Algorithm":
        """Reads what to_record() returned; raises ConfigError with the field's name if it is something else."""
        return ALGORITHMS.read(record)


@dataclass(frozen=True)
class OffPolicy(Algorithm, ABC):
    """An algorithm that learns from replay."""

    default_topology: ClassVar[str] = "apex"

    n_step: int = 3
    """Rewards summed before the bootstrap (Sutton 1988; Horgan et al. 2018 use 3)."""
    prioritized: bool = True
    """Sample in proportion to |TD error| ** priority exponent (Schaul et al. 2016)."""
    priority_exponent: float = 0.6
    """alpha: 0 samples uniformly."""
    importance_exponent: float = 0.4
    """beta: how strongly importance weights correct for prioritized sampling."""

    batch_size: int = 256
    """Transitions sampled for each update."""
    target_update_period: int = 200
    """Learner updates between updates of the target network."""
    target_update_rate: float = 1.0
    """1 copies the network to the target; below 1 averages (Polyak)."""

    replay_capacity: int = 100_000
    """Transitions stored; the oldest are removed first."""
    replay_bytes: int = 0
    """Memory for experience; 0 is as much as the capacity requires if episodes have 10 steps or more."""
    learning_starts: int = 1_000
    """Transitions stored before the first update."""
    samples_per_step: float = 16.0
    """Transitions sampled per environment step (replay ratio × batch size), the same in every topology."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "n_step", most=_MOST_N_STEP)
        require_positive(self, "batch_size", most=MOST_BATCH)
        require_positive(self, "samples_per_step", most=MOST_RATIO)
        require_positive(self, "replay_capacity", most=MOST_TRANSITIONS)
        require_positive(self, "learning_starts", "target_update_period", most=MOST_STEPS)
        require_not_negative(self, "priority_exponent", "importance_exponent", "replay_bytes")
        require("replay_bytes", self.replay_bytes, self.replay_bytes <= _MOST_BYTES, f"at most {_MOST_BYTES:,}")
        for name in ("priority_exponent", "importance_exponent"):
            require(name, getattr(self, name), getattr(self, name) <= _MOST_EXPONENT, f"at most {_MOST_EXPONENT}")
            require_unused(self, name, not self.prioritized, "prioritized is true")
        require("target_update_rate", self.target_update_rate, 0 < self.target_update_rate <= 1, "in (0, 1]")
        require(
            "replay_capacity",
            self.replay_capacity,
            self.replay_capacity >= max(self.batch_size, self.learning_starts),
            f"at least the batch size ({self.batch_size}) and learning_starts ({self.learning_starts})",
        )

    def actor_priorities(self, spec: EnvironmentSpec) -> bool:
        """Whether actors can compute the |TD error| of the transitions they send."""
        return False

    @property
    def replay(self) -> "OffPolicy":
        """These settings."""
        return self

    def table_form(self, spec: EnvironmentSpec, chunk_steps: int) -> TableForm:
        """What the table stores: by default n-step transitions, in chunks of so many."""
        most = chunk_steps + self.n_step - 1  # at an episode's end
        return TableForm(table_signature(spec), self.n_step, chunk_steps, self.samples_per_step, most)

    def make_writers(self, spec: EnvironmentSpec, chunk_steps: int, count: int, first_environment: int) -> StepWriters:
        """Writers of such a table's chunks for E environments, whose numbers begin with `first_environment`."""
        return TransitionWriters(
            table_signature(spec),
            count,
            first_environment,
            n_step=self.n_step,
            discount=self.discount,
            chunk_steps=chunk_steps,
        )

    def make_memory(self, updater: "Updater") -> Memory | None:
        """What acts with the recurrent policy of the updater that make_updater() returned; None if it is not one."""
        return None

    @abstractmethod
    def make_exploration(self, scale: Sequence[float], seed: int | Sequence[int], spec: EnvironmentSpec) -> Exploration:
        """Chooses exploring actions for one environment for each of `scale`."""

    @abstractmethod
    def exploration(self, count: int) -> Sequence[float]:
        """Exploration of each of N environments over all actors, from first to last; fixed for the run."""

    def serial_exploration(self, count: int, step: int) -> Sequence[float]:
        """Exploration of each of N environments where acting and learning alternate, after `step` steps in total."""
        return self.exploration(count)


@dataclass(frozen=True)
class OnPolicy(Algorithm, ABC):
    """An algorithm that learns from rollouts of its current policy."""

    default_topology: ClassVar[str] = "hogwild"

    n_step: int = 5
    """Steps of each environment in a rollout (t_max): returns sum up to this many rewards before the bootstrap."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "n_step", most=_MOST_N_STEP)
        require("network", self.network, self.network in NETWORKS, f"one of {', '.join(NETWORKS)} with {self.name}")

    @property
    def rollouts(self) -> "OnPolicy":
        """These settings."""
        return self

    @abstractmethod
    def rollout_policy(self, updater: "Updater") -> "RolloutPolicy":
        """What a worker acts by, from the updater that make_updater() returned."""


def action_kind(spec: EnvironmentSpec) -> ActionKind:
    """The kind of an environment's actions."""
    return "continuous" if spec.continuous else "multi-discrete" if spec.branches else "discrete"


def require_contract(kind: type[Algorithm]) -> None:
    """Raises ConfigError for a class that is neither OffPolicy nor OnPolicy, or whose presets can't be read."""
    if not issubclass(kind, OffPolicy | OnPolicy):
        raise ConfigError(f"{kind.__name__} must be a subclass of OffPolicy or OnPolicy")
    for method in ("presets", "frugal_presets"):
        try:
            values = list(getattr(kind, method)().values())
        except (Exception, SystemExit) as error:
            raise ConfigError(f"{method}() fails: {error_line(error)}") from error
        wrong = [value for value in values if not isinstance(value, Tuned)]
        require(f"{method}()", f"{wrong[:1]!r:.60}", not wrong, "a mapping of environments to Tuned")


def require_not_negative(config: object, *fields: str) -> None:
    """Raises ConfigError for the first of these fields that is below 0."""
    for field in fields:
        require(field, getattr(config, field), getattr(config, field) >= 0, "0 or more")


def require_fractions(config: object, *fields: str) -> None:
    """Raises ConfigError for the first of these fields that is not between 0 and 1."""
    for field in fields:
        require(field, getattr(config, field), 0 <= getattr(config, field) <= 1, "between 0 and 1")


def require_decays(config: object, *fields: str) -> None:
    """Raises ConfigError for the first of these fields that is not the share of a running mean that is kept."""
    for field in fields:
        require(field, getattr(config, field), 0 <= getattr(config, field) < 1, "0 or more and below 1")


def require_optimizer(config: Any) -> None:
    """Raises ConfigError for a decay out of range, or one that is set and that the optimizer does not have."""
    require_decays(config, "optimizer_decay", "adam_beta1")
    for field, users in _DECAYS.items():
        require_unused(config, field, config.optimizer not in users, f"optimizer is {' or '.join(users)}")


def require_sigmas(config: object, *fields: str) -> None:
    """Raises ConfigError for the first of these fields that does not give every environment a standard deviation."""
    for field in fields:
        sigmas = getattr(config, field)
        require(field, sigmas, len(sigmas) > 0, "one number or more")
        require(field, sigmas, all(sigma >= 0 for sigma in sigmas), "numbers of 0 or more")


def require_network(network: str) -> None:
    """Raises ConfigError unless this is the name of a network, or of a function that may return one."""
    module, colon, function = network.partition(":")
    own = bool(colon) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))
    names = ", ".join(NETWORKS)
    require("network", network, network in NETWORKS or own, f"one of {names}, or package.module:function")


def require_widths(config: object, *fields: str) -> None:
    """Raises ConfigError for the first of these fields whose layer widths or number of layers are out of range."""
    for field in fields:
        widths = getattr(config, field)
        require(field, widths, all(width > 0 for width in widths), "widths above 0")
        require(field, widths, all(width <= _MOST_WIDTH for width in widths), f"widths of at most {_MOST_WIDTH:,}")
        require(field, f"{len(widths)} widths", len(widths) <= _MOST_LAYERS, f"at most {_MOST_LAYERS} of them")
