"""The page of the study: what was published beside what was measured here."""

from collections.abc import Mapping, Sequence
from html import escape
from math import isnan
from pathlib import Path
from typing import Any

from headrace.report.document import document, plot_row, share_bar
from headrace.roles.actor import ACTOR_PHASES
from headrace.studies.in_network.case import VARIANTS, Variant
from headrace.studies.in_network.comparisons import compare, place_name, places, value
from headrace.studies.in_network.plan import Plan
from headrace.studies.in_network.side_by_side import published_tables, tiles
from headrace.studies.page import figure_text, lead_of, note_list, table
from headrace.studies.plots import Line, draw_lines
from headrace.studies.published import load_published
from headrace.studies.results import Origin, write_text
from headrace.studies.statistics import median

__all__ = ["write_page"]

Rows = Sequence[Mapping[str, Any]]

_COLOURS: dict[Variant, str] = {"redis": "c7", "redis-ahead": "c2", "learner": "c4", "server": "c1"}
_LEARNER_PARTS = (
    (("train",), "c1"),
    (("pull",), "c3"),
    (("store",), "c4"),
    (("sample",), "c7"),
    (("wait",), "c5"),
    (("priorities", "publish"), "c2"),
    (("transfer", "other"), "c6"),
)
_TRANSPORTS = (
    ("updates_per_s", "updates per second"),
    ("sampling_mean_us", "sampling latency, mean (µs)"),
    ("sampling_p50_us", "sampling latency, p50 (µs)"),
    ("sampling_p99_us", "sampling latency, p99 (µs)"),
    ("access_mean_us", "replay access latency, mean (µs)"),
    ("access_p50_us", "replay access latency, p50 (µs)"),
    ("access_p99_us", "replay access latency, p99 (µs)"),
    ("pull_transitions_s", "replay pull throughput (transitions/s)"),
    ("pull_wire_mb_s", "the same, what is on the wire (MB/s)"),
    ("push_p50_us", "push of a chunk, p50 (µs)"),
    ("push_p99_us", "push of a chunk, p99 (µs)"),
    ("parameters_p50_us", "pull of parameters, p50 (µs)"),
    ("bytes_per_transition", "bytes per transition, actor to server"),
    ("communication_total", "share of communication"),
    ("server_cores", "cores that the server kept busy"),
)
_EDGE = (
    ("updates_per_s", "updates per second"),
    ("sampling_mean_us", "sampling latency, mean (µs)"),
    ("sampling_p50_us", "sampling latency, p50 (µs)"),
    ("sampling_p99_us", "sampling latency, p99 (µs)"),
    ("access_mean_us", "replay access latency, mean (µs)"),
    ("access_p50_us", "replay access latency, p50 (µs)"),
    ("to_learner_mb_s", "MB/s over the link to the learner"),
    ("from_learner_mb_s", "MB/s over the link from the learner"),
)


def write_page(
    path: Path,
    plan: Plan,
    rows: Rows,
    links: Sequence[Mapping[str, float]],
    notes: Sequence[str],
    origin: Origin,
) -> None:
    """Writes the page; raises StorageError where `path` can't be written."""
    published = load_published("headrace.studies.in_network")
    comparisons = compare(rows, published)
    sections = (
        ("Left out", note_list(notes)),
        ("Published, and here", published_tables(published, comparisons, rows, plan)),
        ("Where the time goes", _times(rows, plan)),
        ("More actors", _over_actors(rows)),
        ("Transports", _transports(rows, plan)),
        ("Edge and cloud", _edge(rows)),
        ("Links", _links(links)),
        ("How it was measured", _method(plan, rows)),
    )
    text = document("In-network experience sampling", lead_of(origin), tiles(comparisons), sections)
    write_text(path, text)


def _times(rows: Rows, plan: Plan) -> str:
    """The actor's bar above the learner's, for each variant."""
    parts = []
    for place in places(rows):
        if place[1] != plan.shown:
            continue
        for variant, title in VARIANTS.items():
            if isnan(value(rows, variant, place, "updates_per_s")):
                continue
            actor = [
                (phase, f"c{number}", value(rows, variant, place, f"actor_{phase}"))
                for number, phase in enumerate(ACTOR_PHASES, 1)
            ]
            learner = [
                (", ".join(phases), colour, sum(value(rows, variant, place, f"learner_{phase}") for phase in phases))
                for phases, colour in _LEARNER_PARTS
            ]
            name = f"{title} · {place_name(place)}"
            parts.append(f"<figure><h3>{escape(name)}</h3>{share_bar(actor)}{share_bar(learner)}</figure>")
    return f'<p class="soft">Actors above, learner below.</p><div class="plots">{"".join(parts)}</div>'


