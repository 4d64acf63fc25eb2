"""A learner's network computed by torch; imported by the torch engine only."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.networks.base import Description
from headrace.networks.normalized_modules import NormalizedLinear
from headrace.networks.normalized_streams import Limits, NormalizedStreams
from headrace.networks.torch_modules import RecurrentModule
from headrace.types import Array, FlatVector

__all__ = ["NormalizedTorchNetwork", "RecurrentNetwork", "TorchNetwork"]

# Batches from another process are in read-only memory; nothing here writes to them.
warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
# The first backward() on a GPU runs in a thread without a CUDA context; torch creates one.
warnings.filterwarnings("ignore", "Attempting to run cuBLAS, but there was no current CUDA context", UserWarning)


class TorchNetwork:
    """A module over parameters [P] and, for backward(), their gradient [P], on their device; implements `Network`.

    The module's buffers become those of `buffers`, by name.
    """

    def __init__(
        self,
        description: Description,
        parameters: FlatVector,
        gradient: FlatVector | None = None,
        buffers: dict[str, Tensor] | None = None,
    ) -> None:
        vector = _tensor(parameters)
        with torch.device("meta"):
            self._module = description.build_torch()
        views = description.layout.views(vector)
        self._module.load_state_dict({**views, **(buffers or {})}, assign=True)
        self._module.train()  # cuDNN's recurrent layers have no backward otherwise; outputs are the same in both modes
        self._device = vector.device
        self._module.to(self._device)  # buffers; on a GPU it also copies recurrent layers' parameters out of the vector
        for name, view in views.items():
            self._module.get_parameter(name).data = view
        assert all(_lies_in(parameter, vector) for parameter in self._module.parameters())
        self._gradient = None if gradient is None else _tensor(gradient)
        if self._gradient is not None:
            for name, by_parameter in description.layout.views(self._gradient).items():
                self._module.get_parameter(name).grad = by_parameter
        self._leaves = [parameter for parameter in self._module.parameters() if parameter.requires_grad]
        self._last: Tensor | None = None
        self._y: Tensor | None = None

    def place(self, observation: Array) -> Tensor:
        """Observations on the device."""
        return torch.from_numpy(observation).to(self._device, non_blocking=True)

    @torch.no_grad()
    def output(self, *x: Any) -> NDArray[np.float32]:
        """Outputs [B, *]."""
        y: NDArray[np.float32] = self._module(*self._tensors(x)).cpu().numpy()
        return y

    def forward(self, *x: Any) -> NDArray[np.float32]:
        """The same; keeps torch's graph."""
        inputs = self._tensors(x)
        if len(inputs) > 1:
            self._last = inputs[-1].requires_grad_()
        self._y = self._module(*inputs)
        y: NDArray[np.float32] = self._y.detach().cpu().numpy()
        return y

    def backward(self, dy: NDArray[np.float32]) -> None:
        """Writes the gradient."""
        assert self._y is not None
        assert self._gradient is not None
        self._gradient.zero_()
        torch.autograd.backward(self._y, torch.from_numpy(dy).to(self._device), inputs=self._leaves)
        self._y = None

    def differentiate(self, dy: NDArray[np.float32]) -> NDArray[np.float32]:
        """The gradient by the last input; those by the parameters are not computed."""
        assert self._y is not None
        assert self._last is not None
        (dx,) = torch.autograd.grad(self._y, self._last, torch.from_numpy(dy).to(self._device))
        self._y = None
        result: NDArray[np.float32] = dx.cpu().numpy()
        return result

    def _tensors(self, x: tuple[Any, ...]) -> list[Tensor]:
        """Placed observations, and actions from NumPy."""
        return [x[0], *(torch.from_numpy(each).to(self._device) for each in x[1:])]


class NormalizedTorchNetwork(TorchNetwork):
    """The same with batch normalization; implements `NormalizedNetwork`.

    `statistics` [S] are the running ones; `change` [S] is the gradient of their vector.
    """

    def __init__(
        self,
        description: NormalizedStreams,
        parameters: FlatVector,
        gradient: FlatVector,
        statistics: FlatVector,
        change: FlatVector,
    ) -> None:
        running = _tensor(statistics)
        super().__init__(description, parameters, gradient, description.statistics.views(running))
        assert all(_lies_in(buffer, running) for buffer in self._module.buffers())
        self._changes = description.statistics.views(_tensor(change))
        self._layers = {
            name: module for name, module in self._module.named_modules() if isinstance(module, NormalizedLinear)
        }

    def forward_batch(self, limits: Limits, *x: Any) -> NDArray[np.float32]:
        """Outputs [B, *], by the batch's statistics; keeps torch's graph."""
        for layer in self._layers.values():
            layer.limits = limits
        y = self.forward(*x)
        for name, layer in self._layers.items():
            assert layer.measured is not None
            mean, variance = layer.measured
            layer.limits = layer.measured = None
            self._changes[f"{name}.mean"].copy_(layer.mean - mean)
            self._changes[f"{name}.variance"].copy_(layer.variance - variance)
        return y


def _tensor(vector: FlatVector) -> Tensor:
    """The vector's memory, also where the user's program has set another default device, to which others are copied."""
    return torch.from_numpy(vector) if isinstance(vector, np.ndarray) else vector


def _lies_in(parameter: Tensor, vector: Tensor) -> bool:
    """Whether a parameter is a view of the vector's memory."""
    begin = parameter.data_ptr() - vector.data_ptr()
    return parameter.device == vector.device and 0 <= begin <= vector.nbytes - parameter.nbytes


class RecurrentNetwork(TorchNetwork):
    """A network with a recurrent layer, on windows of T steps after up to b steps of burn-in.

    `burned` are placed observations [B, b, *input], of which the first `burn_in` [B] count; `state` [B, S] is the state
    before them, or before `observation`, placed, [B, T, *input], if none counts.
    """

    _module: RecurrentModule

    def advance(
        self, observation: Array, state: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Outputs [B, A] and next states [B, S] of one step: observations [B, *input] and states [B, S]."""
        with torch.no_grad():
            y, following = self._module.unroll(self.place(observation)[:, None], self.place(state))
            return y[:, 0].cpu().numpy(), following.cpu().numpy()

    def unroll(
        self, burned: Tensor, burn_in: NDArray[np.int64], state: NDArray[np.float32], observation: Tensor
    ) -> NDArray[np.float32]:
        """Outputs [B, T, A]."""
        with torch.no_grad():
            outputs, _ = self._module.unroll(observation, self._burn_in(burned, burn_in, state))
            y: NDArray[np.float32] = outputs.cpu().numpy()
            return y

    def forward_windows(
        self, burned: Tensor, burn_in: NDArray[np.int64], state: NDArray[np.float32], observation: Tensor
    ) -> NDArray[np.float32]:
        """The same, for backward(), which must be the next call: no gradient flows into the burn-in."""
        self._y, _ = self._module.unroll(observation, self._burn_in(burned, burn_in, state))
        y: NDArray[np.float32] = self._y.detach().cpu().numpy()
        return y

    @torch.no_grad()
    def _burn_in(self, burned: Tensor, burn_in: NDArray[np.int64], state: NDArray[np.float32]) -> Tensor:
        """States [B, S] after the burn-in."""
        states = self.place(state).clone()
        rows = torch.from_numpy(np.flatnonzero(burn_in))
        if len(rows):
            here = rows.to(self._device)
            states[here] = self._module.advance(burned[here], states[here], torch.from_numpy(burn_in)[rows])
        return states
