"""One line of an export, of whatever kind, and the topic to which it belongs."""

from typing import TypeAlias

from miniqueue.tools.lines import delayed, groups, messages, schedules, settings
from miniqueue.tools.lines.delayed import StoredDelayed
from miniqueue.tools.lines.groups import StoredGroups
from miniqueue.tools.lines.messages import StoredMessage
from miniqueue.tools.lines.schedules import StoredSchedule
from miniqueue.tools.lines.settings import StoredSettings

Line: TypeAlias = StoredSchedule | StoredSettings | StoredGroups | StoredDelayed | StoredMessage


def decode(line: bytes) -> Line:
    """Parse a line; raise InvalidLineError."""
    return (
        schedules.decode(line)
        or settings.decode(line)
        or groups.decode(line)
        or delayed.decode(line)
        or messages.decode(line)
    )
