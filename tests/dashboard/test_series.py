"""Series of bounded length."""

from headrace.dashboard.series import Series


def test_a_short_series_is_kept_as_it_is():
    series = Series(["seconds", "x"], most=8)
    series.add([1.0, None])
    series.add([2.0, 5.0])
    assert series.transpose(series.rows()) == {"seconds": [1.0, 2.0], "x": [None, 5.0]}


def test_a_long_series_is_averaged_in_pairs():
    series = Series(["seconds", "x"], most=4)
    for second in range(1, 8):
        series.add([float(second), None if second == 1 else 10.0 * second])
    # 1 to 4 became two pairs when the fourth came; 5 and 6 are a group of two, 7 a group that is not complete
    assert series.rows() == [[1.5, 20.0], [3.5, 35.0], [5.5, 55.0], [7.0, 70.0]]


def test_means_of_large_numbers_are_finite():
    series = Series(["seconds", "x"], most=2)
    for second in range(4):
        series.add([float(second), 10**308 if second % 2 else 1e308])
    assert [row[1] for row in series.rows()] == [1e308] * len(series.rows())


def test_its_length_is_bounded():
    series = Series(["seconds"], most=100)
    for second in range(20_000):
        series.add([float(second)])
        assert second % 50 or len(series.rows()) <= 101
    times = [row[0] for row in series.rows()]
    assert times == sorted(times)
    assert times[-1] > 19_700


def test_new_rows_are_those_after_a_position():
    series = Series(["seconds"], recent=3)
    for second in range(5):
        series.add([float(second)])
    assert series.since(5) == []
    assert series.since(3) == [[3.0], [4.0]]
    assert series.since(2) == [[2.0], [3.0], [4.0]]
    assert series.since(1) is None
    assert series.since(6) is None


def test_repeated_rows_are_cut():
    series = Series(["seconds"])
    for second in range(5):
        series.add([float(second)])
    series.cut(2.0)
    series.add([2.5])
    assert series.rows() == [[0.0], [1.0], [2.0], [2.5]]


def test_a_cut_leaves_the_open_group_one_row():
    series = Series(["seconds"], most=4)
    for second in range(22):
        series.add([float(second)])
    before = len(series.rows())
    series.cut(30.0)
    assert len(series.rows()) == before < 4
