"""The options of a publish, and of a request that waits for a reply.

The names are those of HTTP queries; RESP has them in capitals:

    RESP    DELAY 1.5 AT 1700000000000 PRIORITY high KEY k TTL 60 DEDUP id UNIQUE k REPLACE HEADER name value …
    HTTP    ?delay=1.5&at=1700000000000&priority=high&key=k&ttl=60&dedup=id&unique=k&replace=true, and request headers
    JSON    {"delay":1.5,"at":1700000000000,"priority":"high","key":"k","ttl":60,…,"headers":{"name":"value"}}

Each option except headers may occur once. Unknown options are rejected: a message that should have been delayed must
not be delivered immediately because of a misspelling.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import nan
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from miniqueue.core.message.attributes import Attributes, check_header_name
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.consume import parse_switch
from miniqueue.core.options.durations import MAX_TIME_MS, SECONDS_RULE, parse_seconds, parse_time_ms
from miniqueue.errors import InvalidDelayError, RequestError
from miniqueue.errors.requests import InvalidOptionError

#: Separates a dedup id from the digest of the content.
DIGEST_MARK: Final = b"?digest="
#: Maximum length of a key, a dedup id, and a unique key: small next to a message, so that indexes of them stay small.
MAX_KEY_BYTES: Final = 1024
#: Maximum time to live, about 317 years: a sum with the current time in ms fits in 8 bytes.
MAX_TTL_SECONDS: Final = 10.0**10
#: Default and maximum time to wait for a reply.
DEFAULT_TIMEOUT_SECONDS: Final = 30.0
MAX_TIMEOUT_SECONDS: Final = 3600.0

Header = tuple[bytes, bytes]


class PublishOptions(NamedTuple):
    """The options of one publish; a message without options has the defaults.

    Attributes:
      headers: names and values, in their order; a name may occur more than once.
      key: the key; b"" for none.
      ttl_seconds: the time to live; None: the setting of the topic.
      dedup_id: the dedup id, by which a second publish is a duplicate; b"" for none.
      unique_key: the unique key, of which the topic has at most one message at a time; b"" for none. An expired message
        with its own time to live frees it (`core.log.unique_keys`).
      is_replacing: whether the message replaces one with its unique key that waits.
      priority: the priority.
      delay_seconds: the delay; None: no delay, or until `at_ms`.
      at_ms: the due time in ms since 1970; never set together with `delay_seconds`.
      reply_to: the broker's name of the request that waits for a reply; clients cannot set it.
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
    is_replacing: bool = False

    @property
    def placing_key(self) -> bytes:
        """What decides the part of a spread topic: the key, else the unique key, else the dedup id; b"" if none.

        A unique key is before the dedup id, since each message with this key may have an id of its own.
        """
        return self.key or self.unique_key or without_digest(self.dedup_id)

    def due_at_ms(self, now_ms: int) -> int:
        """Return when a message is due that is published now."""
        if self.at_ms is not None:
            return max(now_ms, self.at_ms)
        return now_ms + math.ceil((self.delay_seconds or 0) * 1000)

    def attributes(self, now_ms: int) -> Attributes:
        """Return the attributes of a message that is due now; its time to live begins."""
        expires_at_ms = 0 if self.ttl_seconds is None else now_ms + max(1, round(self.ttl_seconds * 1000))
        return Attributes(
            self.headers, self.key, expires_at_ms, self.dedup_id, unique_key=self.unique_key, reply_to=self.reply_to
        )


NO_OPTIONS: Final = PublishOptions()


def parse_words(words: Sequence[bytes]) -> PublishOptions:
    """Parse the words after a message in RESP: names, in any case, each but REPLACE followed by a value.

    Raises, as the other parsers do:
      InvalidOptionError: an option is unknown, occurs twice, has no value, or an invalid one.
      InvalidDelayError: the delay is invalid.
      InvalidAttributesError: the name of a header is invalid.
    """
    options: list[tuple[str, bytes]] = []
    headers: list[Header] = []
    remaining = iter(words)
    for word in remaining:
        name = word.decode("utf-8", "replace").lower()
        try:
            if name == "header":
                headers.append((next(remaining), next(remaining)))
            elif name == "replace":
                options.append((name, b"true"))
            else:
                options.append((name, next(remaining)))
        except StopIteration as exc:
            raise InvalidOptionError(f"the option {_shown(name)} needs a value") from exc
    return _options(options, headers, "header")


def parse_texts(options: Iterable[tuple[str, bytes]], headers: Iterable[Header] = ()) -> PublishOptions:
    """Parse the names and values of an HTTP query, and add headers."""
    return _options(options, headers)


def parse_members(members: Mapping[str, object]) -> PublishOptions:
    """Parse members of a JSON object: strings, numbers, and `headers` as an object or an array of pairs."""
    options = [(name, _text_of(name, value)) for name, value in members.items() if name != "headers"]
    return _options(options, _headers_of(members.get("headers", ())))


