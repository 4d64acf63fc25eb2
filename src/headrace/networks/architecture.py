"""The description from which a policy's network is built."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, pairwise
from math import prod, sqrt
from typing import Any, Literal, NamedTuple, cast

from headrace.errors import ConfigError, require
from headrace.fields import read_fields
from headrace.machine import total_memory_bytes
from headrace.networks.layout import Layout, Parameter, affine
from headrace.networks.own_network import OwnNetwork
from headrace.networks.records import width
from headrace.types import EnvironmentSpec, Part

__all__ = [
    "Activation",
    "Architecture",
    "Cell",
    "Convolution",
    "Dense",
    "Encoder",
    "Head",
    "Kind",
    "require_parameters",
]

Activation = Literal["relu", "tanh", "none"]

Cell = Literal["none", "lstm", "gru"]

Kind = Literal["mlp", "nature", "grid", "minatar", "ong"]


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
    "minatar": (Convolution("convolution_0", 0, 16, 3),),  # Young and Tian 2019
    "ong": (  # Ong et al. 2015
        Convolution("convolution_0", 0, 32, 7, padding=3, pool=2),
        Convolution("convolution_1", 32, 64, 5, padding=2, pool=2),
        Convolution("convolution_2", 64, 64, 3, padding=1, pool=2),
    ),
}
_SMALLEST = {"nature": 36, "grid": 5, "minatar": 3, "ong": 8}
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


class Encoder(NamedTuple):
    """What turns one part of an observation into inputs of the first dense layer: a CNN, or nothing."""

    part: Part
    stack: int = 1
    """Number of frames; if above 1, it is the first axis of the part's shape."""
    may_be_image: bool = False
    """Whether a CNN can take it: among other parts, only bytes are images."""
    channels_last: bool = False
    """Whether an image is [H, W, channels]."""
    convolutions: tuple[Convolution, ...] = ()

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Shape [channels, H, W] of the CNN's input: the channels of all frames, one for a frame [H, W]."""
        channels, height, width = (1, *_frame(self.part.shape, self.stack))[-3:]
        if self.channels_last:
            channels, height, width = width, channels, height
        return self.stack * channels, height, width

    @property
    def side(self) -> int:
        """The smaller one of an image's numbers of rows and columns."""
        return min(self.image_shape[1:])

    @property
    def features(self) -> int:
        """Number of outputs."""
        if not self.convolutions:
            return width(self.part)
        channels, height, width_ = self.image_shape
        for layer in self.convolutions:
            channels, height, width_ = layer.outputs, layer.size(height), layer.size(width_)
        return channels * height * width_

    @property
    def scaled(self) -> bool:
        """Whether the part has bytes that are scaled to [0, 1]."""
        return self.part.dtype == "uint8" and not self.part.categories

    @property
    def reads_values(self) -> bool:
        """Whether its outputs may be negative or have any units."""
        return not (self.convolutions or self.part.categories or (self.scaled and self.may_be_image))


@dataclass(frozen=True)
class Head:
    """The last layer of a policy's network: its name, its width and its activation.

    If `masked`, the observation's last part is a mask, and outputs of actions that it excludes become ILLEGAL
    (`records.py`).
    """

    name: str
    outputs: int
    activation: Activation = "none"
    masked: bool = False

    @staticmethod
    def of(spec: EnvironmentSpec) -> "Head":
        """One Q value for each discrete action, or one number in [-1, 1] for each dimension of continuous actions."""
        if spec.continuous:
            return Head("action", spec.actions, "tanh")
        return Head("q", spec.actions, masked=spec.masked)


