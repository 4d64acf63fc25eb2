"""The figures of Ong et al.: times of a gradient and its communication, and the settings of their runs."""

from typing import NamedTuple

from headrace.studies.published import read_published

__all__ = ["PIXELS", "PublishedTime", "published_settings", "published_times"]


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
        """Pack, load and update as a share of the gradient's time: 9.7 % at 16 pixels."""
        return (self.pack_ms + self.load_ms + self.server_update_ms) / self.gradient_ms

    @property
    def updates_per_second(self) -> float:
        """Updates per second that their server could apply."""
        return 1e3 / self.server_update_ms


def published_times() -> dict[int, PublishedTime]:
    """Their times by the frame's side length in pixels."""
    found = {}
    for row in read_published("downpour", "published/timing.csv"):
        pixels, parameters, *times = (row[column] for column in ("image_pixels", *PublishedTime._fields[1:]))
        found[int(pixels)] = PublishedTime(int(pixels), int(parameters), *map(float, times))
    return found


def published_settings() -> dict[str, str]:
    """Their settings, in their words."""
    return {row["setting"]: row["value"] for row in read_published("downpour", "published/settings.csv")}


PIXELS = tuple(published_times())
