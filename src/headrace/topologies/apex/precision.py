"""Chooses the precision of a run's actors."""

import dataclasses

from headrace.clock import simulated_cores
from headrace.errors import ConfigError
from headrace.networks import Architecture
from headrace.networks.graph_layers import INTEGER_WIDTH
from headrace.networks.policy_graph import PolicyGraph
from headrace.networks.timing import fastest, is_slower, measure_precisions
from headrace.topologies.apex.config import Apex

__all__ = ["choose_precision"]


def choose_precision(topology: Apex, architecture: Architecture) -> tuple[Apex, str]:
    """Returns the topology with an "auto" precision resolved, and a note for the user, which may be empty.

    Nothing is measured for fp32 and in simulated time. The note says what int8 computes in integers if the network is
    a user's. Raises ConfigError if the actors of a recurrent policy would quantize it.
    """
    if architecture.recurrent and topology.quantizes:
        raise ConfigError(
            f"precision is {topology.precision} and communication_bits is {topology.communication_bits}: a recurrent "
            "policy acts in fp32, from all 32 bits"
        )
    topology, note = _choose(topology, architecture)
    if architecture.own and topology.precision == "int8":
        weights = PolicyGraph(architecture, "int8").integer
        layers = ", ".join(name.removeprefix("module.").removesuffix(".weight") for name in weights)
        computed = f"computes {layers} of {architecture.own.build} in integers, and other layers in fp32"
        nothing = (
            f"computes no layer of {architecture.own.build} in integers: it does so for linear layers of at least "
            f"{INTEGER_WIDTH} inputs and outputs that follow a ReLU"
        )
        note = "; ".join(filter(None, (note, f"precision int8 {computed if layers else nothing}")))
    return topology, note


def _choose(topology: Apex, architecture: Architecture) -> tuple[Apex, str]:
    if topology.precision == "fp32":
        return topology, ""
    if simulated_cores() is not None:
        if topology.precision == "auto":
            raise ConfigError("precision is auto, which measures this machine: another is required in simulated time")
        return topology, ""
    seconds = measure_precisions(architecture, topology.envs_per_actor)
    times = ", ".join(f"{precision} {1e3 * each:.3g} ms" for precision, each in seconds.items())
    measured = f"for {topology.envs_per_actor} observations on this machine: {times}"
    if topology.precision == "auto":
        note = f"the fastest {measured}"
        if not topology.takes_int8:
            seconds = {precision: each for precision, each in seconds.items() if precision != "int8"}
            note += (
                f"; int8 is left out because it is incompatible with communication_bits {topology.communication_bits}"
            )
        chosen = fastest(seconds)
        return dataclasses.replace(topology, precision=chosen), f"precision {chosen} is {note}"
    if is_slower(seconds, topology.precision):
        return topology, f"warning: precision {topology.precision} is slower than fp32 {measured}"
    return topology, ""
