"""The replay table against a plain gather and cpprb: sampling, inserting, priority updates, memory. One thread."""

import sys

from benchmarks.measure import report, require


def main() -> int:
    """Measures, prints and writes results/table.csv; returns status 1 if a requirement is missed."""
    require("headrace", "cpprb")
    from benchmarks.table_frames import measure_frames
    from benchmarks.table_vectors import measure_vectors

    return report("table", measure_frames() + measure_vectors())


if __name__ == "__main__":
    sys.exit(main())
