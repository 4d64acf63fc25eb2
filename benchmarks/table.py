"""The replay table against a plain gather and cpprb: sampling, inserting, priority updates, memory. One thread."""

from benchmarks.measure import make_parser, report, require, run


def main() -> int:
    """Measures, prints and writes results/table.csv; returns status 1 if a requirement is missed."""
    make_parser(__doc__).parse_args()
    require("headrace", "cpprb")
    from benchmarks.table_frames import measure_frames
    from benchmarks.table_vectors import measure_vectors

    return report("table", measure_frames() + measure_vectors())


if __name__ == "__main__":
    run(main)
