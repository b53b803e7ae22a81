"""The metrics of all shards, as one scrape in the text format of Prometheus: each sample has a label `shard`.

    # HELP miniqueue_topics Topics that exist.          # HELP miniqueue_topics Topics that exist.
    # TYPE miniqueue_topics gauge                  ─▶   # TYPE miniqueue_topics gauge
    miniqueue_topics 2                                  miniqueue_topics{shard="0"} 2
                                                        miniqueue_topics{shard="1"} 3

Families are merged one at a time, so that other tasks run in between: those of topics can have very many samples.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

_FAMILY: Final = re.compile(rb"^# HELP ", re.MULTILINE)
_SAMPLE: Final = re.compile(rb"^(\w+)(?:\{(.))?", re.MULTILINE)
#: Size of samples that get their label in one iteration of the event loop.
TURN_BYTES: Final = 256 << 10
_UP_HEAD: Final = b"""# HELP miniqueue_shard_up Whether a shard answers.
# TYPE miniqueue_shard_up gauge
"""


async def merge_metrics(scrapes: Mapping[int, bytes], shard_count: int) -> bytes:
    """Return one scrape of those of the shards that answer, by number."""
    up = b"".join(b'miniqueue_shard_up{shard="%d"} %d\n' % (n, n in scrapes) for n in range(shard_count))
    heads: dict[bytes, bytes] = {}
    samples: dict[bytes, list[bytes]] = {}
    for shard, scrape in scrapes.items():
        for family in _FAMILY.split(scrape)[1:]:
            head_end = _end_of_head(family)
            name = family[: family.find(b" ")]
            heads.setdefault(name, b"# HELP " + family[:head_end])
            samples.setdefault(name, []).extend([part async for part in _labeled(shard, family[head_end:])])
    return _UP_HEAD + up + b"".join([part for name, head in heads.items() for part in (head, *samples[name])])


def _end_of_head(family: bytes) -> int:
    """Return where the samples of a family begin: after the lines with its text and its type."""
    end = family.find(b"\n") + 1
    if family.startswith(b"# TYPE ", end):
        end = family.find(b"\n", end) + 1
    return end


async def _labeled(shard: int, samples: bytes) -> AsyncIterator[bytes]:
    """Yield samples with the label, some in each iteration of the event loop."""
    label = b'shard="%d"' % shard

    def with_label(match: re.Match[bytes]) -> bytes:
        name, rest = match.groups()
        if rest is None:
            return b"%b{%b}" % (name, label)
        return b"%b{%b%b%b" % (name, label, b"" if rest == b"}" else b",", rest)

    start = 0
    while start < len(samples):
        end = samples.find(b"\n", min(start + TURN_BYTES, len(samples) - 1)) + 1
        yield _SAMPLE.sub(with_label, samples[start : end or len(samples)])
        start = end or len(samples)
        await asyncio.sleep(0)
