"""The page of the study: what was published beside what was measured here."""

from collections.abc import Mapping, Sequence
from html import escape
from math import isnan, nan
from pathlib import Path
from typing import Any

from headrace.errors import StorageError
from headrace.report.document import document, plot_row, share_bar, tile_row
from headrace.roles.actor import ACTOR_PHASES
from headrace.studies.in_network.case import VARIANTS, Variant
from headrace.studies.in_network.comparisons import Comparison, beside, compare, places, value
from headrace.studies.in_network.figures import median
from headrace.studies.in_network.plan import Plan
from headrace.studies.page import figure_text, lead_of, note_list, table
from headrace.studies.plots import Line, draw_lines
from headrace.studies.published import Published, load_published
from headrace.studies.results import Origin

__all__ = ["write_page"]

Rows = Sequence[Mapping[str, Any]]
Place = tuple[str, int, str]

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
    ("sampling_p50_us", "sampling latency, p50 (µs)"),
    ("sampling_p99_us", "sampling latency, p99 (µs)"),
    ("access_p50_us", "replay access latency, p50 (µs)"),
    ("access_p99_us", "replay access latency, p99 (µs)"),
    ("pull_mb_s", "replay pull throughput (MB/s)"),
    ("push_p50_us", "push of a chunk, p50 (µs)"),
    ("push_p99_us", "push of a chunk, p99 (µs)"),
    ("parameters_p50_us", "pull of parameters, p50 (µs)"),
    ("bytes_per_transition", "bytes per transition, actor to server"),
    ("communication_total", "share of communication"),
    ("server_cores", "cores that the server kept busy"),
)
_EDGE = (
    ("updates_per_s", "updates per second"),
    ("sampling_p50_us", "sampling latency, p50 (µs)"),
    ("sampling_p99_us", "sampling latency, p99 (µs)"),
    ("access_p50_us", "replay access latency, p50 (µs)"),
    ("to_learner_mb_s", "MB/s over the link to the learner"),
    ("from_learner_mb_s", "MB/s over the link from the learner"),
)
_UNMEASURED = "– (needs the poll-mode loop, which Headrace does not have)"


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
        ("Published, and here", _published(published, rows, comparisons, plan)),
        ("Where the time goes", _times(rows, plan)),
        ("More actors", _over_actors(rows)),
        ("Transports", _transports(rows, plan)),
        ("Edge and cloud", _edge(rows)),
        ("Links", _links(links)),
        ("How it was measured", _method(plan)),
    )
    text = document("In-network experience sampling", lead_of(origin), _tiles(comparisons, plan), sections)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"can't write {path}: {error.strerror}") from error


def _tiles(comparisons: Sequence[Comparison], plan: Plan) -> str:
    """The requirements, each by the transport at which it is met worst."""
    here = [each for each in comparisons if each.kind == "synthetic" and each.actors == plan.shown]
    tiles = []
    for figure, name in (("sampling_p50_us", "sampling latency"), ("access_p50_us", "replay access latency")):
        found = [each for each in here if each.figure == figure and each.peer == "redis"]
        if found:
            worst = min(found, key=lambda each: each.decrease_percent or 0.0)
            note = f"{name} against the Redis baseline (required {worst.required} %); least, over {worst.transport}"
            tiles.append((_change(worst.decrease_percent), note, worst.verdict == "holds"))
    sizes = [each for each in here if each.figure == "bytes_per_transition"]
    if sizes:
        most = max(sizes, key=lambda each: each.ours)
        note = f"bytes for each transition, actor to server (required {most.required}; raw 56,448)"
        tiles.append((figure_text(most.ours, 4), note, most.verdict == "holds"))
    return tile_row(tiles)


def _published(published: Mapping[str, Published], rows: Rows, comparisons: Sequence[Comparison], plan: Plan) -> str:
    lines = []
    for quantity, figure in published.items():
        lines.append((quantity, str(figure), _here(quantity, rows, comparisons, plan)))
    note = (
        "Published figures are relative, and their baseline sampled in the learner on the same server; ours are shown "
        "against Redis (the published system's server) and against our own server with sampling in the learner."
    )
    return table(("quantity", "published", "here"), lines) + f'<p class="soft">{escape(note)}</p>'


