"""What a publisher can say about a message, on every protocol.

Knows words, texts and figures only. The names are those of HTTP's query, and in capitals those of RESP:

    RESP    DELAY 1.5 AT 1700000000000 PRIORITY high KEY k TTL 60 DEDUP id UNIQUE k HEADER name value …
    HTTP    ?delay=1.5&at=1700000000000&priority=high&key=k&ttl=60&dedup=id&unique=k, headers as headers of the request
    JSON    {"delay":1.5,"at":1700000000000,"priority":"high","key":"k","ttl":60,…,"headers":{"name":"value"}}

Each option may be given once, but for headers. What is unknown is refused: a message that should have been delayed
must not go out at once because of a misspelling.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from miniqueue.core.attributes import Attributes, check_header_name
from miniqueue.core.delay import parse_delay
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.errors import InvalidDelayError

#: Of a key, of an id against duplicates, and of what is unique.
MAX_KEY_BYTES: Final = 1024
MAX_TTL_SECONDS: Final = 10.0**10
MAX_AT_MS: Final = 1 << 62

Header = tuple[bytes, bytes]


class Priority(StrEnum):
    """What goes before what: all that is high before all that is normal, and that before what is low."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class PublishOptions(NamedTuple):
    """How to publish one message; by default like any other.

    Attributes:
      headers: names and values, in their order; a name may be there more than once.
      key: b"" for none.
      ttl_seconds: after how long the message is of no use; None for what the topic says.
      dedup_id: what makes a second publish a duplicate; b"" for none.
      unique_key: of which there is one message in the topic at a time; b"" for none.
      priority: before or behind others.
      delay_seconds: how long the message waits; None for not at all, or until `at_ms`.
      at_ms: when it is due, since 1970; never given with `delay_seconds`.
      reply_to: who waits for a reply; no client says that.
    """

    headers: tuple[Header, ...] = ()
    key: bytes = b""
    ttl_seconds: float | None = None
    dedup_id: bytes = b""
    unique_key: bytes = b""
    priority: Priority = Priority.NORMAL
    delay_seconds: float | None = None
    at_ms: int | None = None
    reply_to: bytes = b""

    def due_at_ms(self, now_ms: int) -> int:
        """Return when a message that is published now can be handed out: now, or later."""
        if self.at_ms is not None:
            return max(now_ms, self.at_ms)
        return now_ms + math.ceil((self.delay_seconds or 0) * 1000)

    def attributes(self, now_ms: int) -> Attributes:
        """Return what of this stays with a message that can be handed out from now on."""
        expires_at_ms = 0 if self.ttl_seconds is None else now_ms + max(1, round(self.ttl_seconds * 1000))
        return Attributes(
            self.headers, self.key, expires_at_ms, self.dedup_id, unique_key=self.unique_key, reply_to=self.reply_to
        )


NO_OPTIONS: Final = PublishOptions()


def parse_words(words: Sequence[bytes]) -> PublishOptions:
    """Return what the words behind a message say; a name, in whatever case, and a value by turns.

    Raises (as those below):
      InvalidOptionError: an option is unknown, stands twice, has no value, or one that it cannot have.
      InvalidDelayError, InvalidAttributesError: the same of a delay, and of the name of a header.
    """
    given: list[tuple[str, bytes]] = []
    headers: list[Header] = []
    left = iter(words)
    for word in left:
        name = word.decode("utf-8", "replace").lower()
        try:
            if name == "header":
                headers.append((next(left), next(left)))
            else:
                given.append((name, next(left)))
        except StopIteration as exc:
            raise InvalidOptionError(f"the option {_shown(name)} needs a value") from exc
    return _options(given, headers, "header")


def parse_texts(given: Iterable[tuple[str, bytes]], headers: Iterable[Header] = ()) -> PublishOptions:
    """Return what names with their values say, and these headers."""
    return _options(given, headers)


def parse_members(members: Mapping[str, object]) -> PublishOptions:
    """Return what members of a JSON object say: strings, numbers, and `headers` as an object or an array of pairs."""
    given = [(name, _text_of(name, value)) for name, value in members.items() if name != "headers"]
    return _options(given, _headers_of(members.get("headers", ())))


