"""The words of commands: names of topics, durations, times, prefetches, receipts; and how they are shown to people.

Documented: InvalidTopicError, InvalidDelayError, InvalidPrefetchError, UnknownReceiptError; InvalidOptionError for
times, ConfigError for patterns.
"""

import math
import re
from random import Random
from urllib.parse import quote_from_bytes

from miniqueue.access.users_text import check_name, check_pattern
from miniqueue.core.cursor.receipts import parse_receipts, runs
from miniqueue.core.message.names import MAX_TOPIC_BYTES, check_topic
from miniqueue.core.options.consume import MAX_PREFETCH, parse_prefetch
from miniqueue.core.options.durations import MAX_TIME_MS, parse_seconds, parse_time_ms
from miniqueue.errors import (
    ConfigError,
    InvalidDelayError,
    InvalidPrefetchError,
    InvalidTopicError,
    UnknownReceiptError,
)
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.server.asgi.routing import topic_of
from miniqueue.server.process.escaping import MAX_SHOWN_CHARS, escape, quote
from miniqueue.storage.format import keys
from miniqueue.wire.resp_arguments import shown
from tests.fuzz.engine import Target, attempt
from tests.fuzz.pieces import some, text

_NAME = re.compile(r"[^/\s\x00-\x1f\x7f-\x9f]+")  # the rule of a topic's name, in other words
_PARTS = ("orders", ".", "eu", "é", "\U0001f600", "-", "*", "a" * 50, "\u0301", "\ufeff", "0", "%2F")
_WORDS = (b"1", b"0", b"0.5", b".5", b"1.", b"1e3", b"1_0", b"nan", b"inf", b"-1", b"10000", b"10001", b"007", b"\xb2")
_DURATIONS = (b"5m", b"1h30m", b"2d", b"500ms", b"1.5h", b".5s", b"5M", b"1w", b"h")
_TIMES = (
    b"1700000000000",
    b"2026-12-01T08:00:00Z",
    b"2026-12-01T08:00:00.5-01:30",
    b"2026-02-29T08:00:00Z",
    b"T",
    b"Z",
)
_TIME = re.compile(r"[0-9]+|\d{4}(-\d\d){2}[Tt]\d\d(:\d\d){2}(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_SPACES = tuple(map(str.encode, "/ \u00a0\u1680\u2000\u2028\u202f\u3000\x1c\x85\x9f"))


def _make(chance: Random) -> bytes:
    if chance.random() < 1 / 3:
        start = chance.choice((0, 1, 98, 995, chance.getrandbits(60)))
        receipts = [b"%d" % receipt for receipt in range(start, start + chance.randint(1, 20))]
        return b" ".join(receipts + some(chance, _WORDS, 2))
    if chance.random() < 1 / 3:
        return b"".join(some(chance, (*_DURATIONS, *_TIMES, *_WORDS), 3))
    return ("".join(some(chance, _PARTS, 7)) + text(chance)).encode()


def _check(content: bytes) -> None:
    _check_topic(content)
    _check_numbers(content)
    _check_receipts(content.split(b" "))
    for word in (content, content.decode("utf-8", "surrogateescape")):
        assert escape(word).isprintable()
        assert len(escape(word)) <= MAX_SHOWN_CHARS
    assert quote(content.decode("latin-1")).isprintable()
    assert shown(content).isprintable()


def _check_topic(content: bytes) -> None:
    name = attempt(check_topic, content, documented=(InvalidTopicError,))
    text = content.decode("utf-8", "surrogateescape")
    is_utf8 = not any("\ud800" <= character <= "\udfff" for character in text)
    assert (name == content) == bool(is_utf8 and len(content) <= MAX_TOPIC_BYTES and _NAME.fullmatch(text))
    pattern = attempt(check_pattern, text, documented=(ConfigError,))
    attempt(check_name, text, documented=(ConfigError,))
    if name == content:
        assert keys.topic_name(keys.topic(content)) == content
        assert topic_of({"raw_path": b"/publish/" + quote_from_bytes(content, safe="").encode()}) == content
        assert (pattern == text) == ("*" not in text.removesuffix("*") and text != "**")


def _check_numbers(content: bytes) -> None:
    delay = attempt(parse_seconds, content.decode("utf-8", "replace"), documented=(InvalidDelayError,))
    assert isinstance(delay, Exception) or (delay >= 0 and not math.isnan(delay))
    text = content.decode("utf-8", "replace")
    time_ms = attempt(parse_time_ms, text, documented=(InvalidOptionError,))
    assert isinstance(time_ms, Exception) or (0 <= time_ms <= MAX_TIME_MS and _TIME.fullmatch(text))
    prefetch = attempt(parse_prefetch, content, documented=(InvalidPrefetchError,))
    assert isinstance(prefetch, Exception) or 1 <= prefetch <= MAX_PREFETCH


def _check_receipts(words: list[bytes]) -> None:
    receipts = attempt(parse_receipts, words, documented=(UnknownReceiptError,))
    if isinstance(receipts, Exception):
        assert not all(re.fullmatch(rb"[0-9]{1,19}", word) for word in words)
        return
    assert list(receipts) == list(map(int, words))
    assert [receipt for start, stop in runs(receipts) for receipt in range(start, stop)] == list(receipts)


TARGET = Target("words", _make, _check, tokens=(*_WORDS, *_DURATIONS, *_TIMES, *_SPACES), quick_inputs=4000)
