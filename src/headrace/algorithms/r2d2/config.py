"""Settings of R2D2."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from headrace.algorithms.config import ActionKind, Tuned, require_fractions
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.r2d2.windows import WindowForm, WindowWriters
from headrace.algorithms.writers import StepWriters, TableForm
from headrace.errors import require
from headrace.fields import require_positive
from headrace.networks.architecture import Architecture
from headrace.parameters.memory import Memory
from headrace.types import EnvironmentSpec

if TYPE_CHECKING:
    from headrace.algorithms.base import Updater
    from headrace.algorithms.r2d2.updater import R2D2Updater

__all__ = ["R2D2"]

_MOST_STEPS = 4_096
"""Limit for one window."""
_MOST_MEMORY = 8_192


@dataclass(frozen=True)
class R2D2(DQN):
    """DQN with an LSTM or a GRU, which learns from windows of episodes (Kapturowski et al. 2019).

    The table stores windows: replay_capacity, learning_starts and batch_size count windows. Raises ConfigError with the
    field's name if a value can never work.
    """

    name: ClassVar[str] = "r2d2"
    summary: ClassVar[str] = "DQN with a recurrent network"
    action_kinds: ClassVar[tuple[ActionKind, ...]] = ("discrete",)
    unused_settings: ClassVar[tuple[str, ...]] = ("chunk_steps",)

    hidden: tuple[int, ...] = (64,)
    """Widths of the dense layers before the recurrent one; if dueling, the last is that of the streams after it."""
    cell: Literal["lstm", "gru"] = "lstm"
    """The recurrent layer."""
    memory: int = 64
    """Units of the recurrent layer."""
    burn_in: int = 20
    """Steps that only update the stored state, before the learned ones; fewer at an episode's start."""
    learned_steps: int = 40
    """Learned steps of a window. Half of them are also in the next window."""
    priority_mix: float = 0.9
    """eta: a window's priority is eta max |TD error| + (1 - eta) mean |TD error|."""
    value_rescaling: bool = True
    """Learn h(Q) with h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x (Pohlen et al. 2018), for unclipped rewards."""

    priority_exponent: float = 0.9
    importance_exponent: float = 0.6
    batch_size: int = 32
    """Windows."""
    replay_capacity: int = 10_000
    """Windows stored; the oldest are removed first."""
    learning_starts: int = 100
    """Windows stored before the first update."""
    samples_per_step: float = 8.0
    """Learned steps sampled per environment step (replay ratio × batch size), in episodes longer than a window."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "memory", most=_MOST_MEMORY)
        require_positive(self, "learned_steps", most=_MOST_STEPS)
        require("learned_steps", self.learned_steps, self.learned_steps >= 2, "2 or more: windows overlap by half")
        require("burn_in", self.burn_in, 0 <= self.burn_in <= _MOST_STEPS, f"from 0 to {_MOST_STEPS:,}")
        require_fractions(self, "priority_mix")

    @classmethod
    def presets(cls) -> Mapping[str, Tuned]:
        """See `presets.py`."""
        from headrace.algorithms.r2d2.presets import PRESETS

        return PRESETS

    def architecture(self, spec: EnvironmentSpec) -> Architecture:
        """One Q value for each action, after a recurrent layer."""
        return Architecture.of(spec, self.network, self.hidden, self.dueling, cell=self.cell, memory=self.memory)

    def updater_class(self) -> "type[Updater]":
        """Online and target network, computed by torch."""
        from headrace.algorithms.r2d2.updater import R2D2Updater

        return R2D2Updater

    def make_memory(self, updater: "Updater") -> Memory:
        """The states of the updater's policy."""
        recurrent = cast("R2D2Updater", updater)
        return Memory(recurrent.advance, recurrent.architecture.state_size)

    def window_form(self, spec: EnvironmentSpec) -> WindowForm:
        """The windows that the table stores."""
        state_size = {"gru": 1, "lstm": 2}[self.cell] * self.memory
        return WindowForm(spec, self.burn_in, self.learned_steps, self.n_step, state_size)

    def table_form(self, spec: EnvironmentSpec, chunk_steps: int) -> TableForm:
        """One window as one transition in a chunk; each window has half its learned steps in common with the next."""
        form = self.window_form(spec)
        return TableForm(form.signature, 1, 1, self.samples_per_step * form.stride / form.learned, form.most_finished)

    def make_writers(self, spec: EnvironmentSpec, chunk_steps: int, count: int, first_environment: int) -> StepWriters:
        """Writers of windows."""
        return WindowWriters(self.window_form(spec), count, first_environment)

    def actor_priorities(self, spec: EnvironmentSpec) -> bool:
        """No: new windows get the table's largest priority."""
        return False
