"""What an operator may set for one topic, on every protocol and in the store.

    name                 RESP            JSON             default
    lease_seconds        60              60               null: as the broker says
    max_deliveries       5               5                0: no limit
    dead_letter_topic    lost            "lost"           null: the topic's name and .dlq
    ttl_seconds          60              60               0: messages do not expire, but for those that say so
    expired              dead-letter     "dead-letter"    drop
    retry_delays         1,5,30          [1, 5, 30]       none: at once
    retry_min_seconds    0.5             0.5              0: at once
    retry_max_seconds    60              60               3600
    retry_factor         2               2                2
    retry_jitter         0.1             0.1              0
    limit_policy         drop-oldest     "drop-oldest"    null: as the broker says
    dedup_window_seconds  600            600              120
    max_messages         1000            1000             null, and 0: as the broker says, which goes before more
    max_bytes            1000000         1000000          the same
    retention            forever         "forever"        consumed
    retention_seconds    86400           86400            null: no limit of time
    retention_bytes      1000000         1000000          null: no limit of bytes
    retention_drops_unread  true         true             false
    ordered              true            true             false
    fair                 true            true             false
    max_rate             100             100              0: no limit
    max_concurrency      10              10               0: no limit
    key_max_rate         5               5                0: no limit
    key_max_concurrency  2               2                0: no limit
    partitions           8               8                1
    session_seconds      30              30               10
    handover_seconds     5               5                0.75
    trace                true            true             false
    trace_seconds        3600            3600             86400
    auto_create_groups   false           false            true
    group_idle_seconds   604800          604800           0: groups are not deleted
    default_group        false           false            true; set to false only when a topic is made
    paused_in_until_ms   1700000000000   1700000000000    0: not paused
    paused_out_until_ms  1700000000000   1700000000000    0: not paused

A setting is at its default when it is null, over RESP `default`. To add one: a field with its default, and a row in
`setting_fields.FIELDS`; the store keeps what is not at its default, by name.
"""

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from miniqueue.core.key_queue import KeyRules
from miniqueue.core.limit_policy import LimitPolicy
from miniqueue.core.names import check_topic
from miniqueue.core.setting_fields import CONSUMED, DEAD_LETTER, DROP, FIELDS, Field
from miniqueue.core.topic_errors import InvalidSettingError
from miniqueue.errors import InvalidTopicError

DEAD_LETTER_SUFFIX: Final = b".dlq"


