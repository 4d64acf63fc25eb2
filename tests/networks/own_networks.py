"""Users' networks for tests."""

import torch
from torch import Tensor, nn

from headrace.types import EnvironmentSpec


class Flat(nn.Sequential):
    def forward(self, observation: Tensor) -> Tensor:
        y: Tensor = super().forward(observation.flatten(1))
        return y


def wide(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    """A dense network with a normalization, a buffer and a layer that int8 computes in integers."""
    numbers = 1
    for size in spec.input_shape:
        numbers *= size
    return Scaled(
        Flat(
            nn.Linear(numbers, 64),
            nn.LayerNorm(64),
            nn.ReLU(),
            nn.Linear(64, 96),
            nn.ReLU(),
            nn.Linear(96, outputs),
        )
    )


class Scaled(nn.Module):
    """Its constant factor is a buffer."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("factor", torch.full((), 2.0))

    def forward(self, observation: Tensor) -> Tensor:
        y: Tensor = self.factor * self.inner(observation)
        return y


class Embedded(nn.Module):
    """An embedding of one part and the numbers of another."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.cells = nn.Embedding(5, 3)
        self.head = nn.Linear(5, outputs)

    def forward(self, parts: dict[str, Tensor]) -> Tensor:
        cell = self.cells(parts["observation.cell"])
        y: Tensor = self.head(torch.cat((cell, parts["observation.goal"]), 1))
        return y


def embedded(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    assert [part.name for part in spec.parts][:2] == ["observation.cell", "observation.goal"]
    return Embedded(outputs)


class Torso(nn.Module):
    """A convolution and a layer without a bias."""

    def __init__(self, side: int, outputs: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3)
        self.head = nn.Linear(4 * (side - 2) ** 2, outputs, bias=False)

    def forward(self, observation: Tensor) -> Tensor:
        y: Tensor = self.head(self.convolution(observation.unsqueeze(1)).relu().flatten(1))
        return y


def image(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Torso(spec.input_shape[0], outputs)


def fixed(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    """Its first layer is not trained."""
    module = Flat(nn.Linear(spec.input_shape[0], 8), nn.Tanh(), nn.Linear(8, outputs))
    module[0].requires_grad_(False)
    return module


def too_wide(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Flat(nn.Linear(spec.input_shape[0], outputs + 1))


def dropout(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Flat(nn.Linear(spec.input_shape[0], 64), nn.Dropout(), nn.Linear(64, outputs))


def doubles(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Flat(nn.Linear(spec.input_shape[0], outputs)).double()


def tied(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    first, second = nn.Linear(spec.input_shape[0], outputs), nn.Linear(spec.input_shape[0], outputs)
    second.weight = first.weight
    return nn.ModuleList([first, second])


def empty(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    del spec, outputs
    return nn.Flatten()


def raises(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    raise ValueError(f"{spec.input_shape} and {outputs}\nare too small")


def no_module(spec: EnvironmentSpec, outputs: int) -> int:
    return outputs + len(spec.input_shape)


class Inverse(nn.Module):
    """ONNX has no operator for it."""

    def __init__(self, numbers: int, outputs: int) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.eye(numbers))
        self.head = nn.Linear(numbers, outputs)

    def forward(self, observation: Tensor) -> Tensor:
        y: Tensor = self.head(observation @ torch.linalg.pinv(self.matrix))
        return y


def inverse(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Inverse(spec.input_shape[0], outputs)


class Counting(Flat):
    """Its result depends on the size of the batch as a number."""

    def forward(self, observation: Tensor) -> Tensor:
        return super().forward(observation) * float(len(observation))


def counting(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Counting(nn.Linear(spec.input_shape[0], outputs))


number = 3


class Pair(Flat):
    def forward(self, observation: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return super().forward(observation), None


def pair(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Pair(nn.Linear(spec.input_shape[0], outputs))


def lazy(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    del spec
    return Flat(nn.LazyLinear(outputs))


class Clamping(Flat):
    def forward(self, observation: Tensor) -> Tensor:
        return super().forward(observation.clamp_(-1, 1))


def clamping(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Clamping(nn.Linear(spec.input_shape[0], outputs))


def frozen(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Flat(nn.Linear(spec.input_shape[0], outputs)).requires_grad_(False)


class Logarithm(Flat):
    """Not a number wherever its layer's output is negative."""

    def forward(self, observation: Tensor) -> Tensor:
        return super().forward(observation).log()


def logarithm(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Logarithm(nn.Linear(spec.input_shape[0], outputs))


class Noisy(Flat):
    def forward(self, observation: Tensor) -> Tensor:
        y = super().forward(observation)
        return y + torch.rand_like(y)


def noisy(spec: EnvironmentSpec, outputs: int) -> nn.Module:
    return Noisy(nn.Linear(spec.input_shape[0], outputs))
