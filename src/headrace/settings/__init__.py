"""What a run is, and settings that are known to work."""

from headrace.settings.place import ServerPlace, require_run_name
from headrace.settings.presets import PRESETS, Preset, preset, presets_of
from headrace.settings.run import ALGORITHMS, MOST_EPISODES, TOPOLOGIES, AlgorithmName, RunConfig, TopologyName

__all__ = [
    "ALGORITHMS",
    "MOST_EPISODES",
    "PRESETS",
    "TOPOLOGIES",
    "AlgorithmName",
    "Preset",
    "RunConfig",
    "ServerPlace",
    "TopologyName",
    "preset",
    "presets_of",
    "require_run_name",
]