class TopicSettings(NamedTuple):
    """The settings of one topic.

    Attributes:
      lease_seconds: of a lease, for who does not say; None as the broker says.
      max_deliveries: after so many a message that comes back is a dead letter; 0 for no limit.
      dead_letter_topic: where it goes then; None for the topic's own name and `.dlq`.
      ttl_seconds: how long after its publish a message expires that does not say itself; 0 for never.
      expired: what happens to it then.
      retry_delays: how long a message waits after its first return, its second, …; after more as after the last.
      retry_min_seconds: how long it waits after its first return; 0 for not at all.
      retry_max_seconds: how long at most.
      retry_factor: by how much longer after each further return.
      retry_jitter: what part of that may be less, by chance, so that not all come back together.
      retention: what happens to messages that all groups are done with, where neither of the next two is set.
      retention_seconds: how long they can be read again.
      retention_bytes: how many bytes of the log can, at least, if there are so many.
      retention_drops_unread: whether these limits are for all messages, and not only for those.
      ordered: whether the messages of a key are handed out one at a time, in order.
      fair: whether keys take turns; those that are ordered or have limits always do.
      max_rate: messages that are handed out each second, to all of a group; 0 for no limit.
      max_concurrency: messages that are leased at a time, by all of a group; 0 for no limit.
      key_max_rate, key_max_concurrency: the same of the messages of each key.
      partitions: how many there are; keys choose among them.
      session_seconds: for how long a member of a group is there that asks for messages once, and does not ask again.
      handover_seconds: how long a partition waits for leases of its last member before the next one reads it.
      trace: whether it is noted what happens to each message.
      trace_seconds: for how long that is known.
      auto_create_groups: whether a group begins by being used; else it has to be created.
      group_idle_seconds: after so long without a reader a group is deleted, but not `default`; 0 for never.
      default_group: whether consumers may read with the group `default`.
      paused_in_until_ms: when messages are taken again, since 1970; a time that is past does not matter.
      paused_out_until_ms: when messages are handed out again.
      dedup_window_seconds: for how long a second publish with a dedup id is a duplicate; 0 for no such ids.
      limit_policy: what gives way when the topic is full; None as the broker says.
      max_messages: that the topic may hold, where the broker does not allow less; None or 0 as the broker says.
      max_bytes: the same of payloads and attributes.
    """

    lease_seconds: float | None = None
    max_deliveries: int = 0
    dead_letter_topic: str | None = None
    ttl_seconds: float = 0.0
    expired: str = DROP
    retry_delays: tuple[float, ...] = ()
    retry_min_seconds: float = 0.0
    retry_max_seconds: float = 3600.0
    retry_factor: float = 2.0
    retry_jitter: float = 0.0
    ordered: bool = False
    fair: bool = False
    max_rate: float = 0.0
    max_concurrency: int = 0
    key_max_rate: float = 0.0
    key_max_concurrency: int = 0
    paused_in_until_ms: int = 0
    paused_out_until_ms: int = 0
    dedup_window_seconds: float = 120.0
    limit_policy: str | None = None
    max_messages: int | None = None
    max_bytes: int | None = None
    retention: str = CONSUMED
    retention_seconds: float | None = None
    retention_bytes: int | None = None
    retention_drops_unread: bool = False
    partitions: int = 1
    session_seconds: float = 10.0
    handover_seconds: float = 0.75
    trace: bool = False
    trace_seconds: float = 86_400.0
    auto_create_groups: bool = True
    default_group: bool = True
    group_idle_seconds: float = 0.0

    def with_changes(self, changes: Mapping[str, object], topic: bytes) -> "TopicSettings":
        """Return the settings of `topic` with other values, as JSON has them; None for the default.

        Raises InvalidSettingError with the name of the setting and what it may be.
        """
        checked: dict[str, Any] = {name: _checked(name, value) for name, value in changes.items()}
        settings = self._replace(**checked)
        settings._check_together(topic)
        return settings

    def members(self) -> dict[str, object]:
        """Return those that are not at their default, as JSON has them."""
        return {name: value for name, value in self._asdict().items() if value != DEFAULTS[name]}

    def dead_letters_of(self, topic: bytes) -> bytes:
        """Return the name of the topic for the dead letters of `topic`; it may be too long to be one."""
        return topic + DEAD_LETTER_SUFFIX if self.dead_letter_topic is None else self.dead_letter_topic.encode()

    def retry_seconds(self, return_count: int, chance: float) -> float:
        """Return how long a message waits after it has come back for the `return_count`-th time.

        Args:
          return_count: from 1 on.
          chance: from 0 to 1, for the jitter.
        """
        if self.retry_delays:
            delay = self.retry_delays[min(return_count, len(self.retry_delays)) - 1]
        else:
            exponent = min(return_count - 1, _MAX_EXPONENT)
            delay = min(self.retry_min_seconds * self.retry_factor**exponent, self.retry_max_seconds)
        return delay * (1 - self.retry_jitter * chance)

    @property
    def ttl_ms(self) -> int:
        """The same as `ttl_seconds` in ms, at least 1 where there is one."""
        return max(1, round(self.ttl_seconds * 1000)) if self.ttl_seconds else 0

    @property
    def moves_expired(self) -> bool:
        """Whether messages that expire are dead letters."""
        return self.expired == DEAD_LETTER

    @property
    def key_rules(self) -> KeyRules | None:
        """How the messages of each key are handed out; None where keys do not matter."""
        if not (self.ordered or self.fair or self.key_max_rate or self.key_max_concurrency):
            return None
        return KeyRules(self.ordered, self.key_max_concurrency or sys.maxsize, self.key_max_rate)

    @property
    def has_retry_delay(self) -> bool:
        """Whether what comes back waits at all."""
        return bool(self.retry_delays or self.retry_min_seconds)

    @property
    def has_retention_limit(self) -> bool:
        """Whether messages are kept for a time, or up to a number of bytes."""
        return self.retention_seconds is not None or self.retention_bytes is not None

    @property
    def retains(self) -> bool:
        """Whether messages are kept that all groups are done with."""
        return self.retention != CONSUMED or self.has_retention_limit

    def _check_together(self, topic: bytes) -> None:
        if self.retention != CONSUMED and self.has_retention_limit:
            raise InvalidSettingError("retention", f"{CONSUMED} where retention_seconds or retention_bytes is set")
        if self.retention_drops_unread and not self.has_retention_limit:
            raise InvalidSettingError("retention_drops_unread", "false without retention_seconds and retention_bytes")
        if self.retry_delays and self.retry_min_seconds:
            raise InvalidSettingError("retry_delays", "set, or retry_min_seconds; not both")
        if self.retry_max_seconds < self.retry_min_seconds:
            raise InvalidSettingError("retry_max_seconds", "not below retry_min_seconds")
        if self.dead_letter_topic is not None and self.dead_letter_topic.encode() == topic:
            raise InvalidSettingError("dead_letter_topic", "another topic than the one it is set for")
        if self.max_deliveries or self.moves_expired or self.limit_policy == LimitPolicy.DEAD_LETTER:
            try:
                check_topic(self.dead_letters_of(topic))
            except InvalidTopicError as exc:
                allowed = "given: the name of the topic is too long for .dlq behind it"
                raise InvalidSettingError("dead_letter_topic", allowed) from exc


