"""What redis-benchmark and h2load print, read. Pure."""

import csv
import re

from benchmarks.bench import MeasurementError


def redis_benchmark_rate(output: str) -> float:
    """Return the requests per second of `redis-benchmark --csv`; a run too short to be timed is `inf`."""
    rows = [row for row in csv.reader(output.splitlines()) if len(row) > 1]
    if len(rows) < 2:
        raise MeasurementError(f"redis-benchmark printed {output[:200]!r}")
    rate = float(dict(zip(rows[0], rows[-1], strict=False))["rps"])
    return rate or float("inf")


def h2load_rate(output: str, count: int) -> float:
    """Return the requests per second of `h2load -n count`; every request must have succeeded with a 2xx."""
    if f" {count} succeeded, 0 failed" not in output or f"status codes: {count} 2xx" not in output:
        lines = [line for line in output.splitlines() if line.startswith(("requests:", "status codes:"))]
        raise MeasurementError("h2load: " + ("; ".join(lines) or output[-200:]))
    match = re.search(r"finished in .*?, ([\d.]+) req/s", output)
    if match is None:
        raise MeasurementError(f"h2load printed {output[-200:]!r}")
    return float(match[1])