@dataclass(frozen=True)
class Architecture:
    """An MLP or a CNN with its head, which may be dueling.

    The CNNs are Nature's (Mnih et al. 2015), one for boards (grid), MinAtar's (Young and Tian 2019), and that of Ong et
    al. 2015.

    `input_shape` is the shape of an observation as the policy sees it, without the batch axis; uint8 inputs are scaled
    to [0, 1]. If `stack` is above 1, its first axis is that of a stack of frames. With a dueling head (Wang et al.
    2016), the value and advantage streams each have a layer of the last hidden width. If the input is a record with
    `parts`, each image goes through a separate CNN, categories become one-hot, and the dense layers read all parts side
    by side. An image that is too small for the CNN goes through the one for boards, or is flattened. With `own`, the
    policy is this network of a user, and `kind`, `hidden` and `dueling` describe no layers.

    A recurrent layer of `memory` units, `cell`, stands between the dense layers and the head. Its state of an
    environment is `state_size` (S) numbers: the output h, followed by an LSTM's cell state c.
    """

    input_shape: tuple[int, ...]
    input_dtype: str
    kind: Kind
    hidden: tuple[int, ...]
    head: Head
    dueling: bool = False
    parts: tuple[Part, ...] = ()
    own: OwnNetwork | None = None
    cell: Cell = "none"
    memory: int = 0
    stack: int = 1

    def __post_init__(self) -> None:
        size, (field, value) = self.layout.size, self._size_setting
        require(field, value, size <= _MOST_PARAMETERS, _fewer(size))
        if self.head.masked:
            actions, outputs = prod(self.parts[-1].shape) if self.parts else 0, self.head.outputs
            require("head", f"masked, with {outputs} outputs", outputs == actions, f"one with {actions}, as the mask")

    @staticmethod
    def of(
        spec: EnvironmentSpec,
        kind: str,
        hidden: tuple[int, ...],
        dueling: bool = False,
        head: Head | None = None,
        cell: Cell = "none",
        memory: int = 0,
    ) -> "Architecture":
        """Resolves the kind "auto"; raises ConfigError if the network can't take the observation.

        `kind` is a `Kind`, "auto" or "package.module:function", which returns a torch module. `head` is by default
        that of the environment's actions, see `Head.of()`.
        """
        if ":" in kind:
            require("network", kind, cell == "none", "a built-in one, with a recurrent layer")
            return Architecture._of_own(spec, kind, dueling, head or Head.of(spec))
        encoders = _encoders(spec.input_shape, spec.observation_dtype, spec.parts, spec.stack)
        images = [each for each in encoders if each.may_be_image]
        chosen = _natural_kind(images) if kind == "auto" else cast("Kind", kind)
        if chosen != "mlp" and not any(image.side >= _SMALLEST[chosen] for image in images):
            smallest = _SMALLEST[chosen]
            shapes = [list(image.part.shape) for image in images] if spec.parts else list(spec.observation_shape)
            raise ConfigError(
                f"network is {chosen}; it needs frames of at least {smallest}x{smallest} pixels, [H, W], "
                f"[channels, H, W] or [H, W, channels], and the environment's are {shapes}: use mlp"
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
            parts=spec.parts,
            cell=cell,
            memory=memory,
            stack=spec.stack,
        )
        require_parameters("hidden", hidden, architecture.layout.size)
        return architecture

    @staticmethod
    def _of_own(spec: EnvironmentSpec, build: str, dueling: bool, head: Head) -> "Architecture":
        try:
            import torch  # noqa: F401 (an extra)
        except ImportError as error:
            needs = f"network is {build}, which needs torch ({error})"
            raise ConfigError(f"{needs}: pip install 'headrace[torch]'") from error
        from headrace.networks.own_modules import describe_own

        require("dueling", dueling, not dueling, f"false with network {build}, which has its own head")
        architecture = describe_own(build, spec, head)
        require_parameters("network", build, architecture.layout.size)
        return architecture

    @property
    def _size_setting(self) -> tuple[str, object]:
        """The setting that determines the number of parameters, and its value."""
        return ("network", self.own.build) if self.own else ("hidden", self.hidden)

    def to_record(self) -> dict[str, Any]:
        """The description as a JSON-able dict."""
        return asdict(self)

    @staticmethod
    def from_record(record: dict[str, Any]) -> "Architecture":
        """Reads the result of to_record(); raises ConfigError, which names the field, for anything else."""
        return read_fields(Architecture, record)

    @cached_property
    def encoders(self) -> tuple[Encoder, ...]:
        """One for each part, or one for the input if it has no parts."""
        encoders = _encoders(self.input_shape, self.input_dtype, self.parts, self.stack)
        return tuple(
            each._replace(convolutions=self._convolutions_of(each, f"image_{index}_" if self.parts else ""))
            for index, each in enumerate(encoders)
        )

    def _convolutions_of(self, encoder: Encoder, prefix: str) -> tuple[Convolution, ...]:
        if self.kind == "mlp" or not encoder.may_be_image:
            return ()
        layers = _CONVOLUTIONS[self.kind if encoder.side >= _SMALLEST[self.kind] else _natural_kind([encoder])]
        if not layers:
            return ()
        first = layers[0]._replace(inputs=encoder.image_shape[0])
        return tuple(layer._replace(name=prefix + layer.name) for layer in (first, *layers[1:]))

    @property
    def convolutions(self) -> tuple[Convolution, ...]:
        """The layers of all CNNs; none for an MLP."""
        return tuple(layer for encoder in self.encoders for layer in encoder.convolutions)

    @property
    def features(self) -> int:
        """Number of inputs of the first dense layer."""
        return sum(encoder.features for encoder in self.encoders)

    @property
    def native_input(self) -> tuple[int, bool]:
        """Width of an MLP's input on the native engine, and whether it is of bytes, as `DenseNetwork` takes it."""
        return self.features, self.input_dtype == "uint8" and not self.parts

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
        """Weights and biases of all layers, as `{layer.weight: [...], layer.bias: [...]}`, or those of `own`."""
        if self.own:
            return self.own.layout
        convolutions = (
            affine(layer.name, (layer.outputs, layer.inputs, layer.kernel, layer.kernel)) for layer in self.convolutions
        )
        torso = (affine(layer.name, (layer.outputs, layer.inputs)) for layer in self.torso)
        heads = (affine(layer.name, (layer.outputs, layer.inputs)) for layer in chain(*self.heads))
        return Layout((*chain(*convolutions, *torso, self.recurrence, *heads),))


