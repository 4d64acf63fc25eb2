"""Builds, checks and exports users' networks; imported only where torch computes."""

import io
import threading
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headrace.errors import ConfigError
from headrace.imports import import_user_module
from headrace.networks.graph_builder import OPSET
from headrace.networks.graph_template import GraphTemplate
from headrace.networks.own_network import OwnNetwork, OwnParameter
from headrace.networks.policy_graph import INPUT, OUTPUT
from headrace.networks.session import open_session
from headrace.types import Array, EnvironmentSpec

__all__ = ["OwnModule", "describe_own", "initial_values"]

_TOLERANCE = 1e-4  # relative to the largest |output|
_ALONE = threading.Lock()
"""Held while torch exports or draws random numbers: both use the state of the process."""
_BATCHES = (5, 1)  # the graph must not have the size of the batch with which it was exported


class OwnModule(nn.Module):
    """Maps observations [B, *input] of the environment's dtype to outputs [B, *] by a user's module.

    The user's module gets float32, and bytes scaled to [0, 1]. Its buffers are constants.
    """

    def __init__(self, network: OwnNetwork) -> None:
        super().__init__()
        with torch.device("cpu"):  # also where others' parameters are only placeholders: buffers have values
            self.module = _call(network)
        for part in self.modules():
            for name, buffer in list(part.named_buffers(recurse=False)):
                part.register_buffer(name, buffer, persistent=False)
        self._scale = 1 / 255 if network.spec.observation_dtype == "uint8" else None
        self._bounded = network.bounded
        self.eval()

    def forward(self, observation: Tensor) -> Tensor:
        """Outputs [B, *]."""
        x = observation.float()
        y: Tensor = self.module(x if self._scale is None else x * self._scale)
        return y.tanh() if self._bounded else y


def describe_own(build: str, spec: EnvironmentSpec, outputs: int, bounded: bool) -> OwnNetwork:
    """Builds a user's module, checks it and exports it to ONNX.

    Raises ConfigError, which names the function, if it can't be called, if the output does not fit the actions, if the
    module is not a function of its parameters and the observation, or if ONNX can't express it.
    """
    network = OwnNetwork(build, spec, outputs, bounded)
    with _ALONE, torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        module = OwnModule(network)
        parameters = _parameters(module, build)
        for parameter in module.parameters():  # equal parameters would be one initializer of the graph
            parameter.add_(0.01 * torch.randn_like(parameter))
        observation = _observations(spec)
        _check_output(module, network, observation)
        model = _export(module, build, observation)
    network = replace(network, parameters=parameters, graph=OwnNetwork.pack(_without_values(model, parameters)))
    _compare(network, module, observation)
    return network


def initial_values(network: OwnNetwork, seed: int) -> dict[str, NDArray[np.float32]]:
    """The parameters of a new module, by name."""
    with _ALONE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = OwnModule(network)
    return _values(module)


def _call(network: OwnNetwork) -> nn.Module:
    """The module that the user's function returns."""
    field, (module_name, _, name) = f"network is {network.build}", network.build.partition(":")
    try:
        found = import_user_module(module_name)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise ConfigError(f'{field}: module "{module_name}" can\'t be imported: {_one_line(error)}') from error
    build: Callable[..., Any] | None = getattr(found, name, None)
    if not callable(build):
        raise ConfigError(f'{field}: module "{module_name}" has no function "{name}"')
    try:
        module = build(network.spec, network.outputs)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{field}: the function raised {_one_line(error)}") from error
    if not isinstance(module, nn.Module):
        raise ConfigError(f"{field}: the function returned {type(module).__name__}; a torch.nn.Module is required")
    return module


def _parameters(module: OwnModule, build: str) -> tuple[OwnParameter, ...]:
    field = f"network is {build}"
    named = list(module.named_parameters(remove_duplicate=False))
    if not named:
        raise ConfigError(f"{field}: the module has no parameters; at least one is required")
    seen: dict[int, str] = {}
    for name, parameter in named:
        shown = name.removeprefix("module.")
        if parameter.dtype != torch.float32:
            raise ConfigError(f"{field}: parameter {shown} is {parameter.dtype}; float32 is required")
        other = seen.setdefault(id(parameter), shown)
        if other != shown:
            raise ConfigError(f"{field}: parameters {other} and {shown} are the same; one name for each is required")
    return tuple(OwnParameter(name, tuple(parameter.shape)) for name, parameter in named)


