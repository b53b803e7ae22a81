"""What a user may say to Spark about a topic: one table of options, of which the documentation has the same.

Names are compared without case, as Spark does. What is unknown is refused, with the name that was probably meant: an
option that is misspelled must not be one that is left out.
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

from miniqueue.client import Client
from miniqueue.client.message_calls import MAX_AT_ONCE
from miniqueue.errors import ConfigError
from miniqueue.spark.places import ends_before_starts, named_twice, parse_end, parse_moment, parse_start
from miniqueue.spark.zones import in_zone

#: What Spark itself adds to the options of a source or a sink.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})


class Use(Flag):
    """What an option is for."""

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
      default: as a user would write it; "" for none.
      meaning: one line for the documentation.
      use: what it is for.
      parse: makes its value of a text; raises ValueError.
    """

    default: str
    meaning: str
    use: Use
    parse: Callable[[str], Any] = str


def _count(text: str) -> int:
    if (number := int(text)) < 0:
        raise ValueError("a number is 0 or more")
    return number


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError("it is 1 or more")
    return number


def _batch_size(text: str) -> int:
    if (size := _positive(text)) > MAX_AT_ONCE:
        raise ValueError(f"it is {MAX_AT_ONCE} at most")
    return size


def _seconds(text: str) -> float:
    if not (seconds := float(text)) >= 0:
        raise ValueError("seconds are 0 or more")
    return seconds


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it is true or false")
    return text.lower() == "true"


#: By name. `path`, which is what `load` and `save` are given, is another name for `topic`.
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
            "", "what ids begin with: the same for a job that is run again; else made anew", Use.BATCH_WRITE
        ),
        "blockSeconds": Option(
            "300", "how long to wait for a broker that is full, paused or restarting", Use.WRITE, _seconds
        ),
    }
)
_KNOWN: Final[Mapping[str, str]] = MappingProxyType({name.lower(): name for name in OPTIONS} | {"path": "topic"})


class Options:
    """The options of one read or write: as given, or their defaults.

    Args:
      given: by name, in whatever case.
      use: what they are for.
      time_zone: of times without one, as `in_zone` takes it.

    Raises ConfigError with every mistake.
    """

    def __init__(self, given: Mapping[str, str], use: Use, time_zone: str = "") -> None:
        named = {_KNOWN.get(name.lower(), name): text for name, text in given.items() if name.lower() not in _OF_SPARK}
        problems = unknown_among(named)
        if {"topic", "path"} <= {name.lower() for name in given}:
            problems.append("the topic is given twice, as the option topic and as the path; give one of them")
        problems += [_unfit(name, use) for name in named if name in OPTIONS and not OPTIONS[name].use & use]
        self._values = {name: option.parse(option.default) for name, option in OPTIONS.items() if option.use & use}
        for name in [name for name in self._values if name in named]:
            try:
                self._values[name] = _value(name, named[name], time_zone)
            except (ValueError, ConfigError) as exc:
                problems.append(f"{name}={named[name]!r}: {exc}")
        if not self.topics:
            problems.append("the option topic is missing")
        elif use in Use.WRITE and "," in self["topic"]:  # which a read would take for several
            problems.append(f"a write goes to one topic, not to {self['topic']!r}")
        problems += named_twice(named) + ends_before_starts(self._values)
        if problems:
            raise ConfigError(problems)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - of whatever type the option is
        return self._values[name]

    @property
    def topics(self) -> list[str]:
        """The topics that are named."""
        return topics_in(self._values["topic"])

    @property
    def run_id(self) -> str:
        """What the ids of the rows of a batch begin with."""
        return self._values["runId"] or uuid4().hex

    def client(self) -> Client:
        """Return a client of the broker; raises ConfigError where this machine has no such caFile, or cannot use it."""
        if self["caFile"]:
            _check_authorities(self["caFile"])
            if not self["url"].startswith("rediss:"):
                raise ConfigError(["caFile is for a broker with TLS, whose url is rediss://host:port"])
        given = {"username": self["user"], "password": self["secret"], "ssl_ca_certs": self["caFile"]}
        kept = {name: value for name, value in given.items() if value}
        return Client(
            self["url"],
            timeout_seconds=self["timeoutSeconds"],
            retries=self["retries"],
            deduplicates=self._values.get("deduplicate", True),
            **kept,
        )


def topics_in(text: str) -> list[str]:
    """Return the topics that are named, with commas between them."""
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
    """Return what is wrong with names that no option has, each with the nearest name; `prefix` precedes them all."""
    return [_unknown(name, prefix) for name in names if name.lower() not in _KNOWN]


def _unknown(name: str, prefix: str) -> str:
    close = get_close_matches(name.lower(), _KNOWN, n=1)
    hint = f"; did you mean {prefix}{_KNOWN[close[0]]}?" if close else f"; there are {', '.join(OPTIONS)}"
    return f"there is no option {prefix}{name}{hint}"


def _unfit(name: str, use: Use) -> str:
    return f"the option {name} is not for a {(use.name or '').lower().replace('_', ' ')}"
