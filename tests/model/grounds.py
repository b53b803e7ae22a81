"""The topics on which clients act at random: each with other settings, and what is worth doing there."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.model.rules.facts import DEFAULT
from tests.model.rules.rules import Rules


@dataclass
class Ground:
    """A topic, and what is done with it.

    Attributes:
      settings: words of TOPIC CREATE.
      rules: the same, as promises.
      options: the options of publishes.
      acts: beside publishing, receiving and settling.
      groups: the groups that read it.
      members: the members of its groups, which receive it; empty: consumers are no members.
      has_sums: each group has ended, or has, as many messages as were published; none ends but by a settle, or by
        retention.
      every_seconds: there is a schedule of its name that publishes so often; 0 for none.
    """

    name: bytes
    settings: Sequence[bytes] = ()
    rules: Rules = field(default_factory=Rules)
    options: frozenset[str] = frozenset()
    acts: tuple[str, ...] = ()
    groups: tuple[bytes, ...] = (DEFAULT,)
    members: tuple[bytes, ...] = ()
    every_seconds: int = 0
    has_sums: bool = False

    @property
    def sure_groups(self) -> tuple[bytes, ...]:
        """The groups that exist all the time."""
        return self.groups[:-1] if "new_group" in self.acts else self.groups

    @property
    def places(self) -> tuple[bytes, ...]:
        """Where its messages are received."""
        return (self.name, self.name + b".dlq") if self.rules.has_dead else (self.name,)


ALL = frozenset({"delay", "at", "ttl", "key", "dedup", "unique", "priority", "header"})

GROUNDS: tuple[Ground, ...] = (
    Ground(b"plain", options=ALL, acts=("cancel", "purge", "pause", "delete", "look", "stream")),
    Ground(
        b"dying",
        (b"max_deliveries", b"3", b"retry_delays", b"1,2", b"trace", b"true"),
        Rules(max_deliveries=3),
        frozenset({"delay", "dedup", "priority", "key", "header"}),
        ("reject", "redrive", "cancel", "trace"),
    ),
    Ground(
        b"keyed",
        (b"ordered", b"true"),
        Rules(is_ordered=True),
        frozenset({"key", "delay", "priority", "ttl"}),
        ("look",),
    ),
    Ground(
        b"capped",
        (b"max_concurrency", b"4", b"key_max_concurrency", b"1"),
        Rules(max_held=4),
        frozenset({"key", "dedup"}),
        ("pause",),
    ),
    Ground(
        b"narrow",
        (b"max_messages", b"6", b"limit_policy", b"drop-oldest"),
        Rules(max_messages=6, drops_oldest=True),
        frozenset({"delay", "priority", "dedup"}),
    ),
    Ground(
        b"spilling",
        (b"max_messages", b"6", b"limit_policy", b"dead-letter"),
        Rules(max_messages=6),
        frozenset({"priority", "dedup", "ttl"}),
        ("redrive",),
    ),
    Ground(
        b"short",
        (b"ttl_seconds", b"5", b"expired", b"dead-letter"),
        Rules(ttl_ms=5000, drops_expired=False),
        frozenset({"ttl", "delay", "unique"}),
    ),
    Ground(
        b"debounced",
        (b"key_max_concurrency", b"2"),
        Rules(has_dead=False),
        frozenset({"unique", "delay", "priority", "key"}),
        ("cancel", "look", "stream"),
        (DEFAULT, b"g"),
    ),
    Ground(
        b"kept",
        (b"retention", b"forever"),
        options=frozenset({"dedup", "unique", "delay"}),
        acts=("read", "purge"),
    ),
    Ground(
        b"shared",
        (b"retention", b"forever"),
        Rules(has_dead=False),
        frozenset({"key", "delay", "dedup"}),
        ("read", "seek", "new_group"),
        (DEFAULT, b"g", b"late"),
    ),
    Ground(
        b"aging",
        (b"retention_seconds", b"6", b"retention_drops_unread", b"true"),
        Rules(keeps_ms=6000, drops_unread=True, has_dead=False),
        acts=("read", "read"),
        groups=(DEFAULT, b"slow"),
        has_sums=True,
    ),
    Ground(
        b"sized",
        (b"retention_bytes", b"30", b"retention_drops_unread", b"true", b"partitions", b"2"),
        Rules(keeps_bytes=30, drops_unread=True, has_dead=False, partitions=2),
        acts=("read", "grow"),
        groups=(DEFAULT, b"slow"),
        has_sums=True,
    ),
    Ground(
        b"counted",
        (b"retention_messages", b"4", b"retention_drops_unread", b"true"),
        Rules(keeps_count=4, drops_unread=True, has_dead=False),
        acts=("read", "read"),
        groups=(DEFAULT, b"slow"),
        has_sums=True,
    ),
    Ground(
        b"resting",
        (b"retention_seconds", b"4", b"trace", b"true"),
        Rules(keeps_ms=4000, has_dead=False),
        frozenset({"dedup"}),
        ("read", "trace", "trace"),
        (DEFAULT, b"slow"),
        has_sums=True,
    ),
    Ground(
        b"split",
        (b"partitions", b"3", b"ordered", b"true", b"handover_seconds", b"2"),
        Rules(is_ordered=True, handover_seconds=2, partitions=3),
        frozenset({"key", "dedup", "priority", "delay"}),
        ("grow",),
        members=(b"a", b"b", b"c"),
    ),
    Ground(
        b"team",
        (b"partitions", b"3", b"handover_seconds", b"2", b"session_seconds", b"3"),
        Rules(partitions=3, handover_seconds=2, is_in_order=True),
        frozenset({"key"}),
        ("stream", "stream", "stream", "grow", "members"),
        members=(b"a", b"b", b"c", b"d"),
    ),
    Ground(
        b"spread",
        (b"partitions", b"5", b"max_deliveries", b"4", b"trace", b"true"),
        Rules(max_deliveries=4, partitions=5),
        frozenset({"key", "dedup", "ttl", "unique"}),
        ("reject", "redrive", "purge", "grow", "trace"),
    ),
    Ground(
        b"asking",
        (b"trace", b"true"),
        options=frozenset({"key", "header"}),
        acts=("request", "request", "request", "answer", "answer", "answer", "answer", "answer", "trace"),
    ),
    Ground(b"ticking", options=frozenset({"delay"}), acts=("cancel",), every_seconds=7),
    Ground(
        b"turning",
        (b"partitions", b"2", b"ordered", b"true", b"handover_seconds", b"2"),
        Rules(is_ordered=True, handover_seconds=2, partitions=2),
        frozenset({"key"}),
        ("stream", "stream", "grow", "order", "order"),
        members=(b"a", b"b", b"c"),
    ),
)
#: And one that needs a broker with the extra `schema`.
ALL_GROUNDS: tuple[Ground, ...] = (
    *GROUNDS,
    Ground(
        b"formed",
        (b"schema", b'{"type":"string"}'),
        Rules(is_formed=True),
        frozenset({"delay", "key", "priority"}),
        ("look", "purge"),
    ),
)
