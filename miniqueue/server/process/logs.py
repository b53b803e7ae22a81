"""The log: one line for each event, JSON for programs or columns for people, on standard error.

    {"time":"2025-01-31T12:00:00.000000Z","level":"info","event":"ready","https":8080}

A call names the event in fixed words and puts everything variable into fields:
`structlog.get_logger().error("topic cannot be read", topic=name)`. Before a line is written, every value is made
harmless: one line, printable, at most `MAX_SHOWN_CHARS` characters, or an array of at most `MAX_SHOWN_ITEMS` such
values. So clients cannot control a terminal, forge a line, or fill the disk. Payloads are private: a call may log their
size at any level, but their bytes only at `debug`, if at all.

Messages that libraries log through the standard `logging` module have the same form, from level warning upward, and
each appears at most once a minute: without that limit, a process that was out of file descriptors wrote 12 MB in 16
seconds (from asyncio, about `accept`).

The log never fails its caller: a line that cannot be written is dropped.
"""

import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from miniqueue.server.process.escaping import MAX_SHOWN_CHARS, escape
from miniqueue.server.process.repeats import LogRateLimit

#: What every line of this process contains.
_OF_PROCESS: EventDict = {}
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "disabled": logging.CRITICAL + 1,
}
#: Maximum number of items of a list that a line contains.
MAX_SHOWN_ITEMS = 10
_LIBRARY_INTERVAL_SECONDS = 60.0
_MAX_TRACEBACK_LINES = 60
_INTEGERS = range(-(2**63), 2**64)  # the range that JSON readers and orjson support


def configure(
    level: str,
    human: bool | None,
    stream: TextIO | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Set up logging for this process; call it once, before the first event.

    Args:
      level: `debug`, `info`, `warning`, `error`, or `disabled`, which logs nothing at all.
      human: columns instead of JSON, colored if `stream` is a terminal; None: columns on a terminal only.
      stream: the output; None: standard error.
      monotonic: the clock of the limit for libraries, in seconds.
    """
    stream = stream or sys.stderr
    is_terminal = stream.isatty()
    is_human = is_terminal if human is None else human
    lowest = _LEVELS[level]
    is_disabled = level == "disabled"
    structlog.configure(
        processors=[_drop] if is_disabled else _processors(is_human, is_terminal),
        wrapper_class=structlog.make_filtering_bound_logger(min(lowest, logging.CRITICAL)),
        logger_factory=lambda *_: _LineWriter(stream),
        cache_logger_on_first_use=True,
    )
    _route_libraries(max(lowest, logging.WARNING), monotonic)


def name_shard(number: int) -> None:
    """Add the number of the shard of this process to every line from now on, also of loggers that exist already."""
    _OF_PROCESS["shard"] = number


def _name_process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {**_OF_PROCESS, **event}


def make_harmless(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace values, which clients may have chosen, by text that is printable, on one line, and short."""
    for name, value in event.items():
        event[name] = _traceback(value) if name == "exception" else _harmless(value)
    return event


class _LineWriter:
    """The last processor: writes one finished line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, line: str) -> None:
        with suppress(OSError, ValueError):  # full disk, closed pipe, closed file: the broker continues
            self._stream.write(line + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


class _LibraryHandler(logging.Handler):
    """Passes the records of the standard `logging` module to structlog, each kind once per interval."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._limit = LogRateLimit(_LIBRARY_INTERVAL_SECONDS, monotonic)  # guarded by the handler's lock

    def emit(self, record: logging.LogRecord) -> None:
        template, _, _ = str(record.msg).partition("\n")  # further lines are details that vary
        held_back = self._limit.admit((record.name, record.lineno, template))
        if held_back is None:
            return
        fields: dict[str, Any] = {"held_back": held_back} if held_back else {}
        level = min(record.levelno // 10 * 10, logging.CRITICAL)  # structlog has no levels in between
        logger = structlog.get_logger()
        logger.log(level, _text(record), logger=record.name, exc_info=record.exc_info, **fields)


def _processors(human: bool, is_terminal: bool) -> list[Processor]:
    renderer = _render_columns(is_terminal) if human else _render_json
    return [
        _name_process,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        make_harmless,
        renderer,
    ]


def _render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    first = {"time": event.pop("time"), "level": event.pop("level"), "event": event.pop("event")}
    return orjson.dumps({**first, **event}).decode()


def _render_columns(is_terminal: bool) -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=is_terminal,
        timestamp_key="time",
        pad_event_to=24,
        exception_formatter=structlog.dev.plain_traceback,
    )


def _route_libraries(lowest: int, monotonic: Callable[[], float]) -> None:
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _LibraryHandler)]:
        root.removeHandler(handler)
    root.addHandler(_LibraryHandler(monotonic))
    root.setLevel(lowest)


def _drop(_logger: WrappedLogger, _method: str, _event: EventDict) -> EventDict:
    raise structlog.DropEvent


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # the arguments do not match the template
        return str(record.msg)


def _harmless(value: object) -> object:
    """Return a value for JSON; each item of a list or a dictionary is made harmless."""
    match value:
        case list() | tuple() | set() | frozenset():
            shown = [_harmless_item(item) for item in islice(value, MAX_SHOWN_ITEMS)]
            return shown if len(value) <= MAX_SHOWN_ITEMS else [*shown, "..."]
        case dict():
            return {_harmless_text(key): _harmless_item(value[key]) for key in islice(value, MAX_SHOWN_ITEMS)}
        case _:
            return _harmless_item(value)


def _harmless_item(value: object) -> object:
    match value:
        case list() | tuple() | set() | frozenset() | dict():
            return f"<{type(value).__name__}>"  # nesting has no limit
        case None | bool() | float():
            return value
        case int() if value in _INTEGERS:
            return int(value)
        case str() | bytes():
            return escape(value)
        case bytearray() | memoryview():
            return escape(bytes(value[: MAX_SHOWN_CHARS + 1]))
        case _:
            return _harmless_text(value)


def _harmless_text(value: object) -> str:
    try:
        return escape(str(value))
    except Exception:  # a foreign __str__ can raise anything, as can an integer of too many digits
        return f"<{type(value).__name__}>"


def _traceback(value: object) -> str:
    """Return the last lines of a traceback, indented, so that no line of a message looks like an event."""
    lines = str(value).splitlines()[-_MAX_TRACEBACK_LINES:]
    return "\n".join("  " + escape(line) for line in lines)
