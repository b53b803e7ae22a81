"""Options of reads and writes: one table, which docs/spark.md repeats, and how their values are parsed and checked.

Names are compared without case, as in Spark. An unknown name is an error that suggests the nearest name: a misspelled
option must not be ignored. The start and the end of a read are offsets or times; options that give both, or an end
before a start, are errors. Whether the offsets exist, only the broker knows; see `offsets.check_offsets`.
"""

import ssl
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from enum import Flag, auto
from socket import gethostname
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import uuid4

from miniqueue.errors import ConfigError
from miniqueue.spark.offsets import Offsets, parse_offsets, parse_time
from miniqueue.spark.zones import in_zone
from miniqueue_client import Client
from miniqueue_client.calls.messages import MAX_AT_ONCE

#: `path`, the argument of Spark's `load` and `save`, is another name for `topic`.
_NAMES_OF_TOPIC: Final = ("topic", "path")
_PAIRS: Final = (("startingOffsets", "startingTime"), ("endingOffsets", "endingTime"))


def parse_start(text: str) -> str | Offsets:
    """Return `earliest`, `latest` or "" unchanged, or offsets; raises ConfigError."""
    return text if text in ("", "earliest", "latest") else parse_offsets(text)


def parse_end(text: str) -> str | Offsets:
    """Return `latest` or "" unchanged, or offsets; raises ConfigError, and ValueError for `earliest`."""
    if text == "earliest":
        raise ValueError("there is nothing before the earliest message")
    return parse_start(text)


def parse_moment(text: str) -> datetime | None:
    """Return the time, or None for ""; raises ConfigError."""
    return parse_time(text) if text else None


def instead_of(name: str) -> str | None:
    """Return the option that replaces `name`, as a time replaces offsets; both in lower case."""
    pairs = {first.lower(): second.lower() for first, second in (*_PAIRS, _NAMES_OF_TOPIC)}
    return pairs.get(name) or {second: first for first, second in pairs.items()}.get(name)


def named_twice(texts: Mapping[str, str]) -> list[str]:
    """Return an error for each pair of options of which only one may be set; an empty text counts as not set."""
    twice = [pair for pair in _PAIRS if all(texts.get(name) for name in pair)]
    return [f"{first} and {second} are both set; set only one of them" for first, second in twice]


def ends_before_starts(values: Mapping[str, Any]) -> list[str]:
    """Return an error for each end that is before its start, by the values of the options.

    Compares offsets with offsets and times with times: a read from an offset to a time may simply be empty.
    """
    since, until = values.get("startingTime"), values.get("endingTime")
    if since is not None and until is not None and until < since:
        return [f"endingTime, {until}, is before startingTime, {since}"]
    start, end = values.get("startingOffsets"), values.get("endingOffsets")
    if not isinstance(start, dict) or not isinstance(end, dict):
        return []
    return [
        f"{topic}, partition {word}: endingOffsets, {last}, is before startingOffsets, {start[topic][word]}"
        for topic, of in end.items()
        for word, last in of.items()
        if last < start.get(topic, {}).get(word, 0)
    ]


#: Options that Spark itself adds to those of a source or a sink.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})


