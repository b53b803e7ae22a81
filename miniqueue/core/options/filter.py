"""The filter that selects messages of a topic, for a search and for acts on many messages.

    RESP    KEY k HEADER name value CONTAINS text OLDER seconds REASON reason
    HTTP    ?key=k&header=name:value&contains=text&older=seconds&reason=reason

A message is selected if it meets every condition; a filter without conditions selects all messages. `contains` searches
the payload for these bytes, `reason` is the reason of a dead letter. The case of the name of a header does not matter,
because HTTP does not keep it.
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple

from miniqueue.core.message import attributes
from miniqueue.core.message.attributes import check_header_name, key_of
from miniqueue.core.options.durations import parse_seconds
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidDelayError
from miniqueue.errors.requests import InvalidOptionError

#: The names of the options, as HTTP spells them.
NAMES: Final = ("key", "header", "contains", "older", "reason")
#: Maximum size of each value of a condition: longer than a key, a reason, or a useful text.
MAX_VALUE_BYTES: Final = 4096


class Filter(NamedTuple):
    """The conditions that a message must meet; None: any message meets it.

    Attributes:
      key: its key; b"" selects messages without a key.
      header: the name and the value of one of its headers.
      contains: a part of its payload.
      older_seconds: its minimum age since it was published.
      reason: why it became a dead letter.
      origin: the topic that it came from as a dead letter; no option of clients sets it.
    """

    key: bytes | None = None
    header: tuple[bytes, bytes] | None = None
    contains: bytes | None = None
    older_seconds: float | None = None
    reason: bytes | None = None
    origin: bytes | None = None

    def selects(self, payload: bytes, encoded: bytes, published_at_ms: int, now_ms: int) -> bool:
        """Return whether a message with these encoded attributes meets all conditions."""
        if self.older_seconds is not None and published_at_ms > now_ms - self.older_seconds * 1000:
            return False
        if self.key is not None and key_of(encoded) != self.key:
            return False
        if self.contains is not None and self.contains not in payload:
            return False
        is_plain = self.header is None and self.reason is None and self.origin is None
        return is_plain or self._selects_described(encoded)

    def _selects_described(self, encoded: bytes) -> bool:
        """Return whether header, reason, and origin fit; nothing is decoded unless the bytes of all are there."""
        parts = self.header and self.header[1], self.reason, self.origin
        if any(part is not None and part not in encoded for part in parts):
            return False
        try:
            described = attributes.decode(encoded)
        except (CorruptionError, FormatVersionError):
            return False
        if self.header is not None and not self._has_header(described.headers):
            return False
        if self.reason is None and self.origin is None:
            return True
        origin = described.origin
        return origin is not None and self.reason in (None, origin.reason) and self.origin in (None, origin.topic)

    def _has_header(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        assert self.header is not None
        name, value = self.header[0].lower(), self.header[1]
        return any(other_value == value and other.lower() == name for other, other_value in headers)

    def members(self) -> dict[str, Any]:
        """Return the conditions for JSON; bytes are hexadecimal."""
        header = None if self.header is None else [part.hex() for part in self.header]
        parts = {"key": self.key, "contains": self.contains, "reason": self.reason, "origin": self.origin}
        texts = {name: part.hex() for name, part in parts.items() if part is not None}
        numbers = {} if self.older_seconds is None else {"older": self.older_seconds}
        return {**texts, **numbers, **({} if header is None else {"header": header})}


def of_members(members: Mapping[str, Any]) -> Filter:
    """Return the filter with these `members`; raises KeyError, TypeError or ValueError."""
    names = ("key", "contains", "reason", "origin")
    texts = {name: bytes.fromhex(members[name]) for name in names if name in members}
    name_and_value = [bytes.fromhex(part) for part in members.get("header", ())]
    header = (name_and_value[0], name_and_value[1]) if len(name_and_value) > 1 else None
    return Filter(header=header, older_seconds=members.get("older"), **texts)


def parse_filter(options: Mapping[str, bytes], header: tuple[bytes, bytes] | None = None) -> Filter:
    """Return the filter that a client asks for; other names in `options` are ignored.

    A header in `options` is its name and its value with a colon in between, as HTTP has it; `header` has them apart,
    since a name can contain a colon. Raises InvalidOptionError, InvalidAttributesError for the name of the header, or
    InvalidDelayError for the age.
    """
    values = options if header is None else {**options, "header": b":".join(header)}
    for name in NAMES:
        if len(values.get(name, b"")) > MAX_VALUE_BYTES:
            raise InvalidOptionError(f"{name} is longer than {MAX_VALUE_BYTES} bytes")
    if options.get("contains") == b"":
        raise InvalidOptionError("contains is empty; every payload would contain it")
    if header is None and "header" in options:
        header = _split_header(options["header"])
    return Filter(
        key=options.get("key"),
        header=None if header is None else (check_header_name(header[0]), header[1]),
        contains=options.get("contains"),
        older_seconds=_parse_age(options["older"]) if "older" in options else None,
        reason=options.get("reason"),
    )


def _split_header(word: bytes) -> tuple[bytes, bytes]:
    name, colon, value = word.partition(b":")
    if not colon:
        raise InvalidOptionError("a header is a name and a value, as in tenant acme; over HTTP, tenant:acme")
    return name, value


def _parse_age(word: bytes) -> float:
    seconds = parse_seconds(word.decode("utf-8", "replace"))
    if not isfinite(seconds):
        raise InvalidDelayError
    return seconds