def require_parameters(field: str, widths: object, count: int) -> None:
    """Raises ConfigError if a network has more parameters than a learner on this machine can hold."""
    require(field, widths, count <= _MOST_PARAMETERS, _fewer(count))
    memory, needed = total_memory_bytes(), 4 * _COPIES * count
    fits = f"such that {count:,} parameters, which take {needed / 1e9:.1f} GB to learn, fit this machine's memory"
    require(field, widths, needed <= memory, f"{fits}, {memory / 1e9:.1f} GB")


def _fewer(count: int) -> str:
    return f"such that the network has at most {_MOST_PARAMETERS:,} parameters, not {count:,}"


def _frame(shape: tuple[int, ...], stack: int) -> tuple[int, ...]:
    return shape[1:] if stack > 1 else shape


def _encoders(shape: tuple[int, ...], dtype: str, parts: tuple[Part, ...], stack: int) -> list[Encoder]:
    """One for each part, or one for the input if it has no parts; without their CNNs."""
    encoders = []
    for part in parts or (Part("observation", dtype, shape, 0),):
        frame = _frame(part.shape, stack)
        image = len(frame) in (2, 3) and (not parts or (part.dtype == "uint8" and not part.categories))
        encoders.append(Encoder(part, stack, may_be_image=image, channels_last=image and _has_channels_last(frame)))
    return encoders


def _has_channels_last(shape: tuple[int, ...]) -> bool:
    """Whether an image is [H, W, channels]: the two equal sizes are H and W; else the smaller end has the channels."""
    if len(shape) == 2:
        return False
    first, middle, last = shape
    return first == middle if (first == middle) != (middle == last) else last < first


def _natural_kind(encoders: Sequence[Encoder]) -> Kind:
    """Nature's CNN if the largest image is large enough, that for boards if one with channels is, otherwise an MLP."""
    images = [each for each in encoders if each.may_be_image and each.part.dtype == "uint8"]
    if any(image.side >= _SMALLEST["nature"] for image in images):
        return "nature"
    boards = [image for image in images if len(image.part.shape) > 2]  # with channels, or several frames
    return "grid" if any(image.side >= _SMALLEST["grid"] for image in boards) else "mlp"
