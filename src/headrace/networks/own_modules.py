"""Builds, checks and exports users' networks; imported only where torch computes."""

import io
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headrace.errors import ConfigError, error_line
from headrace.imports import import_user_module
from headrace.networks.architecture import Architecture, Head
from headrace.networks.graph_builder import OPSET
from headrace.networks.graph_names import INPUT
from headrace.networks.own_graph import OWN_OUTPUT
from headrace.networks.own_network import OwnNetwork, OwnParameter
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.records import ILLEGAL, draw_observations, split
from headrace.networks.session import open_session
from headrace.networks.torch_modules import part_values
from headrace.types import Array, EnvironmentSpec, Part

__all__ = ["OwnModule", "describe_own", "initial_values"]

_TOLERANCE = 1e-4  # relative to the largest |output|
_ALONE = threading.Lock()
"""Held while torch exports or draws random numbers: both use the state of the process."""
_BATCHES = (5, 1)  # the graph must not have the size of the batch with which it was exported


class OwnModule(nn.Module):
    """Maps observations [B, *input] of the environment's dtype to outputs [B, *] by a user's module.

    The user's module gets float32, and bytes scaled to [0, 1]; of a record, a dict of its parts by name, in which
    categories are int64, and not the action mask. Its buffers are constants.
    """

    def __init__(self, network: OwnNetwork) -> None:
        super().__init__()
        with torch.device("cpu"):  # also where others' parameters are only placeholders: buffers have values
            self.module = _call(network)
        for part in self.modules():
            for name, buffer in list(part.named_buffers(recurse=False)):
                part.register_buffer(name, buffer, persistent=False)
        self._spec = network.spec
        self._bounded = network.bounded
        self._build = network.build
        self.eval()

    def forward(self, observation: Tensor) -> Tensor:
        """Outputs [B, *]; those of actions that a mask excludes are ILLEGAL."""
        values = part_values(observation, self._spec)
        if not self._spec.masked:
            return self.compute(*values)
        return self.compute(*values[:-1]).masked_fill(values[-1] == 0, ILLEGAL)

    def compute(self, *values: Tensor) -> Tensor:
        """Outputs [B, *] of observations, or of their parts except for a mask, before a mask."""
        parts = inputs_of(self._spec)
        read = [_read(part, value) for part, value in zip(parts, values, strict=True)]
        names = (part.name for part in parts)
        y = self.module(dict(zip(names, read, strict=True)) if self._spec.parts else read[0])
        if not isinstance(y, Tensor):
            raise ConfigError(f"network is {self._build}: its output is a {type(y).__name__}; one tensor is required")
        return y.tanh() if self._bounded else y


class _Computation(nn.Module):
    """What is exported: compute() of a module."""

    def __init__(self, own: OwnModule) -> None:
        super().__init__()
        self.own = own

    def forward(self, *values: Tensor) -> Tensor:
        return self.own.compute(*values)


def inputs_of(spec: EnvironmentSpec) -> tuple[Part, ...]:
    """The parts that a user's module gets; an observation that is no record is one part."""
    whole = (Part(INPUT, spec.observation_dtype, spec.input_shape, 0),)
    return (spec.parts[:-1] if spec.masked else spec.parts) or whole


def _read(part: Part, value: Tensor) -> Tensor:
    if part.categories:
        return value.long()
    return value.float() * (1 / 255) if part.dtype == "uint8" else value.float()


def describe_own(build: str, spec: EnvironmentSpec, head: Head) -> Architecture:
    """Builds a user's module, checks it and exports it to ONNX.

    Raises ConfigError, which names the function, if it can't be called, if the output does not fit the actions, if the
    module is not a function of its parameters and the observation, or if ONNX can't express it.
    """
    network = OwnNetwork(build, spec, head.outputs, head.activation == "tanh")
    with _ALONE, torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        module = OwnModule(network)
        parameters = _parameters(module, build)
        for parameter in module.parameters():  # equal parameters would be one initializer of the graph
            parameter.add_(0.01 * torch.randn_like(parameter))
        observation = draw_observations(np.random.default_rng(0), _BATCHES[0], spec)
        _check_output(module, network, observation)
        model = _export(module, network, observation)
    network = replace(network, parameters=parameters, graph=OwnNetwork.pack(_without_values(model, parameters)))
    architecture = Architecture(
        spec.input_shape, spec.observation_dtype, "mlp", (), head, parts=spec.parts, own=network
    )
    _compare(architecture, module, observation)
    return architecture


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
    except ConfigError:
        raise
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
    if not any(parameter.requires_grad for _, parameter in named):
        raise ConfigError(f"{field}: requires_grad is False for every parameter; at least one must be trained")
    seen: dict[int, str] = {}
    for name, parameter in named:
        shown = name.removeprefix("module.")
        if isinstance(parameter, nn.UninitializedParameter):
            raise ConfigError(f"{field}: parameter {shown} has no shape yet, as in a lazy layer; a shape is required")
        if parameter.dtype != torch.float32:
            raise ConfigError(f"{field}: parameter {shown} is {parameter.dtype}; float32 is required")
        other = seen.setdefault(id(parameter), shown)
        if other != shown:
            raise ConfigError(f"{field}: parameters {other} and {shown} are the same; one name for each is required")
    return tuple(OwnParameter(name, tuple(each.shape), each.requires_grad) for name, each in named)


