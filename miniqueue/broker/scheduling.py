"""Publishes messages over and over, at the times that schedules say.

    set ─▶ what it does, and its next tick, with the next commit ─▶ tick: due by now?
                                                                     └ what it does, from the store
                                                                        └ a message for each tick, and the next tick:
                                                                          one commit ─▶ …

So each tick has exactly one message, whatever happens in between. In memory there is only a name and a time for each
schedule. What cannot be published now (the topic is full, or paused) is tried again as long as it takes. Ticks that
could have had no message when it was their time are missed; what becomes of those the schedule says. That is so
after a start, and where nobody looked for too long: the process was stopped, the store failed, the clock was set.
"""

import heapq
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple

import structlog

from miniqueue.broker.acting import ACTING
from miniqueue.broker.clock import Clock
from miniqueue.broker.commit import Accepted, Commit
from miniqueue.broker.crowd import Crowd
from miniqueue.broker.journal import Journal
from miniqueue.broker.limits import Quota
from miniqueue.broker.recurrence import due_ticks_ms, first_tick_ms
from miniqueue.core.names import check_new_topic
from miniqueue.core.publish_options import PublishOptions
from miniqueue.core.schedule import Missed, Schedule, UnknownScheduleError, check_new_schedule_name
from miniqueue.errors import MiniqueueError, PayloadTooLargeError, UnavailableError
from miniqueue.storage import records, schedule_keys, schedule_records

log = structlog.get_logger()

#: Of the ticks that are due at once, the latest so many have messages.
MAX_TICKS = 1000
#: What one commit publishes of one schedule: at least one message.
MAX_BYTES_PER_COMMIT = 1 << 20
MAX_TICKS_PER_COMMIT = 100
PAGE_BYTES = 1 << 20
#: With more time than so many periods between two looks, the ticks in between are missed.
MAX_LOOK_PERIODS = 3
#: A shorter gap is none, however short the period: a busy machine must not cost messages.
MIN_GAP_MS = 3000
#: What each message tells of its schedule: the name, and the time of its tick.
SCHEDULE_HEADER = b"schedule"
TICK_HEADER = b"schedule-at-ms"


class Listed(NamedTuple):
    """A schedule as it is now.

    Attributes:
      name: of the schedule.
      schedule: what it does.
      next_at_ms: its next tick.
    """

    name: bytes
    schedule: Schedule
    next_at_ms: int


