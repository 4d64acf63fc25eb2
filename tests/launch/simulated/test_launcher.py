"""Roles of a simulated run: started, stopped, killed, failing."""

from pathlib import Path
from typing import Any

import pytest

from headrace.clock import monotonic, sleep
from headrace.errors import ConfigError, HeadraceError, ServerError
from headrace.launch import base
from headrace.launch.config import LauncherConfig
from headrace.launch.simulated import launcher as module
from headrace.launch.simulated.config import Simulated
from headrace.launch.simulated.launcher import SimulatedLauncher
from headrace.roles.base import RoleContext
from headrace.roles.evaluator import EvaluatorRole
from headrace.servers import open_server

from .conftest import MakeWorld


@pytest.fixture
def launcher(make_world: MakeWorld, tmp_path: Path) -> SimulatedLauncher:
    world, server = make_world(8), open_server(None, address="simulated:launcher")
    return SimulatedLauncher(world, server.endpoint, tmp_path / "logs", ())


def behave(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """Evaluators do this instead."""
    monkeypatch.setattr(EvaluatorRole, "run", lambda role, context: act(context))


def test_a_role_waits_until_it_is_asked_to_stop(launcher: SimulatedLauncher) -> None:
    role = EvaluatorRole(0)
    launcher.start(role)
    sleep(5.0)
    assert (launcher.place(role), launcher.poll()) == ("", [])
    launcher.stop([role, EvaluatorRole(1)])
    assert monotonic() == 5.0  # it leaves its wait at once
    assert launcher.poll() == []


def test_a_role_that_does_not_stop_is_killed(launcher: SimulatedLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(context: RoleContext) -> None:
        while True:
            try:
                sleep(1e6)
            except Exception:
                continue

    behave(monkeypatch, act)
    launcher.start(EvaluatorRole(0))
    sleep(1.0)
    launcher.stop([EvaluatorRole(0)])
    assert monotonic() == 6.0


@pytest.mark.parametrize(
    ("error", "reason", "fault", "message"),
    [
        (ConfigError("seed is -1"), "exit 2", ConfigError, "seed is -1"),
        (ServerError("no table"), "exit 1", None, "no table"),
        (ZeroDivisionError("zero"), "exit 1", None, "ZeroDivisionError: zero (test_launcher.py, line "),
    ],
)
def test_a_failure_is_an_exit(
    launcher: SimulatedLauncher,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: str,
    fault: type[HeadraceError] | None,
    message: str,
) -> None:
    def act(context: RoleContext) -> None:
        raise error

    behave(monkeypatch, act)
    launcher.start(EvaluatorRole(0))
    sleep(1.0)
    [found] = launcher.poll()
    assert found == base.Exit(EvaluatorRole(0), reason, fault, found.message)
    assert found.message.startswith(message)
    assert launcher.poll() == []
    launcher.start(EvaluatorRole(0))
    sleep(1.0)
    launcher.stop([EvaluatorRole(0)])
    assert launcher.poll() == []  # its end is known


def test_a_fault_kills_and_is_reported_and_the_supervisors_kill_is_not(launcher: SimulatedLauncher) -> None:
    for index in range(2):
        launcher.start(EvaluatorRole(index))
    sleep(1.0)
    launcher.kill(EvaluatorRole(0))
    launcher.fail("evaluator 1")
    launcher.fail("evaluator 7")
    assert [(ended.role.name, ended.reason) for ended in launcher.poll()] == [("evaluator 1", "killed by SIGKILL")]


def test_the_claims_of_a_role_that_is_killed_end(launcher: SimulatedLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    claimed: list[float] = []

    def act(context: RoleContext) -> None:
        context.connect().claim("actor/0", len(claimed))
        claimed.append(monotonic())
        sleep(100.0)

    behave(monkeypatch, act)
    for _ in range(2):
        launcher.start(EvaluatorRole(0))
        sleep(10.0)
        launcher.fail("evaluator 0")
        assert [ended.reason for ended in launcher.poll()] == ["killed by SIGKILL"]
    assert len(claimed) == 2


def test_a_site_has_the_address_of_a_server_of_its_own() -> None:
    sites = []
    for _ in range(2):
        with module.open_simulation(2, module.Link(0.0, 1.0), module.Costs(), (), 0) as site:
            sites.append(site.address)
            assert open_server(None, address=site.address).endpoint.address == site.address
    assert sites[0] != sites[1]


def test_paths_of_a_run_are_found_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record = Simulated(costs=Path("costs.json"), faults="faults.json").to_record()
    assert (record["costs"], record["faults"]) == (str(tmp_path / "costs.json"), str(tmp_path / "faults.json"))
    assert LauncherConfig.from_record(record) == Simulated(costs=tmp_path / "costs.json", faults=record["faults"])
    for given in (Simulated(), Simulated(faults="random:0.5")):
        assert LauncherConfig.from_record(given.to_record()) == given