def _check_output(module: OwnModule, network: OwnNetwork, observation: Array) -> None:
    field, inputs = f"network is {network.build}", torch.from_numpy(observation)
    values = part_values(inputs, network.spec)[: len(inputs_of(network.spec))]
    unchanged = [value.clone() for value in values]
    try:
        y, again = module.compute(*values), module.compute(*values)
        trained = module.train().compute(*values)
    except ConfigError:
        raise
    except Exception as error:
        parts = zip(inputs_of(network.spec), values, strict=True)
        shown = ", ".join(f"{part.name} {list(value.shape)}" for part, value in parts)
        raise ConfigError(f"{field}: for {shown} the module raised {_one_line(error)}") from error
    finally:
        module.eval()
    if not all(map(torch.equal, values, unchanged)):
        raise ConfigError(
            f"{field}: the module changes its input in place, as with clamp_(); observations are used again and must "
            "stay as they are"
        )
    wanted = [len(observation), network.outputs]
    if list(y.shape) != wanted or y.dtype != torch.float32:
        raise ConfigError(
            f"{field}: its output for {len(observation)} observations is {y.dtype} {list(y.shape)}; it must be "
            f"torch.float32 {wanted}, one number for each of {network.outputs} outputs"
        )
    if not torch.isfinite(y).all():
        raise ConfigError(f"{field}: its output has values that are not finite; every value must be finite")
    if not torch.allclose(y, again, rtol=1e-4, atol=1e-4):
        raise ConfigError(
            f"{field}: two outputs for the same observations differ; it must depend on parameters and observation only"
        )
    if not torch.allclose(y, trained, rtol=1e-4, atol=1e-4):
        raise ConfigError(
            f"{field}: its output in training mode differs from that in evaluation mode, as with dropout or batch "
            "normalization; it must depend on parameters and observation only"
        )


def _export(module: OwnModule, network: OwnNetwork, observation: Array) -> onnx.ModelProto:
    """The ONNX model with the parameters as initializers of their names."""
    buffer, parts, field = io.BytesIO(), inputs_of(network.spec), f"network is {network.build}"
    names = [part.name for part in parts]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                _Computation(module),
                tuple(part_values(torch.from_numpy(observation), network.spec)[: len(parts)]),
                buffer,  # type: ignore[arg-type]  # a file in memory, which this exporter takes
                input_names=names,
                output_names=[OWN_OUTPUT],
                dynamic_axes={name: {0: "B"} for name in (*names, OWN_OUTPUT)},
                opset_version=OPSET,
                do_constant_folding=False,
                dynamo=False,  # torch's newer exporter needs another package, and changes the parameters' names
            )
    except Exception as error:
        raise ConfigError(f"{field}: ONNX can't express the module: {_one_line(error)}") from error
    model = onnx.load_model_from_string(buffer.getvalue())
    _rename(model)
    nested = {node.op_type for node in model.graph.node if any(each.HasField("g") for each in node.attribute)}
    foreign = {node.op_type for node in model.graph.node if node.domain} | nested
    if foreign:
        raise ConfigError(
            f"{field}: its ONNX graph has the operator {min(foreign)}; one without control flow and of "
            "standard operators is required"
        )
    return model


def _rename(model: onnx.ModelProto) -> None:
    """Gives the parameters the names that they have in an `OwnModule`."""
    for tensor in model.graph.initializer:
        tensor.name = tensor.name.removeprefix("own.")
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = name.removeprefix("own.")


def _without_values(model: onnx.ModelProto, parameters: tuple[OwnParameter, ...]) -> onnx.ModelProto:
    names = {parameter.name for parameter in parameters}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            tensor.ClearField("raw_data")
    return model


def _compare(architecture: Architecture, module: OwnModule, observation: Array) -> None:
    """Raises ConfigError if ONNX Runtime's outputs are not those of torch."""
    assert architecture.own is not None
    field = f"network is {architecture.own.build}"
    try:
        session = open_session(PolicyGraph(architecture).serialize(_values(module)))
    except Exception as error:  # ONNX Runtime's errors have no common class
        raise ConfigError(f"{field}: ONNX Runtime can't load its graph: {_one_line(error)}") from error
    for count in _BATCHES:
        inputs = observation[:count]
        with torch.no_grad():
            expected = module(torch.from_numpy(inputs)).numpy()
        try:
            parts = split(inputs, architecture.parts) if architecture.parts else {INPUT: inputs}
            found = session.run(None, parts)[0]
        except Exception as error:
            raise ConfigError(
                f"{field}: its ONNX graph can't compute {count} observations: {_one_line(error)}"
            ) from error
        difference = float(np.abs(found - expected).max()) if found.shape == expected.shape else float("inf")
        largest = float(np.abs(expected[expected != ILLEGAL]).max(initial=1.0))
        if not difference <= _TOLERANCE * largest:
            raise ConfigError(
                f"{field}: its ONNX graph and torch differ by {difference:.2e} for {count} observations; at most "
                f"{_TOLERANCE:g} of the largest output is required: code that depends on the observations' values, or "
                "on the size of the batch as a number, can't be exported"
            )


def _values(module: OwnModule) -> dict[str, NDArray[np.float32]]:
    return {name: parameter.detach().numpy().copy() for name, parameter in module.named_parameters()}


def _one_line(error: BaseException) -> str:
    text = error_line(error)
    return text if len(text) <= 300 else f"{text[:300]}..."
