"""Checks schedules: each has what it does, and its next tick."""

from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.schedule import check_schedule_name
from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage import records, schedule_keys, schedule_records
from miniqueue.tools.problems import Problems


class ScheduleAudit:
    """All schedules, for one walk: the ticks, then what they do, then `finish`."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._ticks: set[bytes] = set()

    def take_tick(self, key: bytes, value: bytes) -> None:
        """Check the next tick."""
        name = schedule_keys.name_of(key)
        self._ticks.add(name)
        try:
            check_schedule_name(name)
            records.decode_number(value)
        except InvalidOptionError:
            self._problems.add("no schedule can have this name", key)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)

    def take_schedule(self, key: bytes, value: bytes) -> None:
        """Check what the next schedule does."""
        name = schedule_keys.name_of(key)
        if name not in self._ticks:
            self._problems.add("the schedule has no next tick", key)
        self._ticks.discard(name)
        try:
            schedule_records.decode_schedule(value)
        except (CorruptionError, FormatVersionError) as exc:
            self._problems.add(str(exc), key)

    def finish(self) -> None:
        """Tell of the ticks that were left over."""
        for name in sorted(self._ticks):
            self._problems.add("there is no such schedule", schedule_keys.tick(name))
