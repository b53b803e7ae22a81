"""The messages of a topic among the JSON lines of an export, in the order of the lines.

Lines of settings, groups, and schedules are left out, and messages that are not due: they are in no log.
"""

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Final

from miniqueue.commands.stored.values import message_of
from miniqueue.errors import ConfigError, InvalidLineError, StorageError
from miniqueue.server.process.escaping import quote
from miniqueue.tools.lines import delayed, groups, messages, schedules, settings
from miniqueue_client import Message

_GZIP: Final = b"\x1f\x8b"
#: Maximum length of a line; a payload of bytes is a third longer than the message.
_MAX_LINE_BYTES: Final = 256 << 20


def messages_in_lines(path: Path, topic: str) -> Iterator[Message]:
    """Yield the messages of a topic; raises ConfigError if no line is about it, InvalidLineError, or StorageError."""
    name, is_known = topic.encode("utf-8", "surrogateescape"), False
    try:
        with path.open("rb") as file:
            is_compressed = file.read(2) == _GZIP
            file.seek(0)
            for number, line in enumerate(_lines(gzip.GzipFile(fileobj=file) if is_compressed else file), 1):
                try:
                    line_topic, message = _parsed(line)
                except InvalidLineError as exc:
                    raise InvalidLineError(f"{quote(str(path))}, line {number}: {exc}") from exc
                is_known = is_known or line_topic == name
                if message is not None and line_topic == name:
                    yield _message(topic, message)
    except (OSError, EOFError, zlib.error) as exc:
        raise StorageError(f"{quote(str(path))}: {getattr(exc, 'strerror', None) or exc}") from exc
    if not is_known:
        raise ConfigError([f"there is no topic {quote(topic)} in {quote(str(path))}"])


def _parsed(line: bytes) -> tuple[bytes, messages.StoredMessage | None]:
    """Return the topic of a line, and the message if the line has one that is in a log."""
    if (schedule := schedules.decode(line)) is not None:
        return schedule.schedule.topic, None
    if other := settings.decode(line) or groups.decode(line) or delayed.decode(line):
        return other.topic, None
    message = messages.decode(line)
    return message.topic, message


def _lines(file: BufferedIOBase) -> Iterator[bytes]:
    while line := file.readline(_MAX_LINE_BYTES + 1):
        if len(line) > _MAX_LINE_BYTES:
            raise InvalidLineError(f"a line has more than {_MAX_LINE_BYTES} bytes")
        yield line


def _message(topic: str, line: messages.StoredMessage) -> Message:
    return message_of(topic, line.partition, line.seq or 0, line.payload, line.published_at_ms or 0, line.attributes)