class Use(Flag):
    """The reads and writes that an option applies to."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE
    ALL = READ | WRITE


class Option(NamedTuple):
    """One option.

    Attributes:
      default: the default value as text; "": none.
      meaning: one line for the documentation.
      use: the reads and writes that the option applies to.
      parse: converts a text to the value; raises ValueError.
    """

    default: str
    meaning: str
    use: Use
    parse: Callable[[str], Any] = str


def _count(text: str) -> int:
    if (number := int(text)) < 0:
        raise ValueError("must be 0 or more")
    return number


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError("must be 1 or more")
    return number


def _batch_size(text: str) -> int:
    if (size := _positive(text)) > MAX_AT_ONCE:
        raise ValueError(f"must be at most {MAX_AT_ONCE}")
    return size


def _seconds(text: str) -> float:
    if not (seconds := float(text)) >= 0:
        raise ValueError("must be 0 or more seconds")
    return seconds


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


#: All options, by name.
OPTIONS: Final[Mapping[str, Option]] = MappingProxyType(
    {
        "url": Option("redis://localhost:6379", "the broker; `rediss://` for TLS", Use.ALL),
        "user": Option("", "who Spark is, where the broker has users", Use.ALL),
        "secret": Option("", "the user's secret; better given as `spark.miniqueue.secret`", Use.ALL),
        "caFile": Option("", "whom to trust with TLS, PEM, on every machine; else the system's authorities", Use.ALL),
        "timeoutSeconds": Option("10", "how long a connection and a reply may take", Use.ALL, _seconds),
        "retries": Option("20", "how often what does no harm is tried again, in some 30 s", Use.ALL, _count),
        "topic": Option("", "the topic; to read, several with commas between them", Use.ALL),
        "startingOffsets": Option(
            "", '`earliest`, `latest`, or offsets as JSON: `{"orders":{"0":17}}`, see above', Use.READ, parse_start
        ),
        "endingOffsets": Option(
            "latest", "where a batch ends, which is in front of these; `latest`, or offsets", Use.BATCH_READ, parse_end
        ),
        "startingTime": Option(
            "",
            "a time instead: ISO 8601, without a zone in that of the session, or ms since 1970",
            Use.READ,
            parse_moment,
        ),
        "endingTime": Option("", "the same of the end of a batch", Use.BATCH_READ, parse_moment),
        "maxMessagesPerTrigger": Option(
            "0", "messages of a micro-batch at most; 0 for all there are", Use.STREAM_READ, _count
        ),
        "group": Option("", "a group that goes along with the stream, see above", Use.STREAM_READ),
        "minPartitions": Option("1", "into how many tasks to divide a read at least", Use.READ, _positive),
        "failOnDataLoss": Option(
            "true", "whether messages that are gone before they were read are an error", Use.READ, _switch
        ),
        "withOrigin": Option(
            "false", "whether there is a column `origin`, which says of dead letters what they were", Use.READ, _switch
        ),
        "batchMessages": Option("5000", "rows of one request at most, up to 9,999", Use.WRITE, _batch_size),
        "deduplicate": Option(
            "true", "whether rows have ids, so that a task that runs again adds nothing", Use.WRITE, _switch
        ),
        "runId": Option(
            "", "the prefix of ids: the same for a job that is run again; by default a new one", Use.BATCH_WRITE
        ),
        "blockSeconds": Option(
            "300", "how long to wait for a broker that is full, paused or restarting", Use.WRITE, _seconds
        ),
    }
)
_KNOWN: Final[Mapping[str, str]] = MappingProxyType({name.lower(): name for name in OPTIONS} | {"path": "topic"})


class Options:
    """The options of one read or write: their values or their defaults.

    Args:
      texts: the values as texts, by name in any case.
      use: the kind of read or write.
      time_zone: the time zone of times without one, see `in_zone`.

    Raises ConfigError with every mistake.
    """

    def __init__(self, texts: Mapping[str, str], use: Use, time_zone: str = "") -> None:
        named = {_KNOWN.get(name.lower(), name): text for name, text in texts.items() if name.lower() not in _OF_SPARK}
        problems = unknown_among(named)
        if {"topic", "path"} <= {name.lower() for name in texts}:
            problems.append("the topic is set twice, as the option topic and as the path; set one of them")
        problems += [_unfit(name, use) for name in named if name in OPTIONS and not OPTIONS[name].use & use]
        self._values = {name: option.parse(option.default) for name, option in OPTIONS.items() if option.use & use}
        for name in [name for name in self._values if name in named]:
            try:
                self._values[name] = _value(name, named[name], time_zone)
            except (ValueError, ConfigError) as exc:
                problems.append(f"{name}={named[name]!r}: {exc}")
        if not self.topics:
            problems.append("the option topic is missing")
        elif use in Use.WRITE and "," in self["topic"]:  # a read would take it for several topics
            problems.append(f"invalid topic: {self['topic']!r}; a write goes to exactly one topic")
        problems += named_twice(named) + ends_before_starts(self._values)
        if problems:
            raise ConfigError(problems)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - of whatever type the option is
        return self._values[name]

    @property
    def topics(self) -> list[str]:
        """The topics to read, or the topic to write to."""
        return topics_in(self._values["topic"])

    @property
    def run_id(self) -> str:
        """The prefix of the ids of a batch's rows."""
        return self._values["runId"] or uuid4().hex

    def client(self) -> Client:
        """Return a client of the broker; raises ConfigError if the caFile is missing or invalid on this machine."""
        if self["caFile"]:
            _check_authorities(self["caFile"])
            if not self["url"].startswith("rediss:"):
                raise ConfigError(["caFile requires TLS; set url to rediss://host:port"])
        options = {"username": self["user"], "password": self["secret"], "ssl_ca_certs": self["caFile"]}
        kept = {name: value for name, value in options.items() if value}
        return Client(
            self["url"],
            timeout_seconds=self["timeoutSeconds"],
            retries=self["retries"],
            deduplicates=self._values.get("deduplicate", True),
            **kept,
        )


def topics_in(text: str) -> list[str]:
    """Return the topics of a comma-separated list."""
    return [topic for word in text.split(",") if (topic := word.strip())]


def _check_authorities(file: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except FileNotFoundError as exc:
        raise ConfigError([f"caFile={file!r}: there is no such file on {gethostname()}"]) from exc
    except OSError as exc:  # ssl.SSLError is one
        raise ConfigError([f"caFile={file!r}: no certificates can be read from it on {gethostname()}: {exc}"]) from exc


def _value(name: str, text: str, time_zone: str) -> Any:  # noqa: ANN401 - of whatever type the option is
    value = OPTIONS[name].parse(text)
    return in_zone(value, time_zone) if isinstance(value, datetime) else value


def unknown_among(names: Iterable[str], prefix: str = "") -> list[str]:
    """Return an error for each name that no option has, with the nearest name; `prefix` precedes every name."""
    return [_unknown(name, prefix) for name in names if name.lower() not in _KNOWN]


def _unknown(name: str, prefix: str) -> str:
    close = get_close_matches(name.lower(), _KNOWN, n=1)
    hint = f"; did you mean {prefix}{_KNOWN[close[0]]}?" if close else f"; there are {', '.join(OPTIONS)}"
    return f"there is no option {prefix}{name}{hint}"


def _unfit(name: str, use: Use) -> str:
    return f"the option {name} is not for a {(use.name or '').lower().replace('_', ' ')}"