def _observations(spec: EnvironmentSpec) -> Array:
    random, shape = np.random.default_rng(0), (_BATCHES[0], *spec.input_shape)
    if spec.observation_dtype == "uint8":
        return random.integers(0, 256, shape, np.uint8)
    return random.standard_normal(shape).astype(spec.observation_dtype)


def _check_output(module: OwnModule, network: OwnNetwork, observation: Array) -> None:
    field, inputs = f"network is {network.build}", torch.from_numpy(observation)
    try:
        y = module(inputs)
        trained = module.train()(inputs)
    except Exception as error:
        raise ConfigError(
            f"{field}: for observations {list(observation.shape)} the module raised {_one_line(error)}"
        ) from error
    finally:
        module.eval()
    wanted = [len(observation), network.outputs]
    if list(y.shape) != wanted or y.dtype != torch.float32:
        raise ConfigError(
            f"{field}: its output for {len(observation)} observations is {y.dtype} {list(y.shape)}; it must be "
            f"torch.float32 {wanted}, one number for each of {network.outputs} outputs"
        )
    if not torch.allclose(y, trained, rtol=1e-4, atol=1e-4):
        raise ConfigError(
            f"{field}: its output in training mode differs from that in evaluation mode, as with dropout or batch "
            "normalization; it must depend on parameters and observation only"
        )


def _export(module: OwnModule, build: str, observation: Array) -> onnx.ModelProto:
    """The ONNX model with the parameters as initializers of their names."""
    buffer = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                (torch.from_numpy(observation),),
                buffer,  # type: ignore[arg-type]  # a file in memory, which this exporter takes
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_axes={INPUT: {0: "B"}, OUTPUT: {0: "B"}},
                opset_version=OPSET,
                do_constant_folding=False,
                dynamo=False,  # torch's newer exporter needs another package, and changes the parameters' names
            )
    except Exception as error:
        raise ConfigError(f"network is {build}: ONNX can't express the module: {_one_line(error)}") from error
    model = onnx.load_model_from_string(buffer.getvalue())
    nested = {node.op_type for node in model.graph.node if any(each.HasField("g") for each in node.attribute)}
    foreign = {node.op_type for node in model.graph.node if node.domain} | nested
    if foreign:
        raise ConfigError(
            f"network is {build}: its ONNX graph has the operator {min(foreign)}; one without control flow and of "
            "standard operators is required"
        )
    return model


def _without_values(model: onnx.ModelProto, parameters: tuple[OwnParameter, ...]) -> onnx.ModelProto:
    names = {parameter.name for parameter in parameters}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            tensor.ClearField("raw_data")
    return model


def _compare(network: OwnNetwork, module: OwnModule, observation: Array) -> None:
    """Raises ConfigError if ONNX Runtime's outputs are not those of torch."""
    field = f"network is {network.build}"
    try:
        session = open_session(GraphTemplate(network.model).fill(_values(module)))
    except Exception as error:  # ONNX Runtime's errors have no common class
        raise ConfigError(f"{field}: ONNX Runtime can't load its graph: {_one_line(error)}") from error
    for count in _BATCHES:
        inputs = observation[:count]
        with torch.no_grad():
            expected = module(torch.from_numpy(inputs)).numpy()
        try:
            found = session.run(None, {INPUT: inputs})[0]
        except Exception as error:
            raise ConfigError(
                f"{field}: its ONNX graph can't compute {count} observations: {_one_line(error)}"
            ) from error
        difference = float(np.abs(found - expected).max()) if found.shape == expected.shape else float("inf")
        if not difference <= _TOLERANCE * max(1.0, float(np.abs(expected).max())):
            raise ConfigError(
                f"{field}: its ONNX graph and torch differ by {difference:.2e} for {count} observations; at most "
                f"{_TOLERANCE:g} of the largest output is required: code that depends on the observations' values, or "
                "on the size of the batch as a number, can't be exported"
            )


def _values(module: OwnModule) -> dict[str, NDArray[np.float32]]:
    return {name: parameter.detach().numpy().copy() for name, parameter in module.named_parameters()}


def _one_line(error: BaseException) -> str:
    text = " ".join(traceback.format_exception_only(error)[-1].split())
    return text if len(text) <= 300 else f"{text[:300]}..."
