"""An actor's phases as studies record them."""

from headrace.roles.clock import ACTOR_PHASES as CLOCK_PHASES
from headrace.studies.training import ACTOR_PHASES, recorded


def test_push_includes_the_time_for_which_the_server_blocks_the_actor() -> None:
    seconds = {phase: 2.0**number for number, phase in enumerate(CLOCK_PHASES)}
    found = recorded(seconds)
    assert tuple(found) == ACTOR_PHASES
    assert found["push"] == seconds["push"] + seconds["blocked"]
    assert sum(found.values()) == sum(seconds.values())
