"""The settings of one topic, for every protocol and in the store.

    row of TopicSettings ─▶ RESP, JSON, the store, errors, TOPIC HELP, the table in docs/protocol.md

Null, over RESP `default`, resets a setting to its default. To add a setting, add its row to `TopicSettings`, read it
where it takes effect, and run `python -m tests.meta.tables`. The store contains the settings that are not at their
defaults, by name.
"""

import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

from miniqueue.core.keyed.key_queue import KeyRules
from miniqueue.core.message.names import check_topic
from miniqueue.core.message.partitioning import MAX_PARTITIONS
from miniqueue.core.message.parts import MAX_PARTS, append_to
from miniqueue.core.options.consume import MAX_LEASE_SECONDS, MAX_SESSION_SECONDS, MIN_SESSION_SECONDS
from miniqueue.core.options.publish import MAX_TTL_SECONDS
from miniqueue.core.settings.fields import (
    CONSUMED,
    DEAD_LETTER,
    DROP,
    FOREVER,
    MAX_CONCURRENCY,
    MAX_DEDUP_SECONDS,
    MAX_DELIVERIES,
    MAX_FACTOR,
    MAX_GROUP_IDLE_SECONDS,
    MAX_HELD,
    MAX_RATE,
    MAX_RETENTION_SECONDS,
    MAX_RETRY_SECONDS,
    MAX_TRACE_SECONDS,
    MIN_GROUP_IDLE_SECONDS,
    MIN_RATE,
    Field,
    LimitPolicy,
    choice,
    delays,
    flag,
    growths,
    json_schema,
    number,
    optional_seconds,
    pause,
    pauses_by_group,
    rate,
    seconds,
    seconds_by_group,
    topic_name,
    user_name,
    whole,
)
from miniqueue.errors import InvalidTopicError, RequestError
from miniqueue.errors.requests import InvalidSettingError

DEAD_LETTER_SUFFIX: Final = b".dlq"
#: The settings with a value for each of some groups.
BY_GROUP: Final = ("idle_groups", "ephemeral_groups", "paused_groups")
_RETENTION_LIMITS: Final = "retention_seconds, retention_bytes, or retention_messages"


