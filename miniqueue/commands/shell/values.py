"""Types of the values of flags and arguments; each refuses a bad value in one line, with what is allowed.

duration    90 · 1.5 · 500ms · 1h30m             seconds, or numbers with units, as in every protocol
time        2026-12-01T08:00:00Z · ms since 1970 · 2026-12-01 08:00 (local) · -15m: 15 minutes ago · now
header      name=value
"""

import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from miniqueue.core.options.durations import SECONDS_RULE, parse_seconds, parse_time_ms
from miniqueue.errors import RequestError
from miniqueue.server.process.escaping import quote

_ID = r"[0-9]+(\.[a-z]+)?-[0-9]+"
_IDS = re.compile(rf"{_ID}(,{_ID})*")
_TIME_RULE = "a time such as 2026-12-01T08:00:00Z or '2026-12-01 08:00', ms since 1970, now, or -15m for 15 minutes ago"


class _Type(click.ParamType[Any]):
    """A type of values.

    Args:
      name: the placeholder in help.
      convert_text: returns the value of a text; raises ValueError or RequestError.
      rule: what is allowed.
    """

    def __init__(self, name: str, convert_text: Callable[[str], Any], rule: str) -> None:
        self.name = name
        self._convert_text = convert_text
        self._rule = rule

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - a value of any type
        """Return the value of a text; a default that is no text stays as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self._convert_text(value)
        except (ValueError, RequestError, OverflowError) as exc:
            raise click.BadParameter(f"invalid {self.name}: {quote(value)}; must be {self._rule}", ctx, param) from exc


class Header(NamedTuple):
    """A header of a message."""

    name: str
    value: bytes


class Setting(NamedTuple):
    """A setting of a topic, and the text of its value."""

    name: str
    value: str


def _setting(text: str) -> Setting:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ValueError
    return Setting(_text(name).replace("-", "_"), _text(value))


def _start(text: str) -> str | datetime:
    """Return a position as the broker reads it, or a time."""
    return text if text in ("earliest", "latest") or _IDS.fullmatch(text) else moment_of(text)


def _text(text: str) -> str:
    text.encode()  # raises UnicodeEncodeError, a ValueError, for bytes that are not UTF-8
    return text


def _named(text: str) -> str:
    if not text:
        raise ValueError
    return _text(text)


def _header(text: str) -> Header:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise ValueError
    return Header(_text(name), os.fsencode(value))


def _positive(text: str) -> float:
    seconds = parse_seconds(text)
    if seconds <= 0:
        raise ValueError
    return seconds


def moment_of(text: str, now_seconds: Callable[[], float] = time.time) -> datetime:
    """Return the time that a text names, with a time zone; raises ValueError or RequestError."""
    if text == "now":
        return datetime.fromtimestamp(now_seconds(), UTC)
    if text.startswith("-"):
        return datetime.fromtimestamp(now_seconds() - parse_seconds(text[1:]), UTC)
    try:
        return datetime.fromtimestamp(parse_time_ms(text) / 1000, UTC)
    except RequestError:
        return datetime.fromisoformat(text).astimezone()


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < float("inf"):
        raise ValueError
    return rate


def whole_number(least: int, most: int) -> click.ParamType[Any]:
    """Return the type of whole numbers in a range."""

    def number(text: str) -> int:
        value = int(text) if text.isascii() and text.lstrip("-").isdigit() else least - 1
        if not least <= value <= most:
            raise ValueError
        return value

    return _Type("number", number, f"{least} to {most}" if most < 1 << 31 else f"{least} or more")


class Choice(click.Choice[str]):
    """One of several words; refuses others with all of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - a value of any type
        """Return the word."""
        if value not in self.choices:
            allowed = ", ".join(self.choices[:-1]) + " or " + self.choices[-1]
            raise click.BadParameter(f"invalid value: {quote(str(value))}; must be {allowed}", ctx, param)
        return value


class _Named(_Type):
    """Names that a broker knows; completes them."""

    def __init__(self, name: str, complete: Callable[[click.Context], list[str]]) -> None:
        super().__init__(name, _named, "UTF-8, and not empty")
        self._complete = complete

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin as a word does."""
        return [CompletionItem(name) for name in self._complete(ctx) if name.startswith(incomplete)]


def completed(name: str, complete: Callable[[click.Context], list[str]]) -> click.ParamType[Any]:
    """Return the type of names that `complete` lists."""
    return _Named(name, complete)


TEXT = _Type("text", _text, "UTF-8")
NAME = _Type("name", _named, "UTF-8, and not empty")
PAYLOAD = _Type("payload", os.fsencode, "a text")
DURATION = _Type("duration", parse_seconds, f"{SECONDS_RULE} 0 or more")
POSITIVE_DURATION = _Type("duration", _positive, f"{SECONDS_RULE} more than 0")
TIME = _Type("time", moment_of, _TIME_RULE)
HEADER = _Type("name=value", _header, "name=value, in UTF-8")
COUNT = whole_number(1, (1 << 53))
FILE = click.Path(dir_okay=False, path_type=str)
SETTING = _Type("setting=value", _setting, "setting=value")
START = _Type("start", _start, f"earliest, latest, the id of a message, or {_TIME_RULE}")
RATE = _Type("rate", _rate, "a number more than 0")
FILE_OR_FOLDER = click.Path(path_type=str)
