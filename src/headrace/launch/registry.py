"""All launchers by name: those of this package, and those that installed packages add (`headrace.registry`)."""

from typing import TYPE_CHECKING

from headrace.registry import Registry

if TYPE_CHECKING:
    from headrace.launch.config import LauncherConfig

__all__ = ["LAUNCHERS"]

LAUNCHERS: "Registry[LauncherConfig]" = Registry(
    "launcher",
    "headrace.launchers",
    "headrace.launch.config:LauncherConfig",
    {
        "processes": "headrace.launch.config:Processes",
        "ray": "headrace.launch.ray:Ray",
        "simulated": "headrace.launch.simulated:Simulated",
    },
)
