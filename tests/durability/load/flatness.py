"""Whether something grows under a load that does not: pure, from samples to findings.

    warming up: not looked at │ third quarter │ last quarter
                              └──── median ───┴─── median ── the difference is the growth, and has a bound

Medians, since a sample may fall into a compaction or into the moment between two connections.
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

MIB = 1 << 20
MIN_SAMPLES = 20


class Sample(NamedTuple):
    """What a broker takes at one moment."""

    rss_bytes: float
    tasks: float
    descriptors: float
    files: float


#: What each may grow by from one quarter to the next. A connection that is just being closed has three tasks.
BOUNDS = Sample(rss_bytes=4 * MIB, tasks=16, descriptors=8, files=8)
#: Memory may grow by this part of itself as well: an allocator is not tidy.
RSS_PART = 0.03


def growth(samples: Sequence[Sample]) -> Sample:
    """Return by how much each has grown from the third quarter of the samples to the last."""
    quarter = len(samples) // 4
    third, last = samples[-2 * quarter : -quarter], samples[-quarter:]
    return Sample(
        *(median(b) - median(a) for a, b in zip(zip(*third, strict=True), zip(*last, strict=True), strict=True))
    )


def findings(samples: Sequence[Sample]) -> list[str]:
    """Return a line for each that grows beyond its bound."""
    if len(samples) < MIN_SAMPLES:
        return [f"only {len(samples)} samples"]
    grown, rss_bytes = growth(samples), median(sample.rss_bytes for sample in samples)
    bounds = BOUNDS._replace(rss_bytes=BOUNDS.rss_bytes + RSS_PART * rss_bytes)
    return [
        f"{name} grows by {found:,.0f} in a quarter of the run; the bound is {bound:,.0f}"
        for name, found, bound in zip(Sample._fields, grown, bounds, strict=True)
        if found > bound
    ]