def _options(
    given: Iterable[tuple[str, bytes]], headers: Iterable[Header], word_for_headers: str = "headers"
) -> PublishOptions:
    found: dict[str, Any] = {}
    for name, value in given:
        option = _OPTIONS.get(name)
        if option is None:
            known = ", ".join([*_OPTIONS, word_for_headers])
            raise InvalidOptionError(f"there is no option {_shown(name)}; there are {known}")
        if option.field in found:
            raise InvalidOptionError(f"the option {name} is given twice")
        found[option.field] = option.parse(name, value)
    if "at_ms" in found and "delay_seconds" in found:
        raise InvalidOptionError("a message has a delay or the time at which it is due, not both")
    return PublishOptions(tuple((check_header_name(name), value) for name, value in headers), **found)


def check_batch_id(value: bytes) -> bytes:
    """Return the dedup id of a batch, b"" for a batch without one; raises InvalidOptionError."""
    return _key("dedup", value) if value else value


# --- values --------------------------------------------------------------------------------------------------


def _key(name: str, value: bytes) -> bytes:
    if not 0 < len(value) <= MAX_KEY_BYTES:
        raise InvalidOptionError(f"{name} is 1 to {MAX_KEY_BYTES} bytes")
    return value


def _delay_seconds(_: str, value: bytes) -> float:
    seconds = parse_delay(value.decode("utf-8", "replace"))
    if not seconds < MAX_AT_MS / 1000:
        raise InvalidDelayError
    return seconds


def _ttl_seconds(name: str, value: bytes) -> float:
    try:
        seconds = parse_delay(value.decode("utf-8", "replace"))
    except InvalidDelayError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TTL_SECONDS:
        raise InvalidOptionError(f"{name} is a number of seconds, more than 0 and at most {MAX_TTL_SECONDS:.0f}")
    return seconds


def _at_ms(name: str, value: bytes) -> int:
    if _WHOLE.fullmatch(value) is None or int(value) > MAX_AT_MS:
        raise InvalidOptionError(f"{name} is a time in ms since 1970, a whole number")
    return int(value)


def _priority(name: str, value: bytes) -> Priority:
    try:
        return Priority(value.decode("utf-8", "replace").lower())
    except ValueError as exc:
        raise InvalidOptionError(f"{name} is {', '.join(Priority)}") from exc


class _Option(NamedTuple):
    """Where an option's value goes, and what makes it of its name and bytes."""

    field: str
    parse: Callable[[str, bytes], object]


_OPTIONS: Final[Mapping[str, _Option]] = MappingProxyType(
    {
        "delay": _Option("delay_seconds", _delay_seconds),
        "at": _Option("at_ms", _at_ms),
        "priority": _Option("priority", _priority),
        "key": _Option("key", _key),
        "ttl": _Option("ttl_seconds", _ttl_seconds),
        "dedup": _Option("dedup_id", _key),
        "unique": _Option("unique_key", _key),
    }
)
_NUMBERS: Final = frozenset({"delay", "at", "ttl"})
_WHOLE: Final = re.compile(rb"[0-9]{1,19}")


# --- JSON ----------------------------------------------------------------------------------------------------


def _text_of(name: str, value: object) -> bytes:
    """Return the value of a member as it is written elsewhere; numbers may also be strings."""
    match value:
        case str():
            return value.encode()
        case bool():
            pass
        case int() if name in _NUMBERS:
            return b"%d" % value
        case float() if name in _NUMBERS:
            return f"{value:.6f}".encode()
    raise InvalidOptionError(f"{_shown(name)} has a value of a type that it cannot have")


def _headers_of(value: object) -> Iterable[Header]:
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list | tuple) or not all(map(_is_header, pairs)):
        raise InvalidOptionError('headers are {"name": "value"} or [["name", "value"]]')
    return [(name.encode(), text.encode()) for name, text in pairs]


def _is_header(pair: object) -> bool:
    return isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(text, str) for text in pair)


def _shown(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name[:100])