def _here(quantity: str, rows: Rows, comparisons: Sequence[Comparison], plan: Plan) -> str:
    """What was measured here of a published quantity."""
    figure = beside(quantity)
    if figure:
        found = [
            each
            for each in comparisons
            if each.figure == figure and (each.actors, each.kind) == (plan.shown, "synthetic")
        ]
        return "; ".join(f"{_change(each.decrease_percent)} ({each.transport}, against {each.peer})" for each in found)
    if quantity.startswith("communication share"):
        here = [place for place in places(rows) if place[0] == "loopback" and place[2] == "synthetic"]
        ends = sorted(here, key=lambda place: place[1])[:: max(1, len(here) - 1)] if here else []
        return "; ".join(
            f"{variant}: " + " to ".join(_percent(value(rows, variant, end, "communication_total")) for end in ends)
            for variant in ("redis", "server")
        )
    if quantity.startswith("parameters pulled"):
        return f"{figure_text(median([row['parameters_mb'] for row in rows]))} MB"
    if quantity.startswith("experiences pushed"):
        size = median([row["bytes_per_transition"] for row in rows])
        return f"{figure_text(3 * 512 * size / 1e6)} MB for as many transitions, each frame sent once"
    return _UNMEASURED


def _times(rows: Rows, plan: Plan) -> str:
    """The actor's bar above the learner's, for each variant."""
    parts = []
    for place in places(rows):
        if place[1] != plan.shown:
            continue
        for variant, title in VARIANTS.items():
            if isnan(value(rows, variant, place, "updates_per_s")) or (place[0] == "unix" and "redis" in variant):
                continue
            actor = [
                (phase, f"c{number}", value(rows, variant, place, f"actor_{phase}"))
                for number, phase in enumerate(ACTOR_PHASES, 1)
            ]
            learner = [
                (", ".join(phases), colour, sum(value(rows, variant, place, f"learner_{phase}") for phase in phases))
                for phases, colour in _LEARNER_PARTS
            ]
            name = f"{title} · {_name(place)}"
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
            ("sampling_p50_us", "sampling latency, p50 (µs)", True),
            ("access_p50_us", "replay access latency, p50 (µs)", True),
            ("communication_total", "share of communication", False),
        ):
            lines = {
                VARIANTS[variant]: Line([value(rows, variant, (transport, n, kind), figure) for n in counts], colour)
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
    return draw_lines(name, _axis(transport, kind), "transitions an actor pushes per second", counts, _there(lines))


def _transports(rows: Rows, plan: Plan) -> str:
    tables = []
    for place in places(rows):
        if place[1] != plan.shown:
            continue
        variants = [variant for variant in VARIANTS if not isnan(value(rows, variant, place, "updates_per_s"))]
        header = ["", *(_column(variant, place) for variant in variants)]
        lines = [
            (label, *(figure_text(value(rows, variant, place, figure)) for variant in variants))
            for figure, label in _TRANSPORTS
        ]
        tables.append(table(header, lines, _name(place)))
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


def _method(plan: Plan) -> str:
    case = plan.cases[0]
    text = (
        f"{plan.rounds} round{'s' if plan.rounds > 1 else ''} of {len(plan.cases)} cases in turn, {case.seconds:g} s "
        f"each after a warm-up; medians over rounds. The learner makes DQN updates of a duelling Nature network on the "
        f"CPU, one thread, batch {case.batch_size}. Synthetic actors push chunks of 50 transitions at 139 frames per "
        "second. Over a Unix socket, the Redis baseline is that over TCP loopback. Each figure is defined in README.md "
        "of headrace/studies/in_network."
    )
    return f"<p>{escape(text)}</p>"


def _there(lines: Mapping[str, Line]) -> dict[str, Line]:
    return {name: line for name, line in lines.items() if not all(map(isnan, line.values))}


def _name(place: Place) -> str:
    transport, actors, kind = place
    over = {"unix": "Unix socket", "loopback": "TCP loopback", "hosts": "three hosts"}[transport]
    return f"{over}, {actors} {kind} actor{'s' if actors > 1 else ''}"


def _axis(transport: str, kind: str) -> str:
    return f"{kind} actors, {_name((transport, 2, kind)).partition(',')[0]}"


def _column(variant: str, place: Place) -> str:
    return variant + (" (TCP)" if place[0] == "unix" and variant.startswith("redis") else "")


def _change(decrease_percent: float | None) -> str:
    below = nan if decrease_percent is None else decrease_percent
    return "–" if isnan(below) else f"{'−' if below >= 0 else '+'}{abs(below):.1f} %"


def _percent(share: float) -> str:
    return "–" if isnan(share) else f"{share:.1%}"
