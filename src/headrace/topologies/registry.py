"""All topologies by name: those of this package, and those that installed packages add (`headrace.registry`)."""

from typing import TYPE_CHECKING

from headrace.registry import Registry

if TYPE_CHECKING:
    from headrace.topologies.config import Topology

__all__ = ["TOPOLOGIES"]

TOPOLOGIES: "Registry[Topology]" = Registry(
    "topology",
    "headrace.topologies",
    "headrace.topologies.config:Topology",
    {
        "apex": "headrace.topologies.apex:Apex",
        "serial": "headrace.topologies.serial:Serial",
        "parameter-server": "headrace.topologies.workers:ParameterServer",
        "lock": "headrace.topologies.workers:Lock",
        "hogwild": "headrace.topologies.workers:Hogwild",
        "ad-psgd": "headrace.topologies.workers:AdPsgd",
    },
)
