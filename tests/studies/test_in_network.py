"""The study end to end, small: one case over a Unix socket, its files, and nothing left behind."""

import csv
import os
import re
import subprocess
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.errors import ConfigError, LaunchError, StorageError
from headrace.studies.base import Results
from headrace.studies.in_network import hosts, study
from headrace.studies.in_network.comparisons import compare
from headrace.studies.in_network.figures import figures_of
from headrace.studies.in_network.hosts import Hosts, Link, why_no_hosts
from headrace.studies.in_network.study import InNetwork, InNetworkOptions
from headrace.studies.page import write_page
from headrace.studies.processes import Process
from headrace.studies.run import run_plan

STUDY = InNetwork()
ORIGIN = {"command", "commit", "date", "machine", "cores"}


def children() -> set[str]:
    shown = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True)
    running = (Path(f"/proc/{word}/cmdline") for word in shown.stdout.split())
    return {path.read_text() for path in running if path.exists()} - {""}


def test_one_case_from_processes_to_page(tmp_path, case, origin) -> None:
    before = children()
    tiny = case("server", transport="unix", batch_size=4, seconds=0.5)
    said: list[str] = []
    page = run_plan(STUDY, "small", {"links": (), "measurements": (tiny,)}, tmp_path / "out", said.append, origin)
    with (tmp_path / "out" / "measurements.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1
    assert rows[0].keys() >= ORIGIN | {"variant", "transport", "actors", "sampling_mean_us", "access_p99_us", "round"}
    assert float(rows[0]["updates_per_s"]) > 0
    assert 7000 < float(rows[0]["bytes_per_transition"]) < 8500
    assert float(rows[0]["parameters_mb"]) == pytest.approx(13.17, abs=0.05)
    assert rows[0]["machine"] == "a machine"
    assert float(rows[0]["pull_wire_mb_s"]) * 1e6 / float(rows[0]["pull_transitions_s"]) == pytest.approx(
        56_500, abs=100
    )
    text = page.read_text()
    assert "In-network experience sampling" in text
    assert "Unix socket, 1 synthetic actor" in text
    assert said == [said[0]]
    assert said[0].startswith("measurements 1/1 server, unix, 1 synthetic actor: ")
    assert children() == before


def test_what_is_missing_is_left_out_and_said(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(study, "why_no_hosts", lambda: "network namespaces need root")
    monkeypatch.setattr(study.shutil, "which", lambda name, **_: None)
    plan, notes = STUDY.prepare(STUDY.plan("small", InNetworkOptions()), {}, tmp_path, lambda line: None)
    cases = plan["measurements"]
    assert {case.variant for case in cases} == {"learner", "server"}
    assert not any(case.transport == "memif" for case in cases)
    assert not any(case.link for case in cases)
    assert notes[0] == "8 cases between hosts are left out: network namespaces need root"
    assert "redis-server is not installed" in notes[1]
    assert re.match("2 cases that bypass the kernel are left out: .*make bypass", notes[2])


def test_transports_are_chosen() -> None:
    kernel, bypass = (STUDY.plan("full", InNetworkOptions((word,)))["measurements"] for word in ("kernel", "bypass"))
    assert {case.transport for case in kernel} == {"unix", "loopback", "hosts"}
    assert {(case.transport, case.variant) for case in bypass} == {("memif", "learner"), ("memif", "server")}
    assert {*kernel, *bypass} == {*STUDY.plan("full", InNetworkOptions())["measurements"]}
    with pytest.raises(ConfigError, match="transports has pci, which the study does not know"):
        InNetworkOptions(("pci",))


def test_a_link_that_cannot_be_made_costs_its_own_cases_only(monkeypatch, tmp_path, case, record, origin) -> None:
    def calibrate(link):
        if link.delay_seconds:
            raise StorageError("/dev/net/tun is missing")
        return {"rate_set_gbit_s": 10.0, "rate_reached_gbit_s": 9.0, "round_trip_set_us": 0.0,
                "round_trip_p50_us": 80.0, "round_trip_p99_us": 90.0}  # fmt: skip

    monkeypatch.setattr(study, "why_no_hosts", lambda: "")
    monkeypatch.setattr(study, "calibrate", calibrate)
    monkeypatch.setattr(study, "measure", lambda each: record(each, {"wait": [0.001, 0.001]}))
    links = (None, Link(1e10), Link(1e9, 5e-3))
    cases = tuple(case(transport="hosts" if link else "loopback", link=link) for link in links)
    page = run_plan(STUDY, "small", {"links": links[1:], "measurements": cases}, tmp_path, lambda line: None, origin)
    assert len((tmp_path / "measurements.csv").read_text().splitlines()) == 3
    note = "cases over a link of 1 Gbit/s, 5 ms one way are left out: /dev/net/tun is missing"
    assert note in page.read_text()


def test_page_shows_published_beside_ours(tmp_path, case, record, origin) -> None:
    waits = {
        "redis": {"sample": [0.010] * 2},
        "redis-ahead": {"wait": [0.002] * 2},
        "learner": {"sample": [0.004] * 2},
        "server": {"wait": [0.001] * 2},
    }
    rows = [
        figures_of(record(case(variant, actors=actors), updates))
        for actors in (1, 2)
        for variant, updates in waits.items()
    ]
    page = STUDY.page(Results("small", {"measurements": (case(),)}, {"measurements": rows, "links": []}, compare(rows)))
    write_page(tmp_path / "page.html", *page, [], ["8 cases are left out"], origin)
    text = (tmp_path / "page.html").read_text()
    assert "−21.9 to −29.8 %" in text
    assert "<b>−90.0 %, −90.0 %</b>" in text
    assert "Redis with run-ahead alone: −80.0 %, −80.0 %" in text
    row = text[text.index("TCP loopback, 2 synthetic actors</th><td>−21.9 to −29.8 %") :]
    cells = [f"mean {percent}, p50 {percent}" for percent in ("−90.0 %", "−75.0 %", "−80.0 %")]
    assert row.partition("</tr>")[0].split("</td><td>")[1:] == [*cells[:2], f"{cells[2]}</td>"]
    assert "12.3 MB (synthetic)" in text  # 3 × 512 transitions of 8,000 bytes
    assert "8 cases are left out" in text
    assert "headrace study in-network" in text
    assert text.count("<svg") == 4
    assert len(text) < 1_000_000
    assert not re.search(r"<(script|link|img)|https?://|url\((?!#)", text)  # needs nothing but itself


def test_no_redis_stands_beside_a_unix_socket(tmp_path, case, record, origin) -> None:
    cases = [case("redis"), case("server"), case("learner", transport="unix"), case("server", transport="unix")]
    rows = [figures_of(record(each, {"sample": [0.001] * 2})) for each in cases]
    page = STUDY.page(Results("small", {"measurements": (case(),)}, {"measurements": rows, "links": []}, compare(rows)))
    write_page(tmp_path / "page.html", *page, [], [], origin)
    text = (tmp_path / "page.html").read_text()
    row = text[text.index("Unix socket, 1 synthetic actor</th><td>−21.9") :].partition("</tr>")[0]
    assert row.endswith("<td>–</td><td>mean −0.0 %, p50 −0.0 %</td><td>–</td>")
    assert "our client reaches Redis only over TCP" in text


def test_a_process_that_fails_is_told_in_its_last_words(tmp_path) -> None:
    command = ["sh", "-c", "echo hello; echo 'no such thing' >&2; exit 3"]
    with Process("the child", command, tmp_path / "log") as process:
        assert process.listen(10) == "hello"
        with pytest.raises(LaunchError, match="the child ended with status 3: no such thing"):
            process.listen(10)


def test_a_command_that_is_not_there_is_one_line(tmp_path) -> None:
    with pytest.raises(LaunchError, match="the child does not start: /no/such: No such file or directory"):
        Process("the child", ["/no/such"], tmp_path / "log")


def test_a_tool_that_is_not_there_is_why_there_are_no_hosts(monkeypatch) -> None:
    monkeypatch.setattr(hosts.shutil, "which", lambda name, **_: None if name == "sysctl" else f"/usr/bin/{name}")
    assert why_no_hosts() == "sysctl not found (apt-get install iproute2 procps)"


def test_a_system_that_refuses_without_a_word_is_why_there_are_no_hosts(monkeypatch) -> None:
    monkeypatch.setattr(hosts.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(hosts.os, "geteuid", lambda: 0)
    refusal = subprocess.CompletedProcess([], 1, "", "")
    monkeypatch.setattr(hosts.subprocess, "run", lambda *command, **options: refusal)
    assert re.fullmatch(r"network namespaces are not allowed here: ip netns add \S+ failed: status 1", why_no_hosts())

    def missing(*command, **options):
        raise FileNotFoundError(2, "No such file or directory", "ip")

    monkeypatch.setattr(hosts.subprocess, "run", missing)
    assert why_no_hosts().endswith("does not start: No such file or directory")


def test_a_process_that_will_not_end_is_killed(tmp_path) -> None:
    with Process("the child", ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"], tmp_path / "log") as it:
        it.listen(10)
        number = it.process_id
    assert not Path(f"/proc/{number}").exists()


@pytest.mark.skipif(bool(why_no_hosts()), reason=why_no_hosts() or "hosts can be made")
def test_hosts_reach_each_other_and_are_gone_afterwards() -> None:
    links = {("actors", "server"): Link(1e9), ("server", "learner"): Link(1e9, 1e-3)}
    try:
        with Hosts(links) as made:
            namespaces = [made.command(host)[3] for host in ("actors", "server", "learner")]
            assert made.address("server", "actors") == "10.213.0.2"
            assert made.address("server", "learner") == "10.213.1.1"
            assert made.sent_bytes("learner", "server") >= 0
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    left = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    assert not any(name in left for name in namespaces)


def test_help_lists_the_studies(capsys) -> None:
    assert main(["study", "--help"]) == 0
    assert "in-network: experience sampled in the server" in capsys.readouterr().out


def test_an_unknown_study_is_one_line(capsys) -> None:
    assert main(["study", "in-netwrok"]) == 2
    assert capsys.readouterr().err == "headrace: error: in-netwrok is not a study; did you mean in-network?\n"
