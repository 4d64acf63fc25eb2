"""Which part of a long turn of the training loop is not training time."""

from unittest.mock import Mock

import pytest

from headrace.training import tick_schedule
from headrace.training.tick_schedule import TickSchedule

from .conftest import make_session


@pytest.mark.parametrize(("stops", "outages", "waited", "skipped"), [
    (0, 0, 0.0, 0.0), (1, 0, 0.0, 40.0), (0, 1, 0.0, 40.0), (0, 0, 30.0, 30.0)
])  # fmt: skip
def test_a_stop_of_this_process_and_waits_for_the_server_are_no_training_time(
    monkeypatch: pytest.MonkeyPatch, stops: int, outages: int, waited: float, skipped: float
) -> None:
    now = 100.0
    monkeypatch.setattr(tick_schedule, "monotonic", lambda: now)
    server, supervisor, waits = Mock(), Mock(), Mock(waited_seconds=0.0)
    server.outages.return_value = 0
    clock, monitor, interrupts = Mock(paused=False), Mock(), Mock(stops=0)
    topology = Mock(has_workers=False)
    session = make_session(server=server, program=waits, clock=clock, monitor=monitor, topology=topology)
    ticks = TickSchedule(session, supervisor, Mock(waited_seconds=0.0), Mock(waited_seconds=0.0), interrupts)
    now, interrupts.stops, server.outages.return_value, waits.waited_seconds = 140.0, stops, outages, waited
    ticks.skip_gap()
    supervisor.skip.assert_called_once_with(40.0)
    now = 180.0
    ticks.skip_gap()
    for part in (clock, waits, monitor):
        assert sum(call.args[0] for call in part.skip.call_args_list) == skipped
