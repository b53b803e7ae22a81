"""Times, durations, and payloads as people read them in tables; messages as JSON.

2026-12-01 08:00:00.000Z         a time, in UTC
3d 2h · 12m 5s · 1.5s            a duration, by its two largest units
{"text":"…"} or {"msg":"…"}      a payload in JSON, `miniqueue.wire.json_bytes`
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from miniqueue.server.process.escaping import escape
from miniqueue.wire.json_bytes import bytes_value, parse_bytes, payload_member
from miniqueue_client import Message

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_MAX_YEAR_9999_MS: Final = 253_402_300_799_999
_BINARY_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def shown_time(at_ms: int) -> str:
    """Return a time; "–" for 0, which means never."""
    if not at_ms:
        return "–"
    if at_ms > _MAX_YEAR_9999_MS:
        return "after 9999"
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03}Z"


def shown_duration(seconds: float) -> str:
    """Return a duration, by its two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms" if seconds else "0s"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    remaining, parts = int(seconds), list[str]()
    for unit, size in _UNITS:
        count, remaining = divmod(remaining, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join([parts[0], *(part for part in parts[1:2] if not part.startswith("0"))])


def shown_age(seconds: float | None) -> str:
    """Return a duration that may not be known."""
    return "–" if seconds is None else shown_duration(seconds)


def shown_rate(per_second: float | None) -> str:
    """Return a rate that may not be known."""
    return "–" if per_second is None else f"{per_second:.1f}".removesuffix(".0")


def shown_bytes(count: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in _BINARY_UNITS:
        if count < 1024 or unit == _BINARY_UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError  # the last unit returns


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, which is in the plural unless there is one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shown_payload(payload: bytes) -> str:
    """Return a payload on one line, cut if it is long."""
    try:
        return escape(payload.decode())
    except UnicodeDecodeError:
        return escape(payload)


def shown_content(content: str | Mapping[str, str] | None) -> str:
    """Return bytes in JSON on one line; "–" for none."""
    return shown_payload(parse_bytes(content)) if content else "–"


def shown_headers(headers: Iterable[tuple[str, str | Mapping[str, str]]]) -> str:
    """Return the headers of a message in JSON on one line: `tenant=eu, trace-id=7`."""
    return ", ".join(f"{escape(name)}={shown_content(value)}" for name, value in headers) or "–"


def terminal_payload(payload: bytes) -> bytes:
    """Return a payload as a terminal can show it: whole, with its lines, but without control characters."""
    text = payload.decode("utf-8", "backslashreplace")
    shown = "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )
    return shown.encode("utf-8", "backslashreplace")


def json_message(message: Message) -> dict[str, Any]:
    """Return a message as JSON, without what it does not have."""
    members: dict[str, Any] = {
        "topic": message.topic,
        "id": message.id,
        "state": message.state,
        "published_at_ms": message.published_at_ms,
        "due_at_ms": message.due_at_ms,
        "deliveries": message.deliveries,
        **message.counts._asdict(),
        "key": bytes_value(message.key),
        "headers": [[name, bytes_value(value)] for name, value in message.headers],
        "expires_at_ms": message.expires_at_ms,
        "reply_to": message.reply_to,
        "only_for": message.only_for,
        "failure": message.failure,
        "origin": _json_origin(message),
        **message.extra,
    }
    kept = {name: value for name, value in members.items() if value or name in ("topic", "id")}
    return {**kept, **payload_member(message.payload)}


def _json_origin(message: Message) -> Mapping[str, Any] | None:
    if (origin := message.origin) is None:
        return None
    counts = {cause: count for cause, count in origin.counts._asdict().items() if count}
    return {name: value for name, value in origin._asdict().items() if name != "counts"} | counts
