"""The study end to end, small: one case over a Unix socket, its files, and nothing left behind."""

import csv
import os
import subprocess
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.errors import LaunchError
from headrace.studies.in_network import study
from headrace.studies.in_network.figures import figures_of
from headrace.studies.in_network.hosts import Hosts, Link, why_no_hosts
from headrace.studies.in_network.page import write_page
from headrace.studies.in_network.plan import Plan, make_plan
from headrace.studies.processes import Process

ORIGIN = {"command", "commit", "date", "machine", "cores"}


def children() -> set[str]:
    shown = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True)
    running = (Path(f"/proc/{word}/cmdline") for word in shown.stdout.split())
    return {path.read_text() for path in running if path.exists()} - {""}


def test_one_case_from_processes_to_page(tmp_path, case, origin) -> None:
    before = children()
    tiny = case("server", transport="unix", batch_size=4, seconds=0.5)
    said: list[str] = []
    page = study.run_plan(Plan((tiny,), rounds=1, shown=1), tmp_path / "out", said.append, origin)
    with (tmp_path / "out" / "measurements.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1
    assert rows[0].keys() >= ORIGIN | {"variant", "transport", "actors", "sampling_p50_us", "access_p99_us", "round"}
    assert float(rows[0]["updates_per_s"]) > 0
    assert 7000 < float(rows[0]["bytes_per_transition"]) < 8500
    assert float(rows[0]["parameters_mb"]) == pytest.approx(13.17, abs=0.05)
    assert rows[0]["machine"] == "a machine"
    text = page.read_text()
    assert "In-network experience sampling" in text
    assert "Unix socket, 1 synthetic actor" in text
    assert said == [said[0]]
    assert said[0].startswith("1/1 server, unix, 1 synthetic actor: ")
    assert children() == before


def test_what_is_missing_is_left_out_and_said(monkeypatch) -> None:
    monkeypatch.setattr(study, "why_no_hosts", lambda: "network namespaces need root")
    monkeypatch.setattr(study.shutil, "which", lambda name: None)
    cases, notes = study.possible(make_plan("small"))
    assert {case.variant for case in cases} == {"learner", "server"}
    assert not any(case.link for case in cases)
    assert notes[0] == "8 cases between hosts are left out: network namespaces need root"
    assert "redis-server is not installed" in notes[1]


def test_a_case_that_fails_is_said_and_the_rest_is_written(monkeypatch, tmp_path, case, record, origin) -> None:
    def measure(each):
        if each.variant == "learner":
            raise LaunchError("learner ended with status 1")
        return record(each, {"wait": [0.001, 0.001]})

    monkeypatch.setattr(study, "measure", measure)
    plan = Plan((case("learner"), case("server")), rounds=2, shown=1)
    with pytest.raises(LaunchError, match="2 of 4 cases failed"):
        study.run_plan(plan, tmp_path, lambda line: None, origin)
    assert len((tmp_path / "measurements.csv").read_text().splitlines()) == 3
    assert "learner ended with status 1" in (tmp_path / "in-network.html").read_text()


def test_page_shows_published_beside_ours(tmp_path, case, record, origin) -> None:
    waits = {"redis": {"sample": [0.010] * 2}, "learner": {"sample": [0.004] * 2}, "server": {"wait": [0.001] * 2}}
    rows = [
        figures_of(record(case(variant, actors=actors), updates))
        for actors in (1, 2)
        for variant, updates in waits.items()
    ]
    plan = Plan((case(),), rounds=1, shown=2)
    write_page(tmp_path / "page.html", plan, rows, [], ["8 cases are left out"], origin)
    text = (tmp_path / "page.html").read_text()
    assert "−21.9 to −29.8 %" in text
    assert "−90.0 % (loopback, against redis); −75.0 % (loopback, against learner)" in text
    assert "8 cases are left out" in text
    assert "headrace study in-network" in text
    assert text.count("<svg") == 4


def test_a_process_that_fails_is_told_in_its_last_words(tmp_path) -> None:
    command = ["sh", "-c", "echo hello; echo 'no such thing' >&2; exit 3"]
    with Process("the child", command, tmp_path / "log") as process:
        assert process.listen(10) == "hello"
        with pytest.raises(LaunchError, match="the child ended with status 3: no such thing"):
            process.listen(10)


def test_a_process_that_will_not_end_is_killed(tmp_path) -> None:
    with Process("the child", ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"], tmp_path / "log") as it:
        it.listen(10)
        number = it.process_id
    assert not Path(f"/proc/{number}").exists()


@pytest.mark.skipif(bool(why_no_hosts()), reason=why_no_hosts() or "hosts can be made")
def test_hosts_reach_each_other_and_are_gone_afterwards() -> None:
    links = {("actors", "server"): Link(1e9), ("server", "learner"): Link(1e9, 1e-3)}
    try:
        with Hosts(links) as hosts:
            namespaces = [hosts.command(host)[3] for host in ("actors", "server", "learner")]
            assert hosts.address("server", "actors") == "10.213.0.2"
            assert hosts.address("server", "learner") == "10.213.1.1"
            assert hosts.sent_bytes("learner", "server") >= 0
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
