"""The report's section on the gradients of workers that share parameters."""

from html import escape

from headrace.report.document import tile_row
from headrace.report.formats import count, duration
from headrace.report.history import Record

__all__ = ["workers_section"]


def workers_section(workers: Record | None) -> str:
    """Applied, dropped and refused gradients, waits for locks, and staleness; empty without shared parameters."""
    if not workers:
        return ""
    tiles = [
        (count(workers["accepted"]), "gradients applied", False),
        (count(workers["dropped"]), "dropped for their staleness", False),
        (count(workers["refused"]), "refused, not finite", False),
        (duration(workers["lock_wait_seconds"]), "waiting for locks, all workers", False),
    ]
    counts = workers["staleness"]
    total = sum(counts.values()) or 1
    heads = "".join(f"<th>{escape(bucket)}</th>" for bucket in counts)
    shares = "".join(f"<td>{number / total:.1%}</td>" for number in counts.values())
    table = (
        f"<table><caption>gradients by how many updates of others they were behind</caption>"
        f"<tr>{heads}</tr><tr>{shares}</tr></table>"
    )
    return f'{tile_row(tiles)}<div class="settings">{table}</div>'
