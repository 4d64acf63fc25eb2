"""What a run is, and settings that are known to work."""

from headrace.settings.place import ServerPlace, require_run_name
from headrace.settings.presets import PRESETS, Preset, preset, presets_of
from headrace.settings.run import MOST_EPISODES, RunConfig

__all__ = [
    "MOST_EPISODES",
    "PRESETS",
    "Preset",
    "RunConfig",
    "ServerPlace",
    "preset",
    "presets_of",
    "require_run_name",
]
