"""The configuration of a run, and settings that are known to work."""

from headrace.settings.presets import PRESETS, Preset, preset, presets_of
from headrace.settings.run import MOST_EPISODES, RunConfig
from headrace.settings.server import ServerConfig, require_run_name

__all__ = [
    "MOST_EPISODES",
    "PRESETS",
    "Preset",
    "RunConfig",
    "ServerConfig",
    "preset",
    "presets_of",
    "require_run_name",
]
