"""Builds a run's learner side and program from its settings."""

import contextlib
from functools import partial
from typing import NamedTuple

from headrace.algorithms.base import Updater
from headrace.algorithms.engine import suits_gpu
from headrace.environments import describe
from headrace.errors import ConfigError
from headrace.servers import RunServer
from headrace.settings import RunConfig
from headrace.topologies.base import Program, RunContext
from headrace.topologies.config import Topology
from headrace.training.hardware import choose_device
from headrace.types import EnvironmentSpec

__all__ = ["Assembly", "assemble", "find_device", "given_device"]


class Assembly(NamedTuple):
    """The parts of a run in the training process."""

    spec: EnvironmentSpec
    device: str
    """The learner's."""
    updater: Updater
    program: Program
    topology: Topology
    """With its precision resolved."""
    note: str
    """A note on the precision for the user; may be empty."""


def assemble(config: RunConfig, server: RunServer, *, run_id: str, fresh: bool, generation: int) -> Assembly:
    """Builds them; raises ConfigError if settings are incompatible. See `RunContext` and `Topology`.

    What an earlier run left on the server is dropped as late as possible, so that most mistakes cost nothing.
    """
    config.topology.require_algorithm(config.algorithm)
    spec = describe(config.environment)
    device = find_device(config, spec)
    config.algorithm.require_spaces(spec)
    config.topology.require_run(config.algorithm, spec, server)
    shares_replay = config.topology.shares_replay(config.algorithm)  # then the new table replaces the earlier one
    begin = partial(server.begin, fresh=fresh and not shares_replay)
    vectors = config.topology.open_vectors(config.algorithm, server.endpoint, run_id, begin)
    with contextlib.ExitStack() as undo:
        if vectors is not None:
            undo.callback(vectors.close)
        updater = config.algorithm.make_updater(spec, device, config.seed, vectors, config.learner_engine)
        if vectors is not None and not vectors.handles:
            raise ConfigError(
                f"algorithm is {config.algorithm.name}, whose updater has not called open_vector, and topology is "
                f"{config.topology.name}, whose workers share parameters so: a call for each optimizer, or topology "
                f"{config.topology.names_without_workers()}, is required"
            )
        if spec.masked:  # which an updater's network may differ in from what its settings say
            config.algorithm.require_masked(updater.architecture)
        topology, note = config.topology.resolved(updater.architecture)
        context = RunContext(
            environment=config.environment,
            spec=spec,
            seed=config.seed,
            algorithm=config.algorithm,
            updater=updater,
            server=server,
            fresh=fresh,
            run_id=run_id,
            vectors=vectors,
            engine=config.learner_engine,
        )
        program = topology.make_program(context, generation=generation, pinned=device != "cpu")
        undo.pop_all()
    return Assembly(spec, device, updater, program, topology, note)


def given_device(config: RunConfig) -> str | None:
    """The learner's device; None if it is "auto".

    Raises ConfigError if the device is not available here, or not for the topology.
    """
    if config.device == "auto":
        return None
    device = choose_device(config.device)
    if config.topology.has_workers and device != "cpu":
        raise ConfigError(
            f"device is {config.device} and topology is {config.topology.name}, whose workers learn on the CPU: "
            f"cpu or auto is required, or topology {config.topology.names_without_workers()}"
        )
    return device


def find_device(config: RunConfig, spec: EnvironmentSpec) -> str:
    """The learner's device; "auto" is a GPU, if there is one, for networks that suit it. Workers learn on the CPU.

    Raises ConfigError as given_device(), or if the algorithm does not take the environment's spaces.
    """
    device, algorithm = given_device(config), config.algorithm
    if device is not None:
        return device
    if config.topology.has_workers or config.learner_engine == "native":
        return "cpu"
    algorithm.require_spaces(spec)
    own = algorithm.own_network  # building it takes a while
    return choose_device("auto" if own or suits_gpu(algorithm.architecture(spec), algorithm.other_widths) else "cpu")
