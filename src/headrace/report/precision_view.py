"""The report's section on actors that compute, or receive their parameters, in fewer bits."""

from html import escape

from headrace.report import figures
from headrace.report.document import plot_row, tile_row
from headrace.report.formats import size
from headrace.report.history import History, Record

__all__ = ["precision_section"]

_WHOLE_BITS = 32


def precision_section(history: History) -> str:
    """Precision, output errors and size of the actors' policies; empty if everything is in fp32."""
    latest = [record for record in history.precisions[-1:] if _quantizes(record)]
    lines = [f"<p>{escape(_said(record))}</p>" for record in latest]
    if history.quantizations:
        last = history.quantizations[-1]
        share = f"{last['bytes'] / last['parameter_bytes']:.1%}"
        sizes = f"{size(last['bytes'])} for {size(last['parameter_bytes'])}"
        lines.append(tile_row([(share, f"of the parameters' bytes in full precision: {sizes} a publication", False)]))
        lines.append(plot_row([figures.output_errors(history.quantizations)]))
    return "".join(lines)


def _quantizes(record: Record) -> bool:
    return bool(record["precision"] != "fp32" or record["communication_bits"] < _WHOLE_BITS)


def _said(record: Record) -> str:
    bits = record["communication_bits"]
    sent = f"parameters are sent in {bits} bits each" if bits < _WHOLE_BITS else "policies are sent in it"
    note = f" ({record['note']})" if record.get("note") else ""
    return f"Actors compute in {record['precision']}; {sent}{note}."
