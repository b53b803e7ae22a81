"""What clients choose: topics by names and patterns, and messages by filters.

    name LF name LF … LF LF pattern LF pattern … LF LF key LF header LF part of the payload LF age LF reason

Documented: InvalidTopicError, InvalidOptionError, InvalidDelayError, InvalidAttributesError. Both protocols read the
same; what is chosen is what the words say, and a filter that was stored chooses the same.
"""

from itertools import islice
from math import isfinite
from random import Random
from urllib.parse import urlencode

import orjson

from miniqueue.core.message.attributes import Attributes, Origin
from miniqueue.core.message.names import check_topic
from miniqueue.core.options.filter import NAMES, Filter, of_members, parse_filter
from miniqueue.core.options.topic_choice import MAX_TOPICS, TopicChoice, parse_choice
from miniqueue.errors import InvalidAttributesError, InvalidDelayError, InvalidTopicError
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.server.asgi.request import lists_of
from miniqueue.server.resp.commands import messages, receive
from tests.fuzz.engine import Target, attempt, chance_of
from tests.fuzz.pieces import payload, some, text

_BLANK = b"\n\n"
_TOPICS = (b"orders", b"orders.eu", b"jobs", b"jobs.mail", b"TOPICS", b"PATTERN", b"COUNT", "\u00e9".encode(), b"a/b")
_PATTERNS = (b"*", b"jobs.*", b"orders*", b"o*", b"**", b"*.eu", b"jobs", b"TOPICS*", b"\xc3*", "\u00e9*".encode())
_EXISTING = sorted((b"orders", b"orders.eu", b"jobs", b"jobs.mail", b"other", "\u00e9t\u00e9".encode()))
_KEYS = (b"", b"k", b"acme", b"\xff", b"KEY")
_HEADERS = (b"tenant:acme", b"Tenant:acme", b"tenant:", b":x", b"tenant", b"a:b:c", b"x:y")
_PARTS = (b"", b"1", b"x", b"\xff", b'"id":17')
_AGES = (b"0", b"1", b"1h", b"-1", b"nan", b"inf", b"1e400", b"x", b"9" * 30)
_REASONS = (b"", b"rejected", b"no reply", b"\xff")
_NOW_MS = 1_700_000_000_000


def _make(chance: Random) -> bytes:
    names = some(chance, (*_TOPICS, text(chance).encode()), 4) * chance.choice((1, 1, 1, 30))
    conditions = [chance.choice(values) for values in (_KEYS, _HEADERS, _PARTS, _AGES, _REASONS)]
    parts = (names, some(chance, _PATTERNS, 4), conditions[: chance.randint(0, len(conditions))])
    return _BLANK.join(map(b"\n".join, parts))


def _check(content: bytes) -> None:
    names, patterns, conditions = (part.split(b"\n") if part else [] for part in _three(content.split(_BLANK, 2)))
    _check_choice(names, patterns)
    _check_words(names, patterns)
    options = dict(zip(NAMES, conditions, strict=False))
    _check_filter(content, options)
    _check_filter(content, dict(islice(options.items(), 1, None)))
    if b":" in options.get("header", b":"):
        _check_words_of(options)


def _three(parts: list[bytes]) -> list[bytes]:
    return [*parts, b"", b""][:3]


# --- topics ---------------------------------------------------------------------------------------------------


def _check_choice(names: list[bytes], patterns: list[bytes]) -> None:
    choice = attempt(parse_choice, names, patterns, documented=(InvalidTopicError, InvalidOptionError))
    is_allowed = all(map(_is_name, names)) and all(
        pattern.count(b"*") == 1 and pattern.endswith(b"*") and (pattern == b"*" or _is_name(pattern[:-1]))
        for pattern in patterns
    )
    counts = len(set(names)), len(set(patterns))
    assert isinstance(choice, TopicChoice) == (is_allowed and 0 < max(counts) <= MAX_TOPICS)
    if isinstance(choice, TopicChoice):
        assert [*choice.names] == [*dict.fromkeys(names)]
        existing = sorted({*_EXISTING, *names})
        fitting = {name for name in existing if any(name.startswith(pattern[:-1]) for pattern in patterns)}
        among = choice.among(existing)
        assert len(among) == len(fitting)
        assert {*among} == fitting
        assert {name for name in existing if choice.fits(name)} == fitting | {*names}


