"""`headrace study in-network`."""

import importlib.util
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, LaunchError
from headrace.studies.base import NoOptions, Scale
from headrace.studies.in_network.calibration import calibrate
from headrace.studies.in_network.case import REDIS_VARIANTS, Case
from headrace.studies.in_network.comparisons import compare
from headrace.studies.in_network.figures import figures_of
from headrace.studies.in_network.hosts import why_no_hosts
from headrace.studies.in_network.measure import measure
from headrace.studies.in_network.plan import Plan, make_plan
from headrace.studies.in_network.servers import REDIS
from headrace.studies.published import load_published
from headrace.studies.results import Origin, make_folder, write_csv

__all__ = ["InNetwork"]


class InNetwork:
    """In-network experience sampling against Redis with sampling in the learner; implements `Study`."""

    name = "in-network"
    summary = "experience sampled in the server between actors and learner, against Redis (Furukawa, Matsutani)"

    options = NoOptions

    def run(self, scale: Scale, output: Path, options: NoOptions, say: Callable[[str], None]) -> Path:
        """Measures and writes; see `Study`. Raises LaunchError at the end where a case failed."""
        del options
        command = shlex.join(["headrace", "study", self.name, "--scale", scale, "--output", str(output)])
        return run_plan(make_plan(scale), output, say, Origin.here(command))


def run_plan(plan: Plan, output: Path, say: Callable[[str], None], origin: Origin) -> Path:
    """Measures what this machine allows of a plan, writes it, and returns the page."""
    from headrace.studies.in_network.page import write_page

    make_folder(output)
    cases, notes = possible(plan)
    for note in notes:
        say(note)
    cases, links, more = _calibrate_all(cases, say)
    rows, failures = _measure_all(cases, plan.rounds, say)
    notes += more + failures
    comparisons = compare(rows, load_published("headrace.studies.in_network"))
    write_csv(output / "measurements.csv", rows, origin)
    write_csv(output / "comparisons.csv", [each._asdict() for each in comparisons], origin)
    write_csv(output / "links.csv", links, origin)
    page = output / "in-network.html"
    write_page(page, plan, rows, links, notes, origin)
    if failures:
        raise LaunchError(f"{len(failures)} of {len(cases) * plan.rounds} cases failed; {page} has the rest")
    return page


def possible(plan: Plan) -> tuple[list[Case], list[str]]:
    """The cases that can run here, and for each kind that can't the reason."""
    no_hosts = why_no_hosts()
    obstacles: list[tuple[str, str, Callable[[Case], bool]]] = [
        ("cases between hosts", no_hosts, lambda case: case.link is not None),
        ("cases with Redis", _why_no_redis(), lambda case: case.variant in REDIS_VARIANTS),
        ("cases with real Breakout", _why_no_breakout(), lambda case: case.kind == "breakout"),
    ]
    cases, notes = list(plan.cases), []
    for what, reason, concerns in obstacles:
        left_out = [case for case in cases if concerns(case)]
        if reason and left_out:
            cases = [case for case in cases if case not in left_out]
            notes.append(f"{len(left_out)} {what} are left out: {reason}")
    return cases, notes


def _calibrate_all(
    cases: list[Case], say: Callable[[str], None]
) -> tuple[list[Case], list[dict[str, float]], list[str]]:
    """The cases whose link can be made, what each link does, and a note for each that can't be made."""
    links, notes = [], []
    for link in dict.fromkeys(case.link for case in cases if case.link):
        try:
            links.append(calibrate(link))
        except HeadraceError as error:
            cases = [case for case in cases if case.link != link]
            notes.append(f"cases over a link of {link} are left out: {error}")
            say(notes[-1])
            continue
        say(
            f"link of {link}: round trip {links[-1]['round_trip_p50_us']:.0f} µs, "
            f"{links[-1]['rate_reached_gbit_s']:.2f} Gbit/s"
        )
    return cases, links, notes


def _measure_all(cases: list[Case], rounds: int, say: Callable[[str], None]) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each case and round; what went wrong, for those that failed."""
    rows, failures = [], []
    for number in range(rounds * len(cases)):
        case = cases[number % len(cases)]
        try:
            row = {"round": number // len(cases)} | figures_of(measure(case))
        except HeadraceError as error:
            failures.append(f"{case}: failed: {error}")
            say(f"{number + 1}/{rounds * len(cases)} {failures[-1]}")
            continue
        rows.append(row)
        say(
            f"{number + 1}/{rounds * len(cases)} {case}: {row['updates_per_s']:.1f} updates/s, "
            f"sampling {row['sampling_mean_us']:,.0f} µs (p50 {row['sampling_p50_us']:,.0f}), "
            f"access {row['access_mean_us']:,.0f} µs (p50 {row['access_p50_us']:,.0f})"
        )
    return rows, failures


def _why_no_redis() -> str:
    if shutil.which(REDIS) is None:
        return f"{REDIS} is not installed (apt-get install {REDIS})"
    if importlib.util.find_spec("redis") is None:
        return 'its client library is not installed (pip install "headrace[redis]")'
    return ""


def _why_no_breakout() -> str:
    missing = [module for module in ("ale_py", "cv2") if importlib.util.find_spec(module) is None]
    return f'{" and ".join(missing)} not installed (pip install "headrace[atari]")' if missing else ""