class TopicSettings(NamedTuple):
    """The settings of one topic: a row for each, with its type, its valid values, its effect, and its default.

    Until it is removed, a message that expired by `ttl_seconds` keeps its unique key (`core.log.unique_keys`).
    """

    lease_seconds: Annotated[
        float | None,
        seconds(
            0.001,
            MAX_LEASE_SECONDS,
            "lease of messages that a consumer receives without naming a lease",
            unset="`-lease`",
        ),
    ] = None
    max_deliveries: Annotated[
        int,
        whole(
            0,
            MAX_DELIVERIES,
            "after this number of deliveries, a message that would return becomes a [dead letter](#dead-letters)",
            zero="no limit",
        ),
    ] = 0
    dead_letter_topic: Annotated[
        str | None,
        topic_name(
            "topic that receives the dead letters; to name one requires the right to publish there",
            unset="the topic's name and `.dlq`",
        ),
    ] = None
    ttl_seconds: Annotated[
        float,
        seconds(
            0,
            MAX_TTL_SECONDS,
            "time after its publish when a message without a `TTL` of its own [expires](#expiry)",
            zero="unlimited",
        ),
    ] = 0.0
    expired: Annotated[str, choice((DROP, DEAD_LETTER), "what happens to an [expired](#expiry) message")] = DROP
    retry_delays: Annotated[
        tuple[float, ...],
        delays(
            "delay of a message after its first return, its second, and so on, as in `1,5,30`; "
            "the last one applies to all further returns"
        ),
    ] = ()
    retry_min_seconds: Annotated[
        float,
        seconds(0, MAX_RETRY_SECONDS, "instead of a list: delay after the first return", zero="at once"),
    ] = 0.0
    retry_max_seconds: Annotated[float, seconds(0, MAX_RETRY_SECONDS, "maximum delay")] = 3600.0
    retry_factor: Annotated[float, number(1, MAX_FACTOR, "factor by which each further delay is longer")] = 2.0
    retry_jitter: Annotated[
        float, number(0, 1, "maximum part of a delay that is left out at random, to spread the returns")
    ] = 0.0
    ordered: Annotated[
        bool,
        flag("messages of a [key](#ordering-fairness-and-limits-by-key) are delivered one at a time, in order"),
    ] = False
    fair: Annotated[bool, flag("whether keys take turns; with `ordered` or a limit per key they always do")] = False
    max_rate: Annotated[
        float,
        rate(MIN_RATE, MAX_RATE, "maximum messages that a group gets a second"),
    ] = 0.0
    max_concurrency: Annotated[
        int, whole(0, MAX_CONCURRENCY, "maximum leased messages of a group", zero="no limit")
    ] = 0
    key_max_rate: Annotated[
        float,
        rate(MIN_RATE, MAX_RATE, "`max_rate` for each key"),
    ] = 0.0
    key_max_concurrency: Annotated[
        int, whole(0, MAX_CONCURRENCY, "`max_concurrency` for each key", zero="no limit")
    ] = 0
    paused_in_until_ms: Annotated[int, pause("until when the topic is [paused](#pause) for publishers")] = 0
    paused_out_until_ms: Annotated[int, pause("until when the topic is [paused](#pause) for consumers")] = 0
    dedup_window_seconds: Annotated[
        float,
        seconds(
            0,
            MAX_DEDUP_SECONDS,
            "how long a [dedup id](#duplicates) is remembered; with 0, such publishes are rejected",
            zero="no ids are taken",
        ),
    ] = 120.0
    limit_policy: Annotated[
        str | None,
        choice(tuple(LimitPolicy), "what happens when the topic is full", unset="`-topic-limit-policy`"),
    ] = None
    max_messages: Annotated[
        int | None,
        whole(
            0,
            MAX_HELD,
            "maximum messages in the topic, if the broker's limit is not lower",
            zero="as the broker says",
            unset="`-max-topic-messages`",
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        whole(
            0,
            MAX_HELD,
            "maximum bytes of payloads and attributes in the topic, if the broker's limit is not lower",
            zero="as the broker says",
            unset="`-max-topic-bytes`",
        ),
    ] = None
    max_message_bytes: Annotated[
        int | None,
        whole(
            0,
            MAX_HELD,
            "maximum bytes of a message that is published to the topic, if the broker's limit is not lower",
            zero="as the broker says",
            unset="`-max-message-size`",
        ),
    ] = None
    schema: Annotated[
        str | None, json_schema("[JSON Schema](#schemas) of the messages that are published to the topic", unset="none")
    ] = None
    retention: Annotated[str, choice((CONSUMED, FOREVER), "whether settled messages [are kept](#retention)")] = CONSUMED
    retention_seconds: Annotated[
        float | None,
        seconds(0.001, MAX_RETENTION_SECONDS, "how long settled messages are kept", unset="no limit"),
    ] = None
    retention_bytes: Annotated[
        int | None, whole(1, MAX_HELD, "how many bytes of the log are kept", unset="no limit")
    ] = None
    retention_messages: Annotated[
        int | None, whole(1, MAX_HELD, "how many messages of the log are kept", unset="no limit")
    ] = None
    retention_drops_unread: Annotated[
        bool, flag("whether these three limits also apply to messages that are not settled")
    ] = False
    partitions: Annotated[
        int, whole(1, MAX_PARTITIONS, "number of [partitions](#partitions); it can only be increased")
    ] = 1
    spread: Annotated[
        int,
        whole(
            0,
            MAX_PARTS,
            "number of parts over which the topic is [spread](shards.md#spread-topics), each with its own partitions; "
            "set when it is created, later only increased",
            zero="not spread",
        ),
    ] = 0
    spread_before: Annotated[
        tuple[tuple[int, int], ...],
        growths(
            "each value that `spread` had before, and when it was increased, in ms since 1970: "
            "[repeated publishes](shards.md#more-parts) are recognized by it"
        ),
    ] = ()
    session_seconds: Annotated[
        float,
        seconds(
            MIN_SESSION_SECONDS,
            MAX_SESSION_SECONDS,
            "how long a [member](#members) that receives remains in the group without another request",
        ),
    ] = 10.0
    handover_seconds: Annotated[
        float,
        seconds(0, MAX_SESSION_SECONDS, "how long a partition waits for leases of its last [member](#members)"),
    ] = 0.75
    trace: Annotated[bool, flag("whether the broker records [what happens](#traces) to each message")] = False
    trace_seconds: Annotated[float, seconds(1, MAX_TRACE_SECONDS, "how long these records are kept")] = 86_400.0
    auto_create_groups: Annotated[bool, flag("whether a [group](#groups) is created by its first use")] = True
    default_group: Annotated[
        bool, flag("whether the topic has the [group](#groups) `default`; can be `false` only when it is created")
    ] = True
    group_idle_seconds: Annotated[
        float,
        optional_seconds(
            "never",
            MIN_GROUP_IDLE_SECONDS,
            MAX_GROUP_IDLE_SECONDS,
            "after this time without a reader a [group](#groups) other than `default` is deleted",
        ),
    ] = 0.0
    idle_groups: Annotated[
        tuple[tuple[str, float], ...],
        seconds_by_group(1, "`group_idle_seconds` of these [groups](#groups); `GROUP CREATE` with `IDLE` sets it"),
    ] = ()
    ephemeral_groups: Annotated[
        tuple[tuple[str, float], ...],
        seconds_by_group(
            0,
            "[groups](#groups) that end this long after their last consumer; `GROUP CREATE` with `EPHEMERAL` sets it",
        ),
    ] = ()
    paused_groups: Annotated[
        tuple[tuple[str, int], ...], pauses_by_group("until when these [groups](#groups) are [paused](#pause)")
    ] = ()
    owner: Annotated[
        str | None,
        user_name(
            "user whose [quotas](#quotas) the topic counts in: who created it; "
            "to name another requires the role admin on `*`",
            unset="none",
        ),
    ] = None

    def with_changes(self, changes: Mapping[str, object], topic: bytes) -> "TopicSettings":
        """Return the settings of `topic` with other JSON values; None resets a setting to its default.

        Raises InvalidSettingError with the name of the setting and its valid values.
        """
        checked: dict[str, Any] = {name: _checked(name, value) for name, value in changes.items()}
        settings = self._replace(**checked)
        settings._check_together(topic)
        return settings

    def members(self) -> dict[str, object]:
        """Return the JSON values of the settings that are not at their defaults."""
        return {name: value for name, value in self._asdict().items() if value != DEFAULTS[name]}

    def of_group(self, name: bytes, values: Mapping[str, float | None]) -> dict[str, object]:
        """Return the changes that set settings of one group, in which None removes it from the setting."""
        group = name.decode()
        own: dict[str, dict[str, float]] = {setting: dict(getattr(self, setting)) for setting in values}
        for setting, value in values.items():
            own[setting].pop(group, None)
            if value is not None:
                own[setting][group] = value
        return {
            setting: pairs for setting, pairs in own.items() if tuple(sorted(pairs.items())) != getattr(self, setting)
        }

    def dead_letters_of(self, topic: bytes) -> bytes:
        """Return the name of the topic for the dead letters of `topic`; the name may be too long."""
        return (
            append_to(topic, DEAD_LETTER_SUFFIX) if self.dead_letter_topic is None else self.dead_letter_topic.encode()
        )

    def retry_seconds(self, return_count: int, chance: float) -> float:
        """Return the delay of a message after a return.

        Args:
          return_count: the number of its returns, including this one.
          chance: a random number from 0 to 1, for the jitter.
        """
        if self.retry_delays:
            delay = self.retry_delays[min(return_count, len(self.retry_delays)) - 1]
        else:
            exponent = min(return_count - 1, _MAX_EXPONENT)
            delay = min(self.retry_min_seconds * self.retry_factor**exponent, self.retry_max_seconds)
        return delay * (1 - self.retry_jitter * chance)

    @property
    def ttl_ms(self) -> int:
        """The time to live in ms, at least 1; 0: messages do not expire."""
        return max(1, round(self.ttl_seconds * 1000)) if self.ttl_seconds else 0

    @property
    def moves_expired(self) -> bool:
        """Whether expired messages become dead letters."""
        return self.expired == DEAD_LETTER

    @property
    def key_rules(self) -> KeyRules | None:
        """The rules of each key; None if messages are delivered regardless of their keys."""
        if not (self.ordered or self.fair or self.key_max_rate or self.key_max_concurrency):
            return None
        return KeyRules(self.ordered, self.key_max_concurrency or sys.maxsize, self.key_max_rate)

    @property
    def has_retry_delay(self) -> bool:
        """Whether returned messages are delayed."""
        return bool(self.retry_delays or self.retry_min_seconds)

    @property
    def has_retention_limit(self) -> bool:
        """Whether settled messages are kept for a time, or up to a size or a number."""
        return any(
            limit is not None for limit in (self.retention_seconds, self.retention_bytes, self.retention_messages)
        )

    @property
    def by_group_count(self) -> int:
        """Number of values that groups have of their own."""
        return len(self.idle_groups) + len(self.ephemeral_groups) + len(self.paused_groups)

    @property
    def ends_groups(self) -> bool:
        """Whether groups end that no client reads."""
        return bool(self.group_idle_seconds or self.idle_groups or self.ephemeral_groups)

    @property
    def retains(self) -> bool:
        """Whether messages are kept after all groups have settled them."""
        return self.retention != CONSUMED or self.has_retention_limit

    def _check_together(self, topic: bytes) -> None:
        if self.retention != CONSUMED and self.has_retention_limit:
            raise InvalidSettingError("retention", f"{CONSUMED} where {_RETENTION_LIMITS} is set")
        if self.retention_drops_unread and not self.has_retention_limit:
            raise InvalidSettingError("retention_drops_unread", f"false without {_RETENTION_LIMITS}")
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
                allowed = "set: the name of the topic is too long to append .dlq"
                raise InvalidSettingError("dead_letter_topic", allowed) from exc


#: The row of each setting, by name.
FIELDS: Final[Mapping[str, Field]] = MappingProxyType(
    {name: row.__metadata__[0] for name, row in TopicSettings.__annotations__.items()}
)
#: The settings of a topic without any.
DEFAULT_SETTINGS: Final = TopicSettings()
#: The default of each setting, by name.
DEFAULTS: Final[Mapping[str, object]] = MappingProxyType(DEFAULT_SETTINGS._asdict())
_MARKUP: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")  # a link in Markdown
#: Maximum exponent of the retry factor: 100.0**142 is still a finite number.
_MAX_EXPONENT: Final = 1000 // 7


def of_members(members: Mapping[str, object], topic: bytes = b"") -> TopicSettings:
    """Return the settings of a result of `TopicSettings.members`; raises InvalidSettingError."""
    return DEFAULT_SETTINGS.with_changes(members, topic)


def parse_texts(words: list[str]) -> dict[str, object]:
    """Parse words of RESP, names each followed by a value, to JSON values; the last value of a name counts.

    Names can have any case, as all words of RESP that are not data.

    Raises InvalidSettingError for an unknown name or an invalid value.
    """
    if len(words) % 2:
        raise InvalidSettingError(words[-1], "followed by a value")
    names = [lower if (lower := name.lower()) in DEFAULTS else name for name in words[::2]]
    return {name: _parsed(name, text) for name, text in zip(names, words[1::2], strict=True)}


def text_of(value: object) -> str:
    """Return the text of the value of a setting, which `parse_texts` accepts."""
    if value is None:
        return "default"
    if isinstance(value, tuple):
        if value and isinstance(value[0], tuple):  # numbers by group
            return " ".join(f"{name} {text_of(number)}" for name, number in value)
        return ",".join(map(text_of, value)) or "default"
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def help_lines() -> list[str]:
    """Return a line of plain text for each setting: its name, effect, valid values, and default."""
    lines = [
        f"{name}: {field.text}; {field.allowed}; default {field.unset or text_of(DEFAULTS[name])}"
        for name, field in FIELDS.items()
    ]
    return [plain(line) for line in lines]


def plain(text: str) -> str:
    """Return a text of a row, which is Markdown, as plain text."""
    return _MARKUP.sub(r"\1", text).replace("`", "")


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
    except (ValueError, RequestError) as exc:
        raise InvalidSettingError(name, field.allowed) from exc


def _checked(name: str, value: object) -> object:
    field = _field(name)
    if value is None:
        return DEFAULTS[name]
    try:
        return field.check(value)
    except (ValueError, TypeError, RequestError) as exc:
        raise InvalidSettingError(name, field.allowed) from exc