class Scheduler:
    """Keeps schedules.

    Args:
      journal: has the store, and commits what changes.
      clock: tells what is due.
      crowd: says when there is room for what is published.
      publish: adds one message.
      max_payload_bytes: the largest payload accepted.
      spawn: runs something in the background.
      quota: says how many there may be.

    Attributes:
      period_ms: how often `tick` is called.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        crowd: Crowd,
        publish: Callable[[bytes, bytes, PublishOptions], Accepted],
        max_payload_bytes: int,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        *,
        quota: Quota,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._crowd = crowd
        self._publish = publish
        self._max_payload_bytes = max_payload_bytes
        self._spawn = spawn
        self._quota = quota
        self.period_ms = 1000
        self._next: dict[bytes, int] = {}  # the next tick of each schedule, by name
        self._heap: list[tuple[int, bytes]] = []  # the same, the first one first; also what is no more
        self._looked_until_ms: int | None = None  # ticks up to then are missed if they had no message
        self._last_look_ms = 0  # when it was last known that ticks could have their messages
        self._is_running = False
        self._said: dict[bytes, str] = {}

    @property
    def count(self) -> int:
        """How many schedules there are."""
        return len(self._next)

    def install(self, ticks: Mapping[bytes, int]) -> None:
        """Take over what the store holds, at the start and after a fault."""
        self._next = dict(ticks)
        self._rebuild()
        if self._looked_until_ms is None:
            self._looked_until_ms = self._last_look_ms = self._clock.now_ms()

    # --- what clients do --------------------------------------------------------------------------------------

    def set(self, name: bytes, schedule: Schedule) -> tuple[Commit, bool]:
        """Keep a schedule, in place of one of the same name; return when it is durable, and whether it is new.

        Its first tick comes after now. Raises, and nothing was changed:
          InvalidOptionError: the name, the rule or the time zone makes no sense.
          InvalidTopicError, PayloadTooLargeError.
          LimitReachedError: there are as many as there may be.
          FullError, ReadOnlyError, DrainingError: nothing can be stored now.
        """
        self._journal.admission.check()
        check_new_schedule_name(name)
        check_new_topic(schedule.topic)
        if len(schedule.payload) > self._max_payload_bytes:
            raise PayloadTooLargeError(len(schedule.payload), self._max_payload_bytes)
        tick_ms = first_tick_ms(schedule, self._clock.now_ms())
        is_new = name not in self._next
        if is_new:
            self._quota.admit_schedule(len(self._next))
        self._journal.change({schedule_keys.schedule(name): schedule_records.encode_schedule(schedule)})
        self._go_on_at(name, tick_ms)
        self._wait_for(name)
        if len(self._heap) > 2 * len(self._next) + MAX_TICKS:
            self._rebuild()  # most of it is no more
        return self._commit(), is_new

    def delete(self, name: bytes) -> Commit:
        """Remove a schedule; return when that is durable.

        Raises UnknownScheduleError, or UnavailableError: nothing can be changed now.
        """
        self._journal.admission.check_change()
        if self._next.pop(name, None) is None:
            raise UnknownScheduleError
        self._journal.change({schedule_keys.schedule(name): None, schedule_keys.tick(name): None})
        return self._commit()

    async def get(self, name: bytes) -> Listed:
        """Return a schedule; raises UnknownScheduleError, UnavailableError or StorageError."""
        return await self._journal.epoch.repeat(partial(self._get, name))

    async def _get(self, name: bytes) -> Listed:
        self._journal.admission.check_change()
        await self._journal.committer.flush()
        value = await self._journal.store.get(schedule_keys.schedule(name))
        next_at_ms = self._next.get(name)
        if value is None or next_at_ms is None:
            raise UnknownScheduleError
        return Listed(name, schedule_records.decode_schedule(value), next_at_ms)

    async def page(self, after: bytes = b"", max_count: int = MAX_TICKS) -> list[Listed]:
        """Return the schedules whose names come behind `after`, by name: none only if there are no more.

        Raises UnavailableError or StorageError.
        """
        return await self._journal.epoch.repeat(partial(self._page, after, max_count))

    async def _page(self, after: bytes, max_count: int) -> list[Listed]:
        self._journal.admission.check_change()
        await self._journal.committer.flush()
        start, stop = schedule_keys.schedules(after)
        pairs = await self._journal.store.scan(start, stop, max_items=max_count, max_bytes=PAGE_BYTES)
        named = [(schedule_keys.name_of(key), value) for key, value in pairs]
        return [
            Listed(name, schedule_records.decode_schedule(value), next_at_ms)
            for name, value in named
            if (next_at_ms := self._next.get(name)) is not None
        ]

    def _commit(self) -> Commit:
        self._journal.committer.request()
        return self._journal.committer.open

    # --- what is due ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Begin to publish what is due by now, if anything is."""
        if not self._journal.admission.may_change:
            return
        now_ms = self._clock.now_ms()
        if now_ms < self._last_look_ms:  # the clock was set back
            self._looked_until_ms = min(self._looked_until_ms or 0, now_ms)
        if now_ms - self._last_look_ms > max(MAX_LOOK_PERIODS * self.period_ms, MIN_GAP_MS):
            self._looked_until_ms = now_ms - self.period_ms  # what came due since then is not late
        self._last_look_ms = now_ms
        if self._is_running:
            return
        if self._heap and self._heap[0][0] <= now_ms:
            self._is_running = True
            self._spawn(self._run(now_ms))
        else:
            self._looked_until_ms = now_ms

    async def _run(self, now_ms: int) -> None:
        """Publish what is due; what cannot be published is due again at the next tick."""
        errors: dict[bytes, MiniqueueError] = {}
        try:
            await self._journal.committer.flush()  # what was set is in the store then
            while self._heap and self._heap[0][0] <= now_ms and self._journal.admission.may_change:
                due_at_ms, name = heapq.heappop(self._heap)
                if self._next.get(name) != due_at_ms:
                    continue
                try:
                    await self._fire(name, due_at_ms, now_ms)
                except MiniqueueError as exc:
                    errors[name] = exc
                else:
                    self._wait_for(name)
            self._looked_until_ms = max(min(now_ms, self._last_look_ms), self._looked_until_ms or 0)
        except UnavailableError:
            pass  # the store is being reopened, and everything begins anew
        finally:
            self._is_running = False
            for name in errors:
                self._wait_for(name)
            self._tell(errors)

    def _wait_for(self, name: bytes) -> None:
        if (next_at_ms := self._next.get(name)) is not None:
            heapq.heappush(self._heap, (next_at_ms, name))

    async def _fire(self, name: bytes, due_at_ms: int, now_ms: int) -> None:
        """Publish the messages of one schedule; raises MiniqueueError when not all could be."""
        value = await self._journal.store.get(schedule_keys.schedule(name))
        if value is None or self._next.get(name) != due_at_ms:
            return  # it was changed meanwhile
        schedule = schedule_records.decode_schedule(value)
        ticks_ms, next_at_ms = due_ticks_ms(schedule, due_at_ms, now_ms, MAX_TICKS)
        ticks_ms = self._wanted(schedule, ticks_ms)
        step = max(1, min(MAX_TICKS_PER_COMMIT, MAX_BYTES_PER_COMMIT // (len(schedule.payload) + 1)))
        stops_ms = [*ticks_ms[step::step], next_at_ms]
        for number, stop_ms in enumerate(stops_ms):
            some_ms = ticks_ms[number * step : (number + 1) * step]
            await self._crowd.admit(partial(self._publish_some, name, schedule, (due_at_ms, stop_ms), some_ms))
            due_at_ms = stop_ms

    def _wanted(self, schedule: Schedule, ticks_ms: list[int]) -> list[int]:
        """Return which ticks have a message."""
        boundary_ms = self._looked_until_ms or 0
        missed = [tick_ms for tick_ms in ticks_ms if tick_ms <= boundary_ms]
        kept_count = {Missed.ALL: len(missed), Missed.ONE: 1, Missed.NONE: 0}[schedule.missed]
        return ticks_ms[max(0, len(missed) - kept_count) :]

    def _publish_some(self, name: bytes, schedule: Schedule, span_ms: tuple[int, int], ticks_ms: list[int]) -> None:
        """Publish messages, and go on from the first tick of the span to behind it, in one commit."""
        start_ms, stop_ms = span_ms
        if self._next.get(name) != start_ms:
            return  # it was changed meanwhile
        for tick_ms in ticks_ms:
            headers = (SCHEDULE_HEADER, name), (TICK_HEADER, b"%d" % tick_ms)
            token = ACTING.set(b"schedule " + name)
            try:
                self._publish(schedule.topic, schedule.payload, PublishOptions(headers))
            except MiniqueueError:
                self._go_on_at(name, tick_ms)
                raise
            finally:
                ACTING.reset(token)
        self._go_on_at(name, stop_ms)

    def _go_on_at(self, name: bytes, next_at_ms: int) -> None:
        if self._next.get(name) != next_at_ms:
            self._next[name] = next_at_ms
            self._journal.change({schedule_keys.tick(name): records.encode_number(next_at_ms)})
            self._journal.committer.request()

    def _rebuild(self) -> None:
        self._heap = [(next_at_ms, name) for name, next_at_ms in self._next.items()]
        heapq.heapify(self._heap)

    def _tell(self, errors: Mapping[bytes, MiniqueueError]) -> None:
        """Say what could not be published, once for as long as it is the same."""
        said = {name: str(error) for name, error in errors.items()}
        if new := [name for name, text in said.items() if self._said.get(name) != text]:
            log.warning(
                "schedules could not publish their messages, which is tried again",
                schedule=new[0],
                error=said[new[0]],
                others=len(new) - 1,
            )
        self._said = said
