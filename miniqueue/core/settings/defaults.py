"""The settings of new topics, by patterns of their names.

    *         max_deliveries 5, retention_seconds 86400
    jobs.*    max_deliveries 10, retention_bytes 1000000
                  └─▶ new topic jobs.mail: max_deliveries 10, retention_bytes 1000000

A `*` in a pattern stands for any characters, also none. If several patterns match, each setting is that of the most
specific one: a pattern without `*`, or else the one with the most other characters; of two with as many, the later one.
Settings of a family, whose names begin with `retention` or `retry`, depend on each other: they are taken together from
the most specific pattern that sets one of them. So defaults that are valid by themselves are valid together, and
creating a topic never fails because of them. What the creator of a topic sets wins in the same way.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from miniqueue.core.message.names import check_new_topic, check_topic
from miniqueue.core.message.parts import whole_of
from miniqueue.core.settings.schema import check_schema
from miniqueue.core.settings.settings import BY_GROUP, DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors.requests import InvalidSettingError

#: The pattern of all topics.
ALL: Final = "*"
#: Settings that belong to one topic, to its groups, or to a moment.
_WITHOUT: Final = frozenset(
    {"owner", "spread", "spread_before", "paused_in_until_ms", "paused_out_until_ms", *BY_GROUP}
)
_FAMILIES: Final = ("retention", "retry")
#: Maximum number of combinations of patterns whose settings are kept, to be shared by the topics that match them.
_MAX_KEPT: Final = 1000

#: Settings by name, as in JSON; None means the built-in default.
Members = Mapping[str, object]


class _Table(NamedTuple):
    """A pattern as a regular expression, and the settings of topics that match it."""

    pattern: re.Pattern[str]
    members: Members


class TopicDefaults:
    """Settings of new topics by patterns of their names.

    Args:
      tables: settings by pattern; `check_defaults` accepts each of them.
    """

    def __init__(self, tables: Mapping[str, Members]) -> None:
        ordered = sorted(tables, key=lambda pattern: ("*" not in pattern, len(pattern.replace("*", ""))))
        self._tables = [_Table(_compiled(pattern), tables[pattern]) for pattern in ordered]
        self._kept: dict[tuple[int, ...], TopicSettings] = {}

    def __bool__(self) -> bool:
        return bool(self._tables)

    def settings(self, name: bytes) -> TopicSettings:
        """Return the settings of a new topic; never raises, and a dead-letter topic is not its own."""
        if not self._tables:
            return DEFAULT_SETTINGS
        matching = self._matching(name)
        settings = self._kept.get(matching)
        if settings is None:
            settings = DEFAULT_SETTINGS.with_changes(self._merged(matching), b"")
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[matching] = settings
        return settings._replace(dead_letter_topic=None) if settings.dead_letter_topic == name.decode() else settings

    @property
    def most_partitions(self) -> int:
        """The number of partitions of the new topics that have the most."""
        settings = (DEFAULT_SETTINGS.with_changes(table.members, b"") for table in self._tables)
        return max((each.partitions for each in settings), default=1)

    def schemas(self) -> list[str]:
        """Return the JSON Schemas of all patterns."""
        members = [table.members.get("schema") for table in self._tables]
        return [check_schema(schema) for schema in members if schema is not None]

    def settings_with(self, name: bytes, changes: Members) -> TopicSettings:
        """Return the settings of a new topic whose creator sets some of them; raises InvalidSettingError."""
        merged = self._merged(self._matching(name))
        if merged.get("dead_letter_topic") == name.decode():
            del merged["dead_letter_topic"]
        return DEFAULT_SETTINGS.with_changes(_over(merged, changes), name)

    def _matching(self, name: bytes) -> tuple[int, ...]:
        text = whole_of(name).decode()
        return tuple(index for index, table in enumerate(self._tables) if table.pattern.fullmatch(text))

    def _merged(self, matching: Iterable[int]) -> dict[str, object]:
        merged: dict[str, object] = {}
        for index in matching:
            merged = _over(merged, self._tables[index].members)
        return merged


#: Every setting of a new topic is the built-in default.
NO_DEFAULTS: Final = TopicDefaults({})


def check_defaults(pattern: str, members: Members) -> None:
    """Raise InvalidTopicError for a pattern, or InvalidSettingError for settings, that cannot be defaults."""
    check_topic(pattern.encode())
    for name in sorted(_WITHOUT & members.keys()):
        raise InvalidSettingError(name, "no default of new topics; set it for a topic")
    settings = DEFAULT_SETTINGS.with_changes(members, b"")
    if settings.dead_letter_topic is not None:
        check_new_topic(settings.dead_letter_topic.encode())


def _over(lower: Members, upper: Members) -> dict[str, object]:
    """Return the settings of both; those in `upper` replace the same ones, and those of their families, in `lower`."""
    replaced = set(map(_family, upper))
    return {name: value for name, value in lower.items() if _family(name) not in replaced} | dict(upper)


def _family(name: str) -> str:
    return next((family for family in _FAMILIES if name.startswith(family)), name)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, re.sub(r"\*+", "*", pattern).split("*"))), re.DOTALL)
