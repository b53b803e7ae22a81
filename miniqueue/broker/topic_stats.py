"""How much a topic holds, as counts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TopicStats:
    """How much a topic holds; all in messages, but `consumers` and `waiting`, which count consumers, and `size_bytes`.

    `size_bytes` are those of the payloads of messages that are ready, leased or delayed. `expired` counts since the
    start of the broker, and each of them is among the `dropped` or the `moved`. `duplicates` counts publishes since
    then that were told the id of an earlier message, `dedup_ids` what is remembered of publishes.
    """

    published: int
    acknowledged: int
    dropped: int
    moved: int
    ready: int
    leased: int
    delayed: int
    size_bytes: int
    consumers: int
    waiting: int
    expired: int
    duplicates: int
    dedup_ids: int