#: Those of a topic for which nothing was set.
DEFAULT_SETTINGS: Final = TopicSettings()
#: By name.
DEFAULTS: Final[Mapping[str, object]] = MappingProxyType(DEFAULT_SETTINGS._asdict())
_MAX_EXPONENT: Final = 1000 // 7  # 100.0**142 is still a number


def of_members(members: Mapping[str, object], topic: bytes = b"") -> TopicSettings:
    """Parse `TopicSettings.members`; raises InvalidSettingError."""
    return DEFAULT_SETTINGS.with_changes(members, topic)


def parse_texts(words: list[str]) -> dict[str, object]:
    """Return what words say, a name and a value by turns, as `with_changes` takes it; the last of a name counts.

    Raises InvalidSettingError for a name or value that cannot be.
    """
    if len(words) % 2:
        raise InvalidSettingError(words[-1], "followed by a value")
    return {name: _parsed(name, text) for name, text in zip(words[::2], words[1::2], strict=True)}


def text_of(value: object) -> str:
    """Return the value of a setting as `parse_texts` takes it."""
    if value is None:
        return "default"
    if isinstance(value, tuple):
        return ",".join(map(text_of, value)) or "default"
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _field(name: str) -> Field:
    if name not in FIELDS:
        raise InvalidSettingError(name[:100], f"no setting; there are {', '.join(FIELDS)}")
    return FIELDS[name]


def _parsed(name: str, text: str) -> object:
    field = _field(name)
    if text.lower() == "default":
        return None
    try:
        return field.parse(text)
    except ValueError as exc:
        raise InvalidSettingError(name, field.allowed) from exc


def _checked(name: str, value: object) -> object:
    field = _field(name)
    if value is None:
        return DEFAULTS[name]
    try:
        return field.check(value)
    except (ValueError, TypeError, InvalidTopicError) as exc:
        raise InvalidSettingError(name, field.allowed) from exc
