"""What Ong et al. published: times of a gradient and of its way, and the settings of their runs."""

import csv
from importlib.resources import files
from typing import NamedTuple

__all__ = ["PIXELS", "PublishedTime", "published_settings", "published_times"]

_PACKAGE = "headrace.studies.downpour"


class PublishedTime(NamedTuple):
    """One size of their network; times in milliseconds."""

    pixels: int
    parameters: int
    message_mb: float
    pack_ms: float
    load_ms: float
    gradient_ms: float
    server_update_ms: float

    @property
    def share(self) -> float:
        """Pack, load and update by the gradient's time: 9.7 % at 16 pixels."""
        return (self.pack_ms + self.load_ms + self.server_update_ms) / self.gradient_ms

    @property
    def updates_per_second(self) -> float:
        """What their server could take."""
        return 1e3 / self.server_update_ms


def published_times() -> dict[int, PublishedTime]:
    """Their times, by the frame's pixels to a side."""
    times = (
        PublishedTime(
            int(row["image_pixels"]),
            int(row["parameters"]),
            *(float(row[field]) for field in PublishedTime._fields[2:]),
        )
        for row in _read("timing.csv")
    )
    return {time.pixels: time for time in times}


def published_settings() -> dict[str, str]:
    """Their settings, in their words."""
    return {row["setting"]: row["value"] for row in _read("settings.csv")}


def _read(name: str) -> list[dict[str, str]]:
    text = (files(_PACKAGE) / "published" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


PIXELS = tuple(published_times())
