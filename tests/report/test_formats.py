"""Numbers as people read them."""

import pytest

from headrace.report.formats import score_text


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
