"""The file of `miniqueue apply`: TOML, read as a whole, with every problem reported at once.

    [topics.orders]                                a topic and its settings; a setting that is not named is left alone
    partitions = 4
    retry_delays = ["1s", "10s", "1m"]
    ttl_seconds = "default"                        restores a default

    [topics.orders.groups.audit]                   or only their names: groups = ["audit", "billing"]
    start = "latest"                               where it starts when it is created
    idle_seconds = "14d"

    [schedules.report]                             what is not named has its default
    topic = "reports"
    cron = "0 9 * * MON-FRI"
    zone = "Europe/Berlin"
    payload = "daily"

    [users.ada]                                    has exactly these roles and quotas
    publisher = ["orders", "orders.*"]
    max_topics = 10

Bytes that are not UTF-8 are tables, `payload = {base64 = "…"}`, as in the lines of `miniqueue export`. Does no I/O.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from miniqueue.access.rights import ROLES
from miniqueue.access.users_text import check_name, check_pattern
from miniqueue.commands.applying.resources import (
    IDLE,
    SCHEDULE_DEFAULTS,
    START,
    USER_DEFAULTS,
    Described,
    Kind,
    Resource,
    Values,
)
from miniqueue.core.message.names import check_new_group, check_new_topic
from miniqueue.core.options.durations import parse_seconds, parse_time_ms
from miniqueue.core.settings import settings as topic_settings
from miniqueue.core.settings.fields import MAX_GROUP_IDLE_SECONDS
from miniqueue.core.settings.group_options import MIN_IDLE_SECONDS
from miniqueue.core.settings.quotas import FIELDS as QUOTA_FIELDS
from miniqueue.core.settings.schedule import check_new_schedule_name
from miniqueue.errors import ConfigError, RequestError
from miniqueue.wire.json_bytes import parse_bytes

_TABLES: Final = ("topics", "schedules", "users")
_GROUPS: Final = "groups"
_DEFAULT: Final = "default"
#: A key that TOML allows without quotes.
BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_POSITION: Final = re.compile(r"\(at .*\)")
#: Raised by the checks of values.
_WRONG: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RequestError, ConfigError)

_Check = Callable[[Any], object]


def parse(text: str) -> Described:
    """Parse the text of a file; raises ConfigError with all its problems."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        position = _POSITION.search(str(exc))
        raise ConfigError([f"no TOML {position.group()}" if position else "no TOML"]) from exc
    reader = _Reader()
    reader.read(tables)
    if reader.problems:
        raise ConfigError(reader.problems)
    return Described(
        reader.resources,
        has_topics="topics" in tables,
        has_schedules="schedules" in tables,
        has_users="users" in tables,
        topics_with_groups=frozenset(reader.topics_with_groups),
    )


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the end of an error text that names the known word most like `word`; "" if there is none."""
    close = difflib.get_close_matches(word, [*known], n=1)
    return f"; did you mean {close[0]}?" if close else ""


class _Reader:
    """One reading of a file: collects resources and problems."""

    def __init__(self) -> None:
        self.resources: dict[Resource, Values] = {}
        self.topics_with_groups: list[str] = []
        self.problems: list[str] = []

    def read(self, tables: Mapping[str, Any]) -> None:
        """Read all tables."""
        self._refuse_unknown("", tables, _TABLES)
        for name, table in self._tables("topics", tables.get("topics", {})):
            self._read_topic(name, table)
        for name, table in self._tables("schedules", tables.get("schedules", {})):
            self._read_schedule(name, table)
        for name, table in self._tables("users", tables.get("users", {})):
            self._read_user(name, table)

    def _tables(self, name: str, table: Any) -> Iterable[tuple[str, dict[str, Any]]]:  # noqa: ANN401 - any type of TOML
        if not isinstance(table, dict):
            self.problems.append(f"{name}: must be tables [{name}.name]")
            return
        for key, value in table.items():
            if isinstance(value, dict):
                yield key, value
            else:
                self.problems.append(f"{name}.{_shown(key)}: must be a table")

    def _read_topic(self, name: str, table: dict[str, Any]) -> None:
        where = f"topics.{_shown(name)}"
        self._check(where, name, lambda name: check_new_topic(name.encode()))
        named = {key: value for key, value in table.items() if key != _GROUPS}
        self._refuse_unknown(where, named, (*SETTINGS, _GROUPS), _ELSEWHERE)
        values = self._values(where, named, SETTINGS, lambda name: topic_settings.FIELDS[name].allowed)
        self.resources[Resource(Kind.TOPIC, name)] = values
        if _GROUPS in table:
            self.topics_with_groups.append(name)
            self._read_groups(name, f"{where}.{_GROUPS}", table[_GROUPS])

    def _read_groups(self, topic: str, where: str, groups: Any) -> None:  # noqa: ANN401 - any type of TOML
        if isinstance(groups, list) and all(isinstance(name, str) for name in groups):
            groups = {name: {} for name in groups}
        for name, table in self._tables(where, groups):
            inside = f"{where}.{_shown(name)}"
            self._check(inside, name, lambda name: check_new_group(name.encode()))
            self._refuse_unknown(inside, table, _GROUP)
            self.resources[Resource(Kind.GROUP, name, topic)] = self._values(inside, table, _GROUP, _GROUP_RULES.get)

    def _read_schedule(self, name: str, table: dict[str, Any]) -> None:
        where = f"schedules.{_shown(name)}"
        self._check(where, name, lambda name: check_new_schedule_name(name.encode()))
        self._refuse_unknown(where, table, _SCHEDULE)
        values = self._values(where, table, _SCHEDULE, _SCHEDULE_RULES.get)
        if "topic" not in table:
            self.problems.append(f"{where}: topic is missing")
        if ("cron" in table) is ("every_seconds" in table):
            self.problems.append(f"{where}: requires cron or every_seconds, not both")
        if "zone" in table and "cron" not in table:
            self.problems.append(f"{where}: zone requires cron")
        self.resources[Resource(Kind.SCHEDULE, name)] = {**SCHEDULE_DEFAULTS, **values}

    def _read_user(self, name: str, table: dict[str, Any]) -> None:
        where = f"users.{_shown(name)}"
        self._check(where, name, check_name)
        if "secret" in table:
            self.problems.append(f"{where}: secret does not belong here; `miniqueue user passwd` sets it")
        named = {key: value for key, value in table.items() if key != "secret"}
        self._refuse_unknown(where, named, _USER)
        values = self._values(where, named, _USER, _user_rule)
        self.resources[Resource(Kind.USER, name)] = {**USER_DEFAULTS, **dict.fromkeys(ROLES, ()), **values}

    def _values(
        self, where: str, table: Mapping[str, Any], checks: Mapping[str, _Check], rule: Callable[[str], str | None]
    ) -> dict[str, object]:
        """Return the checked values of the known keys of a table; add a problem for each that is invalid."""
        values = {}
        for key in filter(checks.__contains__, table):
            try:
                values[key] = checks[key](table[key])
            except _WRONG:
                self.problems.append(f"{where}: invalid {key}; must be {rule(key)}")
        return values

    def _check(self, where: str, name: str, check: Callable[[str], object]) -> None:
        try:
            check(name)
        except ConfigError as exc:
            self.problems += [f"{where}: {problem}" for problem in exc.problems]
        except _WRONG as exc:
            self.problems.append(f"{where}: {exc}")

    def _refuse_unknown(
        self,
        where: str,
        table: Mapping[str, object],
        known: Iterable[str],
        elsewhere: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        for key in table:
            if key in elsewhere:
                self.problems.append(f"{where}: {key} does not belong here; {elsewhere[key]}")
            elif key not in known:
                prefix = f"{where}: " if where else ""
                self.problems.append(f"{prefix}unknown key {_shown(key)}{suggestion(key, known)}")


def _shown(key: str) -> str:
    """Return a key as TOML has it in the names of tables."""
    return key if BARE_KEY.fullmatch(key) else f'"{key[:64].encode("unicode_escape").decode()}"'


def _setting(name: str) -> _Check:
    field, default = topic_settings.FIELDS[name], topic_settings.DEFAULTS[name]
    return lambda value: default if value == _DEFAULT else field.check(_plain(value))


def _plain(value: Any) -> Any:  # noqa: ANN401 - any type of TOML
    """Return a value of TOML as JSON has it: a time as its text."""
    return _moment(value).isoformat() if isinstance(value, datetime) else value


def _moment(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time without an offset")
    return value


def _start(value: Any) -> object:  # noqa: ANN401 - any type of TOML
    if isinstance(value, datetime):
        return _moment(value)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError
    return value


def _seconds(minimum: float, maximum: float) -> Callable[[Any], float]:
    def check(value: Any) -> float:  # noqa: ANN401 - any type of TOML
        seconds = parse_seconds(value) if isinstance(value, str) else value
        if isinstance(seconds, bool) or not minimum <= seconds <= maximum or not math.isfinite(seconds):
            raise ValueError
        return float(seconds)

    return check


def _idle_seconds(value: Any) -> float:  # noqa: ANN401 - any type of TOML
    seconds = _seconds(0, MAX_GROUP_IDLE_SECONDS)(value)
    if 0 < seconds < MIN_IDLE_SECONDS:
        raise ValueError
    return seconds


def _until(value: Any) -> int:  # noqa: ANN401 - any type of TOML
    text = _plain(value)
    if isinstance(text, bool):
        raise TypeError
    return parse_time_ms(str(text))


def _text(value: Any) -> str:  # noqa: ANN401 - any type of TOML
    if not isinstance(value, str):
        raise TypeError
    return value


def _filled(value: Any) -> str:  # noqa: ANN401 - any type of TOML
    if not _text(value):
        raise ValueError
    return _text(value)


def _choice(*words: str) -> _Check:
    def check(value: object) -> object:
        if value not in words:
            raise ValueError
        return value

    return check


def _headers(value: Any) -> tuple[tuple[str, bytes], ...]:  # noqa: ANN401 - any type of TOML
    pairs = value.items() if isinstance(value, dict) else value
    return tuple((_filled(name), parse_bytes(content)) for name, content in pairs)


def _topic_name(value: Any) -> str:  # noqa: ANN401 - any type of TOML
    return check_new_topic(value.encode()).decode()


def _patterns(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - any type of TOML
    if not isinstance(value, list):
        raise TypeError
    return tuple(check_pattern(_text(pattern)) for pattern in value)


#: Settings that belong to the table of a group, or to no file; with what to do instead.
_ELSEWHERE: Final = MappingProxyType(
    {
        "idle_groups": "set idle_seconds of a group in the table [topics.name.groups.name]",
        "ephemeral_groups": "groups that end with their last consumer are made by those who need them",
        "spread_before": "the broker sets it when spread grows",
        "paused_groups": "a pause is no part of a file; pause and resume groups by command",
    }
)
#: The settings that a file can have, with their checks.
SETTINGS: Final[Mapping[str, _Check]] = MappingProxyType(
    {name: _setting(name) for name in topic_settings.FIELDS if name not in _ELSEWHERE}
)
_GROUP: Final[Mapping[str, _Check]] = MappingProxyType({START: _start, IDLE: _idle_seconds})
_GROUP_RULES: Final = MappingProxyType(
    {
        START: "earliest, latest, the id of a message, or a time with an offset",
        IDLE: "0, never, or a duration such as 1h30m from 1 s",
    }
)
_SCHEDULE: Final[Mapping[str, _Check]] = MappingProxyType(
    {
        "topic": _topic_name,
        "cron": _filled,
        "zone": _filled,
        "every_seconds": _seconds(1, 1e10),
        "missed": _choice("all", "one", "none"),
        "until": _until,
        "priority": _choice("high", "normal", "low"),
        "key": parse_bytes,
        "ttl_seconds": _seconds(0.001, 1e10),
        "headers": _headers,
        "payload": parse_bytes,
    }
)
_BYTES_RULE: Final = 'a text, or bytes as {base64 = "…"}'
_SCHEDULE_RULES: Final = MappingProxyType(
    {
        "topic": "the name of a topic",
        "cron": "an expression such as 0 9 * * MON-FRI",
        "zone": "a time zone such as Europe/Berlin",
        "every_seconds": "a number of seconds, or a duration such as 1h30m, from 1",
        "missed": "all, one, or none",
        "until": "a time with an offset, or ms since 1970",
        "priority": "high, normal, or low",
        "key": _BYTES_RULE,
        "ttl_seconds": "a number of seconds, or a duration such as 1h30m, more than 0",
        "headers": f"a table of names and values, or pairs; a value is {_BYTES_RULE}",
        "payload": _BYTES_RULE,
    }
)
_USER: Final[Mapping[str, _Check]] = MappingProxyType(
    {
        **dict.fromkeys(ROLES, _patterns),
        "certificate": _text,
        **{name: row.check for name, row in QUOTA_FIELDS.items()},
    }
)


def _user_rule(key: str) -> str:
    if key in QUOTA_FIELDS:
        return QUOTA_FIELDS[key].allowed
    return "the subject of a certificate, such as CN=ada" if key == "certificate" else "a list of patterns of topics"
