"""The description from which a policy's network is built."""

from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from math import prod, sqrt
from typing import Any, Literal, NamedTuple

from headrace.errors import ConfigError, require
from headrace.fields import read_fields
from headrace.machine import total_memory_bytes
from headrace.networks.layout import Layout, Parameter, affine
from headrace.types import EnvironmentSpec

__all__ = ["Activation", "Architecture", "Cell", "Convolution", "Dense", "Head", "require_parameters"]

Activation = Literal["relu", "tanh", "none"]

Cell = Literal["none", "lstm", "gru"]

Kind = Literal["mlp", "nature", "grid", "ong"]


class Convolution(NamedTuple):
    """A square convolution followed by a ReLU and, if `pool` is above 1, by the maximum of each pool x pool square.

    The input is [B, inputs, H, W], padded with `padding` zeros on each side.
    """

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int = 1
    padding: int = 0
    pool: int = 1

    def size(self, size: int) -> int:
        """Number of output rows (or columns) for this many input rows (or columns)."""
        return ((size + 2 * self.padding - self.kernel) // self.stride + 1) // self.pool


_CONVOLUTIONS: dict[Kind, tuple[Convolution, ...]] = {
    "mlp": (),
    "nature": (  # Mnih et al. 2015
        Convolution("convolution_0", 0, 32, 8, stride=4),
        Convolution("convolution_1", 32, 64, 4, stride=2),
        Convolution("convolution_2", 64, 64, 3),
    ),
    "grid": (  # for boards, where every cell matters: no strides, no pooling
        Convolution("convolution_0", 0, 16, 3, padding=1),
        Convolution("convolution_1", 16, 32, 3, padding=1),
    ),
    "ong": (  # Ong et al. 2015
        Convolution("convolution_0", 0, 32, 7, padding=3, pool=2),
        Convolution("convolution_1", 32, 64, 5, padding=2, pool=2),
        Convolution("convolution_2", 64, 64, 3, padding=1, pool=2),
    ),
}
_SMALLEST = {"nature": 36, "grid": 5, "ong": 8}
"""Least rows and columns: the convolutions' output must not be empty; for grid, the receptive field of its layers."""


_MOST_PARAMETERS = 500_000_000
"""Limit for one network: the actors' ONNX graph holds at most 2 GB, with 4 bytes per parameter."""
_COPIES = 5
"""Copies of each parameter in a learner: network, target network, gradient, and Adam's two moments."""


class Dense(NamedTuple):
    """A linear layer and its activation; the input is [B, inputs]."""

    name: str
    inputs: int
    outputs: int
    activation: Activation


@dataclass(frozen=True)
class Head:
    """The last layer of a policy's network: its name, its width and its activation."""

    name: str
    outputs: int
    activation: Activation = "none"

    @staticmethod
    def of(spec: EnvironmentSpec) -> "Head":
        """One Q value for each discrete action, or one number in [-1, 1] for each dimension of continuous actions."""
        return Head("action", spec.actions, "tanh") if spec.continuous else Head("q", spec.actions)


@dataclass(frozen=True)
class Architecture:
    """An MLP or a CNN with its head, which may be dueling.

    The CNNs are Nature's (Mnih et al. 2015), one for boards (grid), and that of Ong et al. 2015.

    `input_shape` is the shape of an observation as the policy sees it, without the batch axis; uint8 inputs are scaled
    to [0, 1]. With a dueling head (Wang et al. 2016), the value and advantage streams each have a layer of the last
    hidden width.

    A recurrent layer of `memory` units, `cell`, stands between the dense layers and the head. Its state of an
    environment is `state_size` (S) numbers: the output h, followed by an LSTM's cell state c.
    """

    input_shape: tuple[int, ...]
    input_dtype: str
    kind: Kind
    hidden: tuple[int, ...]
    head: Head
    dueling: bool = False
    cell: Cell = "none"
    memory: int = 0

    def __post_init__(self) -> None:
        size = self.layout.size
        require("hidden", self.hidden, size <= _MOST_PARAMETERS, _fewer(size))

    @staticmethod
    def of(
        spec: EnvironmentSpec,
        kind: Kind | Literal["auto"],
        hidden: tuple[int, ...],
        dueling: bool = False,
        head: Head | None = None,
        cell: Cell = "none",
        memory: int = 0,
    ) -> "Architecture":
        """Resolves the kind "auto"; raises ConfigError if the CNN can't take the observation.

        `head` is by default that of the environment's actions, see `Head.of()`.
        """
        frames = len(spec.input_shape) in (2, 3)
        side = min(spec.input_shape[-2:]) if frames else 0
        chosen = _natural_kind(spec, side) if kind == "auto" else kind
        if chosen != "mlp" and side < _SMALLEST[chosen]:
            smallest = _SMALLEST[chosen]
            raise ConfigError(
                f"network is {chosen}; it needs frames of at least {smallest}x{smallest} pixels, [H, W] or "
                f"[channels, H, W], and the environment's are {list(spec.input_shape)}: use mlp"
            )
        if dueling and not hidden:
            raise ConfigError("hidden is empty; a dueling head needs at least one hidden layer")
        architecture = Architecture(
            input_shape=spec.input_shape,
            input_dtype=spec.observation_dtype,
            kind=chosen,
            hidden=hidden,
            head=head or Head.of(spec),
            dueling=dueling,
            cell=cell,
            memory=memory,
        )
        require_parameters("hidden", hidden, architecture.layout.size)
        return architecture

    def to_record(self) -> dict[str, Any]:
        """The description as a JSON-able dict."""
        return asdict(self)

    @staticmethod
    def from_record(record: dict[str, Any]) -> "Architecture":
        """Reads the result of to_record(); raises ConfigError, which names the field, for anything else."""
        return read_fields(Architecture, record)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Shape [channels, H, W] of the CNN's input; a single frame is one channel."""
        channels, height, width = (1, *self.input_shape)[-3:]
        return channels, height, width

    @property
    def convolutions(self) -> tuple[Convolution, ...]:
        """The CNN's layers; none for an MLP."""
        layers = _CONVOLUTIONS[self.kind]
        return (layers[0]._replace(inputs=self.image_shape[0]), *layers[1:]) if layers else ()

    @property
    def features(self) -> int:
        """Number of inputs of the first dense layer."""
        if self.kind == "mlp":
            return prod(self.input_shape)
        channels, height, width = self.image_shape
        for layer in self.convolutions:
            channels, height, width = layer.outputs, layer.size(height), layer.size(width)
        return channels * height * width

    @property
    def torso(self) -> tuple[Dense, ...]:
        """Dense layers shared by all heads."""
        widths = self.hidden[:-1] if self.dueling else self.hidden
        sizes = (self.features, *widths)
        return tuple(
            Dense(f"dense_{index}", inputs, outputs, "relu") for index, (inputs, outputs) in enumerate(pairwise(sizes))
        )

    @property
    def encoded(self) -> int:
        """Number of outputs of the torso."""
        return self.torso[-1].outputs if self.torso else self.features

    @property
    def recurrent(self) -> bool:
        """Whether there is a recurrent layer."""
        return self.cell != "none"

    @property
    def state_size(self) -> int:
        """S, the numbers of an environment's state; 0 without a recurrent layer."""
        return {"none": 0, "gru": self.memory, "lstm": 2 * self.memory}[self.cell]

    @property
    def recurrence(self) -> tuple[Parameter, ...]:
        """The recurrent layer's parameters, as torch names and orders them: gates i, f, g, o, or r, z, n."""
        gates = {"none": 0, "gru": 3, "lstm": 4}[self.cell] * self.memory
        if not gates:
            return ()
        bound = 1 / sqrt(self.memory)
        shapes = {
            "weight_ih_l0": (gates, self.encoded),
            "weight_hh_l0": (gates, self.memory),
            "bias_ih_l0": (gates,),
            "bias_hh_l0": (gates,),
        }
        return tuple(Parameter(f"memory.{name}", shape, -bound, bound) for name, shape in shapes.items())

    @property
    def heads(self) -> tuple[tuple[Dense, ...], ...]:
        """One stream that ends in the head, or two that end in value and advantage."""
        inputs = self.memory if self.recurrent else self.encoded
        if not self.dueling:
            return ((Dense(self.head.name, inputs, self.head.outputs, self.head.activation),),)
        width = self.hidden[-1]
        return (
            (Dense("value_0", inputs, width, "relu"), Dense("value_1", width, 1, "none")),
            (Dense("advantage_0", inputs, width, "relu"), Dense("advantage_1", width, self.head.outputs, "none")),
        )

    @property
    def layout(self) -> Layout:
        """Weights and biases of all layers, as `{layer.weight: [...], layer.bias: [...]}`."""
        convolutions = (
            affine(layer.name, (layer.outputs, layer.inputs, layer.kernel, layer.kernel)) for layer in self.convolutions
        )
        torso = (affine(layer.name, (layer.outputs, layer.inputs)) for layer in self.torso)
        heads = (affine(layer.name, (layer.outputs, layer.inputs)) for layer in chain(*self.heads))
        return Layout((*chain(*convolutions, *torso, self.recurrence, *heads),))


def require_parameters(field: str, widths: tuple[int, ...], count: int) -> None:
    """Raises ConfigError if a network with these widths has more parameters than a learner on this machine can hold."""
    require(field, widths, count <= _MOST_PARAMETERS, _fewer(count))
    memory, needed = total_memory_bytes(), 4 * _COPIES * count
    fits = f"such that {count:,} parameters, which take {needed / 1e9:.1f} GB to learn, fit this machine's memory"
    require(field, widths, needed <= memory, f"{fits}, {memory / 1e9:.1f} GB")


def _fewer(count: int) -> str:
    return f"such that the network has at most {_MOST_PARAMETERS:,} parameters, not {count:,}"


def _natural_kind(spec: EnvironmentSpec, side: int) -> Kind:
    """Nature's CNN for images, or the CNN for boards if they have channels and are too small for it; else an MLP."""
    if spec.observation_dtype != "uint8" or side == 0:
        return "mlp"
    if side >= _SMALLEST["nature"]:
        return "nature"
    return "grid" if len(spec.input_shape) == 3 and side >= _SMALLEST["grid"] else "mlp"
