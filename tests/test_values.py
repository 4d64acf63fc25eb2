"""Numbers, durations and sizes."""

import pytest

from headrace.values import parse_count, parse_duration, parse_number, parse_size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("200000", 200_000),
        ("200k", 200_000),
        ("1e6", 1_000_000),
        ("1E+6", 1_000_000),
        ("1_000_000", 1_000_000),
        ("2.5k", 2_500),
        ("4.1m", 4_100_000),
        ("64.1k", 64_100),
        ("1.5e3", 1_500),
        ("3M", 3_000_000),
        ("-4", -4),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_counts(text, value):
    assert parse_count(text) == value


@pytest.mark.parametrize("text", ["", "k", "abc", "1.5", "0x10", "1e-3", "10 m s", "ten", "1e999", "nan", "inf", "_1"])
def test_invalid_counts(text):
    with pytest.raises(ValueError, match="is not a count; write a whole number such as 200000, 200k or 1e6"):
        parse_count(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3.0), ("-0.5", -0.5), (".25", 0.25), ("1e-4", 0.0001), ("-1e3", -1000.0), ("1.5k", 1500.0), ("200k", 2e5)],
)
def test_numbers(text, value):
    assert parse_number(text) == value
    assert isinstance(parse_number(text), int) == float(value).is_integer()  # so that it shows without ".0"


@pytest.mark.parametrize("text", ["", "k", "abc", "1e999", "nan", "inf", "-inf", "1.2.3", "9" * 400])
def test_invalid_numbers(text):
    with pytest.raises(ValueError, match=r"is not a number; write one such as 0\.5, 1e-4 or 200"):
        parse_number(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), ("10m", 600.0), ("2h", 7200.0), ("1.5h", 5400.0), ("1d", 86400.0), ("1e6", 1e6)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-5", "10 min", "1h30m", "nan", "inf"])
def test_invalid_durations(text):
    with pytest.raises(ValueError, match="is not a duration; write seconds or a unit: 90, 90s, 10m or 2h"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1_024),
        ("512M", 512_000_000),
        ("4.1M", 4_100_000),
        ("512MB", 512_000_000),
        ("8G", 8_000_000_000),
        ("1.5GiB", 1_610_612_736),
        ("4 kb", 4_000),
        ("1Ki", 1_024),
        ("2t", 2_000_000_000_000),
        ("7b", 7),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


def test_a_size_beyond_all_numbers():
    with pytest.raises(ValueError, match="is not a size; it must be finite"):
        parse_size("9" * 320)


@pytest.mark.parametrize("text", ["", "G", "-1G", "8X", "8GG", "1e9", "5i", "5iB", "nan", "8 G B"])
def test_invalid_sizes(text):
    with pytest.raises(ValueError, match=r"is not a size; write bytes or a unit: 512M, 8G or 1\.5GiB"):
        parse_size(text)