def _is_name(name: bytes) -> bool:
    return not isinstance(attempt(check_topic, name, documented=(InvalidTopicError,)), Exception)


def _check_words(names: list[bytes], patterns: list[bytes]) -> None:
    """The words of RECEIVEANY, and the query of `POST /receive`, say the same."""
    words = [word for pattern in patterns for word in (b"PATTERN", pattern)]
    assert receive.topics_of([*words, b"count", b"2", b"TOPICS", *names]) == ([b"count", b"2"], patterns, names)
    query = urlencode([*(("topic", name) for name in names), *(("pattern", pattern) for pattern in patterns)])
    _, lists = lists_of({"query_string": query.encode()}, ("count",), ("topic", "pattern"))
    assert (lists["topic"], lists["pattern"]) == (names, patterns)


# --- messages -------------------------------------------------------------------------------------------------


def _check_filter(content: bytes, options: dict[str, bytes]) -> None:
    documented = (InvalidOptionError, InvalidDelayError, InvalidAttributesError)
    chosen = attempt(parse_filter, options, documented=documented)
    if isinstance(chosen, Exception):
        return
    assert chosen.older_seconds is None or (isfinite(chosen.older_seconds) and chosen.older_seconds >= 0)
    assert of_members(orjson.loads(orjson.dumps(chosen.members()))) == chosen
    chance = chance_of(content)
    for _ in range(5):
        message, attributes = payload(chance), _attributes(chance)
        at_ms = _NOW_MS - chance.choice((0, 1, 1000, 3_600_000))
        encoded = attributes.encode()
        assert chosen.selects(message, encoded, at_ms, _NOW_MS) == _selects(chosen, message, attributes, at_ms)
        chosen.selects(message, encoded[:-1] + b"\xff", at_ms, _NOW_MS)  # damaged attributes are no reason to end


def _attributes(chance: Random) -> Attributes:
    headers = tuple(some(chance, ((b"tenant", b"acme"), (b"TENANT", b""), (b"a", b"b:c"), (b"x", b"y")), 2))
    origin = Origin(b"t", 0, 1, 2, 3, reason=chance.choice(_REASONS)) if chance.random() < 1 / 2 else None
    return Attributes(headers, chance.choice(_KEYS), origin=origin)


def _selects(chosen: Filter, message: bytes, attributes: Attributes, at_ms: int) -> bool:
    """Say again what `Filter` says of itself."""
    origin, header = attributes.origin, chosen.header
    is_there = header is None or any(
        name.lower() == header[0].lower() and value == header[1] for name, value in attributes.headers
    )
    return (
        is_there
        and chosen.key in (None, attributes.key)
        and (chosen.contains is None or chosen.contains in message)
        and (chosen.older_seconds is None or at_ms <= _NOW_MS - 1000 * chosen.older_seconds)
        and (chosen.reason is None or (origin is not None and origin.reason == chosen.reason))
    )


def _check_words_of(options: dict[str, bytes]) -> None:
    """MESSAGES reads the same conditions; HEADER has two words there."""
    words = [b"MESSAGES", b"DELETE", b"t"]
    for name, value in options.items():
        words += [name.encode(), *(value.split(b":", 1) if name == "header" else [value])]
    read = messages._words_of(words, 3, ())
    assert read.options.keys() == options.keys()
    assert {**read.options, **({} if read.header is None else {"header": b":".join(read.header)})} == options


TARGET = Target("choices", _make, _check, tokens=(*_TOPICS, *_PATTERNS, *_HEADERS, *_AGES, _BLANK), quick_inputs=1000)
