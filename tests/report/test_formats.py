"""Numbers as people read them."""

import pytest

from headrace.report.formats import score_text, size


@pytest.mark.parametrize(
    ("mean", "spread", "expected"),
    [
        (219.34, 84.4, "219.3 ± 84.4"),
        (-1234.5, None, "-1,234.5"),
        (8.214, 2.5, "8.21 ± 2.50"),
        (0.9645, 0.0212, "0.965 ± 0.021"),
        (-0.041, None, "-0.041"),
        (0.0, 0.0, "0.0 ± 0.0"),
        (None, None, "–"),
    ],
)
def test_a_score_has_three_digits_at_least(mean: float | None, spread: float | None, expected: str) -> None:
    """Returns between 0 and 1 are told apart; a spread has the digits of its mean."""
    assert score_text(mean, spread) == expected


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999 B"), (999.6, "1 kB"), (999_600, "1 MB"), (12_345_678, "12.3 MB"), (2e15, "2,000 TB")]
)
def test_a_size_that_rounds_to_a_thousand_is_one_of_the_next_unit(count: float, text: str) -> None:
    assert size(count) == text
