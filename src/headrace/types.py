"""Shapes and names that all packages share.

Dimension letters, used in every docstring: B batch, T steps, K stack, A actions, Z atoms, E environments; *O is the
shape of one observation frame.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ActingKind", "Array", "Batch", "EnvironmentDefaults", "EnvironmentSpec", "EnvironmentStep", "FlatVector",
           "Part", "Sizing"]  # fmt: skip

Array = NDArray[Any]

FlatVector = Union[NDArray[np.float32], "Tensor"]
"""A model's parameters or their gradient [P] float32: a NumPy array, or a torch tensor on a GPU."""

ActingKind = Literal["actor", "worker"]
"""Kind of a run's roles that act; workers learn too."""


@dataclass(frozen=True)
class Part:
    """One part of an observation that is stored as a record: an array of `dtype` and `shape` at byte `offset`.

    `name` is "observation", with the keys of a Dict or the number of a Tuple's item after dots ("observation.goal"), or
    "action_mask"; it names the input of the policy's ONNX graph. Integers that name categories (Discrete,
    MultiDiscrete) have `categories`, the number of values of each of them in C order, and `start`, the smallest value
    of each; networks see them one-hot.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    categories: tuple[int, ...] = ()
    start: tuple[int, ...] = ()


@dataclass(frozen=True)
class EnvironmentSpec:
    """An environment's observations and actions as an agent sees them.

    `observation_shape` is *O, one frame without the stack axis; a policy sees [K, *O], or [*O] if `stack` is 1.
    `actions` is A: the number of discrete actions or, if `continuous`, the dimensions of one action, float32 [A] in
    [-1, 1]. If discrete actions have D dimensions (MultiDiscrete, MultiBinary), `branches` has the number of actions of
    each, and A is their sum. `parts` is empty if an observation is one array of numbers. Otherwise an observation is a
    record, uint8 [R] bytes, with these parts. If `masked`, the last part is the action mask, int8 [A], 1 for each legal
    action.
    """

    observation_shape: tuple[int, ...]
    observation_dtype: str
    actions: int
    stack: int = 1
    continuous: bool = False
    parts: tuple[Part, ...] = ()
    masked: bool = False
    branches: tuple[int, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the policy's input, without the batch axis."""
        return self.observation_shape if self.stack == 1 else (self.stack, *self.observation_shape)


class EnvironmentStep(NamedTuple):
    """The result of one step in E environments.

    `observation` [E, *O] follows the actions and includes the final observations of ended episodes. `next_start`
    [E, *O] is the input for the next action: equal to `observation`, except that an ended episode is replaced by the
    first observation of the new one. They are the same array if no episode ended.

    If `skipped` is given, an ended episode is not replaced at once: the environment spends its next step on the reset.
    Then it is `skipped`, its action was ignored, and only its `next_start` means something: the first observation.
    """

    observation: Array
    reward: NDArray[np.float32]  # [E]
    terminated: NDArray[np.bool_]  # [E]
    truncated: NDArray[np.bool_]  # [E]
    next_start: Array
    skipped: NDArray[np.bool_] | None = None  # [E]

    @property
    def began(self) -> NDArray[np.bool_]:
        """Where `next_start` is the first observation of an episode [E]."""
        return self.terminated | self.truncated if self.skipped is None else self.skipped

    @property
    def taken(self) -> int:
        """Number of environments that took their action."""
        return len(self.reward) - (0 if self.skipped is None else int(self.skipped.sum()))


class Batch(NamedTuple):
    """B transitions drawn from a table: NumPy arrays, which support DLPack.

    `observation` is s_t, `next_observation` s_{t+n}, `reward` the n-step return, and `discount` gamma^n, or 0 where the
    episode terminated. `weight` is the importance weight (N P)^-beta, divided by the batch's largest (Schaul et al.
    2016, section 3.4). `key` identifies the transitions for update_priorities; `policy_version` is the version of the
    parameters that chose the action.
    """

    observation: Array  # [B, K, *O], or [B, *O] where K is 1
    next_observation: Array  # [B, K, *O], or [B, *O] where K is 1
    action: Array  # [B] int64, [B, D] if actions have D dimensions, or [B, A] float32 if they are continuous
    reward: NDArray[np.float32]  # [B]
    discount: NDArray[np.float32]  # [B]
    weight: NDArray[np.float32]  # [B]
    probability: NDArray[np.float32]  # [B]
    key: NDArray[np.uint64]  # [B]
    policy_version: NDArray[np.uint64]  # [B]


class Sizing(NamedTuple):
    """What suits an environment in every topology."""

    environments: int = 8
    """Environments that a process steps together if it learns too."""
    actor_environments: int = 16
    """The same for one that only acts."""
    chunk_steps: int = 50
    """Transitions per chunk of a process that learns too."""


class EnvironmentDefaults(NamedTuple):
    """Settings that all algorithms share in an environment. `algorithm` is the name of its default algorithm."""

    algorithm: str = "dqn"
    sizing: Sizing = Sizing()
    note: str = ""
    """What a user should know of its scores."""
    evaluation_period_seconds: float = 30.0
    evaluation_episodes: int = 10
    final_evaluation_episodes: int = 100
    checkpoint_period_seconds: float = 300.0
    steps: int = 500_000
    """Environment steps of a run with an algorithm that has no preset for it."""
