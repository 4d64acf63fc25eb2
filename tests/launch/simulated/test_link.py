"""Latency and bandwidth as people write them."""

import pytest

from headrace.errors import ConfigError
from headrace.launch.simulated.link import Link


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("50us,10Gbit", Link(50e-6, 1.25e9)),
        ("2ms,100Mbit/s", Link(0.002, 12.5e6)),
        ("0,1Tbit", Link(0.0, 125e9)),
    ],
)
def test_links_are_read(text: str, link: Link) -> None:
    assert Link.parse(text).latency_seconds == pytest.approx(link.latency_seconds)
    assert Link.parse(text).bytes_per_second == pytest.approx(link.bytes_per_second)


@pytest.mark.parametrize("text", ["", "50us", "fast,10Gbit", "50us,10GB", "50us,0Gbit", "-1,1Gbit"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="link"):
        Link.parse(text)