def _over_actors(rows: Rows) -> str:
    """Plots over the number of actors, for the transport and kind that were measured at most of them."""
    series: dict[tuple[str, str], list[int]] = {}
    for transport, actors, kind in places(rows):
        series.setdefault((transport, kind), []).append(actors)
    plots = []
    for (transport, kind), counts in series.items():
        if len(counts) < 2:
            continue
        counts.sort()
        for figure, label, logarithmic in (
            ("sampling_mean_us", "sampling latency, mean (µs)", True),
            ("access_mean_us", "replay access latency, mean (µs)", True),
            ("communication_total", "share of communication", False),
        ):
            lines: dict[str, Line] = {
                variant: Line([value(rows, variant, (transport, n, kind), figure) for n in counts], colour)
                for variant, colour in _COLOURS.items()
            }
            plots.append(
                draw_lines(f"{figure}-{transport}-{kind}", _axis(transport, kind), label, counts,
                           _there(lines), logarithmic=logarithmic)
            )  # fmt: skip
        plots.append(_frequency(rows, transport, kind, counts))
    return plot_row(plots) if plots else ""


def _frequency(rows: Rows, transport: str, kind: str, counts: Sequence[int]) -> str:
    lines = {}
    named: tuple[tuple[Variant, str], ...] = (("redis", "Redis"), ("server", "ours"))
    for variant, name in named:
        for figure, word in (("ideal_frames_s", "ideal"), ("actual_frames_s", "actual")):
            values = [value(rows, variant, (transport, n, kind), figure) for n in counts]
            lines[f"{name}, {word}"] = Line(values, _COLOURS[variant], dashed=word == "ideal")
    name = f"frequency-{transport}-{kind}"
    return draw_lines(name, _axis(transport, kind), "transitions per second, each actor", counts, _there(lines))


def _transports(rows: Rows, plan: Plan) -> str:
    tables = []
    for place in places(rows):
        if place[1] != plan.shown:
            continue
        variants = [variant for variant in VARIANTS if not isnan(value(rows, variant, place, "updates_per_s"))]
        header = ["", *variants]
        lines = [
            (label, *(figure_text(value(rows, variant, place, figure)) for variant in variants))
            for figure, label in _TRANSPORTS
        ]
        tables.append(table(header, lines, place_name(place)))
    return "".join(tables)


def _edge(rows: Rows) -> str:
    """Sampling on either side of a long link."""
    far = [row for row in rows if row["link_delay_us"]]
    links = list(dict.fromkeys((row["link_gbit_s"], row["link_delay_us"]) for row in far))
    tables = []
    for rate, delay in links:
        sides = [
            [row for row in far if (row["link_gbit_s"], row["link_delay_us"], row["variant"]) == (rate, delay, variant)]
            for variant in ("learner", "server")
        ]
        lines = [
            (label, *(figure_text(median([row[figure] for row in side])) for side in sides)) for figure, label in _EDGE
        ]
        caption = f"{rate:g} Gbit/s, {delay:g} µs one way"
        tables.append(table(("", "sampling in the cloud", "sampling in the edge server"), lines, caption))
    intro = (
        '<p class="soft">Actors and server at the edge, the learner in the cloud. Where the cloud samples, all '
        "experience crosses the link, once; where the edge does, batches do.</p>"
    )
    return intro + "".join(tables) if tables else ""


def _links(links: Sequence[Mapping[str, float]]) -> str:
    header = ("as set", "round trip, p50 (µs)", "round trip, p99 (µs)", "Gbit/s reached")
    lines = [
        (
            f"{link['rate_set_gbit_s']:g} Gbit/s, {link['round_trip_set_us']:g} µs there and back",
            figure_text(link["round_trip_p50_us"]),
            figure_text(link["round_trip_p99_us"]),
            figure_text(link["rate_reached_gbit_s"]),
        )
        for link in links
    ]
    return table(header, lines)


def _method(plan: Plan, rows: Rows) -> str:
    case = plan.cases[0]
    text = (
        f"{plan.rounds} round{'s' if plan.rounds > 1 else ''} of {len(plan.cases)} cases in turn, {case.seconds:g} s "
        f"each after a warm-up; medians over rounds. The learner makes DQN updates of a duelling Nature network on the "
        f"CPU, one thread, batch {case.batch_size}. Synthetic actors push chunks of 50 transitions at 139 frames per "
        f"second. {_redis_client(rows)}Each figure is defined in README.md "
        "of headrace/studies/in_network."
    )
    return f"<p>{escape(text)}</p>"


def _redis_client(rows: Rows) -> str:
    clients = list(dict.fromkeys(row["redis_client"] for row in rows if row["redis_client"]))
    return f"Redis is reached with {' or '.join(clients)}. " if clients else ""


def _there(lines: Mapping[str, Line]) -> dict[str, Line]:
    return {name: line for name, line in lines.items() if not all(map(isnan, line.values))}


def _axis(transport: str, kind: str) -> str:
    return f"{kind} actors, {place_name((transport, 2, kind)).partition(',')[0]}"