def _options(
    options: Iterable[tuple[str, bytes]], headers: Iterable[Header], word_for_headers: str = "headers"
) -> PublishOptions:
    fields: dict[str, Any] = {}
    for name, value in options:
        option = _OPTIONS.get(name)
        if option is None:
            known = ", ".join([*_OPTIONS, word_for_headers])
            raise InvalidOptionError(f"there is no option {_shown(name)}; there are {known}")
        if option.field in fields:
            raise InvalidOptionError(f"the option {name} is given twice")
        fields[option.field] = option.parse(name, value)
    if "at_ms" in fields and "delay_seconds" in fields:
        raise InvalidOptionError("a message has a delay or the time at which it is due, not both")
    if fields.get("is_replacing") and "unique_key" not in fields:
        raise InvalidOptionError("replace is an option of messages with a unique key")
    return PublishOptions(tuple((check_header_name(name), value) for name, value in headers), **fields)


def without_digest(dedup_id: bytes) -> bytes:
    """Return a dedup id without the digest of the content, if it has one."""
    return dedup_id.partition(DIGEST_MARK)[0]


def check_batch_id(value: bytes) -> bytes:
    """Return the dedup id of a batch if it is valid or b""; raises InvalidOptionError otherwise."""
    return _dedup_id("dedup", value) if value else value


# --- values --------------------------------------------------------------------------------------------------


def _key(name: str, value: bytes) -> bytes:
    if not 0 < len(value) <= MAX_KEY_BYTES:
        raise InvalidOptionError(f"{name} is 1 to {MAX_KEY_BYTES} bytes")
    return value


def _dedup_id(name: str, value: bytes) -> bytes:
    if value.startswith(DIGEST_MARK):
        raise InvalidOptionError(f"{name} has no id before {DIGEST_MARK.decode()}: a digest belongs to an id")
    return _key(name, value)


def _delay_seconds(_: str, value: bytes) -> float:
    seconds = parse_seconds(value.decode("utf-8", "replace"))
    if not seconds < MAX_TIME_MS / 1000:
        raise InvalidDelayError
    return seconds


def _ttl_seconds(name: str, value: bytes) -> float:
    try:
        seconds = parse_seconds(value.decode("utf-8", "replace"))
    except InvalidDelayError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TTL_SECONDS:
        raise InvalidOptionError(f"{name} is {SECONDS_RULE} more than 0 and at most {MAX_TTL_SECONDS:.0f}")
    return seconds


def _at_ms(name: str, value: bytes) -> int:
    return parse_time_ms(value.decode("utf-8", "replace"), name)


def _priority(name: str, value: bytes) -> Priority:
    try:
        return Priority(value.decode("utf-8", "replace").lower())
    except ValueError as exc:
        raise InvalidOptionError(f"{name} is {', '.join(Priority)}") from exc


def _flag(name: str, value: bytes) -> bool:
    try:
        return parse_switch(name, {name: value})
    except RequestError as exc:
        raise InvalidOptionError(str(exc)) from exc


class _Option(NamedTuple):
    """The field of `PublishOptions` that an option sets, and the parser of its name and value."""

    field: str
    parse: Callable[[str, bytes], object]


_OPTIONS: Final[Mapping[str, _Option]] = MappingProxyType(
    {
        "delay": _Option("delay_seconds", _delay_seconds),
        "at": _Option("at_ms", _at_ms),
        "priority": _Option("priority", _priority),
        "key": _Option("key", _key),
        "ttl": _Option("ttl_seconds", _ttl_seconds),
        "dedup": _Option("dedup_id", _dedup_id),
        "unique": _Option("unique_key", _key),
        "replace": _Option("is_replacing", _flag),
    }
)
_NUMBERS: Final = frozenset({"delay", "at", "ttl"})
_FLAGS: Final = frozenset({"replace"})


# --- JSON ----------------------------------------------------------------------------------------------------


def _text_of(name: str, value: object) -> bytes:
    """Return the value of a JSON member as HTTP queries have it; numbers may also be strings."""
    match value:
        case str():
            return value.encode()
        case bool() if name in _FLAGS:
            return b"true" if value else b"false"
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


# --- requests ------------------------------------------------------------------------------------------------


def parse_timeout(text: str) -> float:
    """Parse the time to wait for a reply, in seconds; raises InvalidDelayError."""
    try:
        seconds = parse_seconds(text)
    except InvalidDelayError:
        seconds = nan
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:  # NaN is rejected, too
        raise InvalidDelayError(f"a timeout is {SECONDS_RULE} more than 0 and at most {MAX_TIMEOUT_SECONDS:.0f}")
    return seconds


def check_request(options: PublishOptions) -> PublishOptions:
    """Return `options` if a request can have them; raises InvalidOptionError otherwise."""
    if options.delay_seconds is not None or options.at_ms is not None or options.dedup_id or options.unique_key:
        raise InvalidOptionError("a request is published at once and for itself: no delay, at, dedup or unique")
    return options
