"""The arithmetic, by hand."""

from math import isnan

import pytest

from headrace.studies.in_network.comparisons import compare, published_figures
from headrace.studies.in_network.figures import COLUMNS, decrease, figures_of
from headrace.studies.in_network.hosts import Link


def test_latencies_of_the_learner(case, record) -> None:
    updates = {"pull": [0.010, 0.020], "store": [0.001, 0.001], "sample": [0.002, 0.004], "priorities": [0.001, 0.003]}
    row = figures_of(record(case("redis"), updates))
    assert tuple(row) == COLUMNS
    assert row["updates_per_s"] == 1.0
    assert row["sampling_mean_us"] == pytest.approx(3000)
    assert row["sampling_p50_us"] == pytest.approx(2000)
    assert row["sampling_p99_us"] == pytest.approx(4000)
    assert row["access_mean_us"] == pytest.approx(21_000)
    assert row["access_p50_us"] == pytest.approx(14_000)  # 10 + 1 + 2 + 1 ms
    assert row["access_p99_us"] == pytest.approx(28_000)  # 20 + 1 + 4 + 3 ms
    assert row["learner_pull"] == pytest.approx(0.015)
    assert (row["pull_transitions_s"], row["pull_wire_mb_s"]) == (25_000, 200)


def test_communication_counts_priorities_only_where_they_leave_the_learner(case, record) -> None:
    updates = {"pull": [0.1, 0.1], "wait": [0.2, 0.2], "priorities": [0.3, 0.3], "publish": [0.0, 0.2]}
    redis, ours = (figures_of(record(case(variant), updates)) for variant in ("redis", "server"))
    assert redis["communication_learner"] == pytest.approx((0.2 + 0.2) / 2)
    assert ours["communication_learner"] == pytest.approx((0.4 + 0.6 + 0.2) / 2)
    assert ours["communication_actors"] == pytest.approx(0.2)
    assert ours["communication_total"] == pytest.approx((1.2 + 0.2) / 3)


def test_push_frequency_ideal_and_actual(case, record) -> None:
    row = figures_of(record(case(), {}))
    assert row["actual_frames_s"] == pytest.approx(100)
    assert row["ideal_frames_s"] == pytest.approx(125)  # 100 steps in the 0.8 s that are not communication


def test_bytes_per_transition_are_counted_on_the_link_where_there_is_one(case, record) -> None:
    assert figures_of(record(case(), {}))["bytes_per_transition"] == 8000
    sent = dict.fromkeys(("actors-server", "server-actors", "server-learner", "learner-server"), 3e6)
    far = figures_of(record(case(transport="hosts", link=Link(1e9, 5e-3)), {}, sent=sent, actors_sent_bytes=1_640_000))
    assert far["bytes_per_transition"] == 8200
    assert (far["link_gbit_s"], far["link_delay_us"], far["to_learner_mb_s"]) == (1.0, 5000.0, 3.0)


def test_an_actor_that_pushed_nothing_has_no_latency(case, record) -> None:
    row = figures_of(record(case(), {}, {"push_seconds": [], "pull_seconds": [], "pushed_transitions": 0}))
    assert all(isnan(row[name]) for name in ("push_p50_us", "parameters_p99_us", "bytes_per_transition"))


def test_decrease() -> None:
    assert decrease(200.0, 50.0) == 75.0
    assert decrease(100.0, 130.0) == pytest.approx(-30.0)


def test_ours_is_compared_with_the_peers_of_the_same_place(case, record) -> None:
    rows = [
        figures_of(record(case("redis"), {"sample": [0.010] * 2})),
        figures_of(record(case("server"), {"wait": [0.001] * 2})),
        figures_of(record(case("server", transport="unix"), {"wait": [0.003] * 2})),
        figures_of(record(case("server", transport="hosts", link=Link(1e9, 0.05)), {"wait": [0.5] * 2}, sent={})),
    ]
    found = {(each.transport, each.figure): each for each in compare(rows) if each.peer == "redis"}
    assert found["loopback", "sampling_p50_us"].decrease_percent == pytest.approx(90)
    assert found["loopback", "sampling_p50_us"].verdict == "holds"
    assert {transport for transport, _ in found} == {"loopback"}  # no Redis over Unix sockets nor over a long link


def test_bypass_is_compared_with_the_same_variant_over_the_kernel_s_tcp(case, record) -> None:
    rows = [
        figures_of(record(case(variant, transport=over), {"wait": [seconds] * 2}))
        for variant, over, seconds in (
            ("server", "loopback", 0.010),
            ("server", "memif", 0.004),
            ("learner", "loopback", 0.020),
            ("learner", "memif", 0.015),
            ("learner", "unix", 0.001),
        )
    ]
    found = {(each.figure, each.peer): each for each in compare(rows) if each.differs_in == "transport"}
    assert {each.transport for each in found.values()} == {"memif"}
    assert found["access_p50_us", "server, loopback"].decrease_percent == pytest.approx(60)
    assert found["access_p50_us", "server, loopback"].published == "−32.7 to −58.9 %"
    assert found["access_p50_us", "server, loopback"].verdict == "holds"
    assert found["access_p50_us", "learner, loopback"].decrease_percent == pytest.approx(25)
    assert found["access_p50_us", "learner, loopback"].verdict == "MISSED"
    assert found["pull_wire_mb_s", "server, loopback"].published == "+21.9 to +31.9 %"


def test_mean_and_p50_are_required_of_redis_alone(case, record) -> None:
    rows = [
        figures_of(record(case("redis"), {"sample": [0.010] * 2})),
        figures_of(record(case("redis-ahead"), {"wait": [0.002] * 2})),
        figures_of(record(case("learner"), {"sample": [0.008] * 2})),
        figures_of(record(case("server"), {"wait": [0.001, 0.009]})),  # every other batch is late
    ]
    found = {(each.figure, each.peer): each for each in compare(rows)}
    assert found["sampling_mean_us", "redis"].decrease_percent == pytest.approx(50)
    assert found["sampling_mean_us", "redis"].verdict == "MISSED"  # 80 % is required
    assert found["sampling_p50_us", "redis"].decrease_percent == pytest.approx(90)
    assert found["sampling_p50_us", "redis"].verdict == "holds"
    assert found["access_mean_us", "redis"].verdict == "MISSED"  # 60 % is
    assert not any(each.verdict for each in found.values() if each.peer in ("redis-ahead", "learner"))
    with_published = {peer for (figure, peer), each in found.items() if each.published}
    assert with_published == {"redis", "learner"}
    assert not any(each.published for each in found.values() if "_p99_" in each.figure)
    assert found["sampling_p50_us", "learner"].differs_in == "place of sampling, run-ahead"


def test_published_figures_are_in_the_package() -> None:
    published = published_figures()
    sampling = published["sampling latency of the learner (sampling in the node against in the learner)"]
    assert (sampling.low, sampling.high, str(sampling)) == (21.9, 29.8, "−21.9 to −29.8 %")
    assert str(published["parameters pulled (MB)"]) == "13 MB"
