"""The description of a policy's network that all its builders read."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import prod
from typing import Any, Literal, NamedTuple

from headrace.errors import ConfigError
from headrace.types import EnvironmentSpec

__all__ = ["Activation", "Architecture", "Convolution", "Dense"]

Activation = Literal["relu", "tanh", "none"]

_NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # Mnih et al. 2015: channels, kernel, stride


class Convolution(NamedTuple):
    """A square convolution without padding, followed by a ReLU; its input is [B, inputs, H, W]."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int


class Dense(NamedTuple):
    """A linear layer and what follows it; its input is [B, inputs]."""

    name: str
    inputs: int
    outputs: int
    activation: Activation


@dataclass(frozen=True)
class Architecture:
    """An MLP or the Nature CNN (Mnih et al. 2015) and its head: Q values, plain or duelling, or continuous actions.

    `input_shape` is what the policy sees without the batch axis; uint8 inputs are scaled to [0, 1]. With a duelling
    head (Wang et al. 2016) the last hidden width belongs to the two streams, value and advantage, each of which has
    its own. Continuous actions are in [-1, 1], by a tanh.
    """

    input_shape: tuple[int, ...]
    input_dtype: str
    actions: int
    kind: Literal["mlp", "nature"]
    hidden: tuple[int, ...]
    duelling: bool
    continuous: bool = False

    @staticmethod
    def of(spec: EnvironmentSpec, kind: str, hidden: tuple[int, ...], duelling: bool = False) -> "Architecture":
        """Chooses the kind where it is "auto"; raises ConfigError where the CNN can't take the observation."""
        image = spec.observation_dtype == "uint8" and len(spec.input_shape) in (2, 3)
        if kind == "auto":
            kind = "nature" if image and min(spec.input_shape[-2:]) >= 36 else "mlp"
        if kind == "nature" and (len(spec.input_shape) not in (2, 3) or min(spec.input_shape[-2:]) < 36):
            raise ConfigError(
                f"network is nature; it needs frames of at least 36x36 pixels, [H, W] or [channels, H, W], "
                f"and the environment's are {list(spec.input_shape)}: use mlp"
            )
        if duelling and not hidden:
            raise ConfigError("hidden is empty; a duelling head needs at least one hidden layer")
        return Architecture(
            input_shape=spec.input_shape,
            input_dtype=spec.observation_dtype,
            actions=spec.actions,
            kind="nature" if kind == "nature" else "mlp",
            hidden=hidden,
            duelling=duelling,
            continuous=spec.continuous,
        )

    def to_record(self) -> dict[str, Any]:
        """The description as JSON has it."""
        return asdict(self)

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> "Architecture":
        """Reads what to_record() gave."""
        shapes = {field: tuple(record[field]) for field in ("input_shape", "hidden")}
        return Architecture(**{**record, **shapes})

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """[channels, H, W] of the CNN's input: a single frame is one channel."""
        channels, height, width = (1, *self.input_shape)[-3:]
        return channels, height, width

    @property
    def convolutions(self) -> tuple[Convolution, ...]:
        """The CNN's layers; none for an MLP."""
        if self.kind == "mlp":
            return ()
        layers = []
        inputs = self.image_shape[0]
        for index, (outputs, kernel, stride) in enumerate(_NATURE):
            layers.append(Convolution(f"convolution_{index}", inputs, outputs, kernel, stride))
            inputs = outputs
        return tuple(layers)

    @property
    def features(self) -> int:
        """Numbers that reach the first dense layer."""
        if self.kind == "mlp":
            return prod(self.input_shape)
        channels, height, width = self.image_shape
        for layer in self.convolutions:
            channels = layer.outputs
            height, width = ((size - layer.kernel) // layer.stride + 1 for size in (height, width))
        return channels * height * width

    @property
    def torso(self) -> tuple[Dense, ...]:
        """Dense layers that all heads share."""
        widths = self.hidden[:-1] if self.duelling else self.hidden
        sizes = (self.features, *widths)
        return tuple(
            Dense(f"dense_{index}", inputs, outputs, "relu") for index, (inputs, outputs) in enumerate(pairwise(sizes))
        )

    @property
    def heads(self) -> tuple[tuple[Dense, ...], ...]:
        """One stream ending in actions or in Q, or two ending in value and advantage."""
        inputs = self.torso[-1].outputs if self.torso else self.features
        if self.continuous:
            return ((Dense("action", inputs, self.actions, "tanh"),),)
        if not self.duelling:
            return ((Dense("q", inputs, self.actions, "none"),),)
        width = self.hidden[-1]
        return (
            (Dense("value_0", inputs, width, "relu"), Dense("value_1", width, 1, "none")),
            (Dense("advantage_0", inputs, width, "relu"), Dense("advantage_1", width, self.actions, "none")),
        )
