"""Publishes messages repeatedly, at the times that schedules define.

    set ─▶ the schedule and its next tick, with the next commit ─▶ tick: due by now?
                                                                    └ the schedule, from the store
                                                                       └ a message for each tick, and the next tick:
                                                                         one commit ─▶ …

So each tick has exactly one message, whatever happens in between. Memory contains only the name and the next tick of
each schedule. If a message cannot be published now (the topic is full, or paused), the scheduler retries at every tick
of the broker until it can. A tick is missed if the broker could not publish its message at that time; the setting
`missed` of the schedule determines what happens to missed ticks. Ticks are missed before a startup, and while the
broker does not check for too long: the process was stopped, the store failed, or the clock was set. A schedule without
a further tick is deleted, in the commit of its last message.

A schedule of a spread topic publishes in the part of its key, or of its name, by the number of parts that this shard
knows. If this part is in another shard, as the topic got more parts, the schedule is misplaced: it publishes nothing
until it has moved there (`show`, `take_over`, `leave`), with its next tick.
"""

import heapq
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import structlog

from miniqueue.broker.commit.backpressure import Backpressure
from miniqueue.broker.commit.journal import Accepted, Commit
from miniqueue.broker.delays.recurrence import NEVER_MS, due_ticks_ms, first_tick_ms
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.runtime.clock import is_gap
from miniqueue.broker.runtime.notices import NoticeKind
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR, SingleTask
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.message.parts import part_for, part_name, whole_of
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.schedule import Missed, Schedule, check_new_schedule_name
from miniqueue.errors import MiniqueueError, PayloadTooLargeError, UnavailableError
from miniqueue.errors.requests import ShardAwayError, UnknownScheduleError
from miniqueue.storage.format import schedules, values

log = structlog.get_logger()

#: Maximum number of ticks of a schedule that are published at once; earlier due ticks have no message.
MAX_TICKS = 1000
#: Maximum size and number of the messages that one commit publishes of one schedule; it publishes at least one.
MAX_BYTES_PER_COMMIT = 1 << 20
MAX_TICKS_PER_COMMIT = 100
PAGE_BYTES = 1 << 20
#: Headers of each message, before those of the schedule: the name of its schedule, and the time of its tick.
SCHEDULE_HEADER = b"schedule"
TICK_HEADER = b"schedule-at-ms"


class Listed(NamedTuple):
    """A schedule as it is now.

    Attributes:
      name: the name of the schedule.
      schedule: its rule and its message.
      next_at_ms: its next tick.
    """

    name: bytes
    schedule: Schedule
    next_at_ms: int


class Shown(NamedTuple):
    """A schedule as it moves to another shard.

    Attributes:
      schedule: its rule and its message, with the topic, or the part, in which it is to publish.
      next_at_ms: its next tick; while the part is in another shard, there is no message of this tick or a later one.
      boundary_ms: ticks up to this time without a message are missed.
    """

    schedule: Schedule
    next_at_ms: int
    boundary_ms: int


class Scheduler:
    """Stores schedules, and publishes their messages.

    Args:
      engine: contains the store, and commits changes.
      backpressure: makes a publish wait until there is room for it.
      publish: publishes one message.
      max_payload_bytes: maximum size of a payload.
      period_seconds: time between two calls of `tick`.
    """

    def __init__(
        self,
        engine: Engine,
        backpressure: Backpressure,
        publish: Callable[[bytes, bytes, PublishOptions], Accepted],
        max_payload_bytes: int,
        period_seconds: float,
    ) -> None:
        self._journal = engine.journal
        self._notices = engine.notices
        self._clock = engine.clock
        self._backpressure = backpressure
        self._publish = publish
        self._waking = engine.waking
        self._max_payload_bytes = max_payload_bytes
        self._limits = engine.limits
        self._topics = engine.topics
        self.period_ms = round(1000 * period_seconds)
        self._next: dict[bytes, int] = {}  # the next tick of each schedule, by name
        self._heap: list[tuple[int, bytes]] = []  # next ticks, the earliest first; also outdated entries
        self._looked_until_ms: int | None = None  # ticks up to this time without a message are missed
        self._last_look_ms = 0  # last time at which ticks could be published
        self._misplaced: dict[bytes, int] = {}  # those of parts in other shards, with the `boundary_ms` of each
        self._moved: dict[bytes, int] = {}  # the `boundary_ms` of those that another shard had, until they publish
        self._publishing = SingleTask(engine.spawn)
        self._said: dict[bytes, str] = {}

    @property
    def count(self) -> int:
        """Number of schedules."""
        return len(self._next)

    def has(self, name: bytes) -> bool:
        """Return whether there is a schedule with a name."""
        return name in self._next

    @property
    def names(self) -> list[bytes]:
        """The names of all schedules."""
        return list(self._next)

    def restored(self, content: StoreContent) -> None:
        """Replace the schedules in memory by the content of the store, at startup and after a fault."""
        self._next = dict(content.ticks)
        self._rebuild()
        if self._looked_until_ms is None:
            self._looked_until_ms = self._last_look_ms = self._clock.now_ms()

    # --- requests of clients --------------------------------------------------------------------------------------

    def set(self, name: bytes, schedule: Schedule) -> tuple[Commit, bool]:
        """Add or replace a schedule; return the commit that makes it durable, and whether the schedule is new.

        Its first tick is in the future. If this raises, nothing was changed:
          InvalidOptionError: the name, the rule, the time zone, or the end is invalid.
          InvalidTopicError, PayloadTooLargeError.
          InvalidAttributesError: the headers and the key are too long together.
          LimitReachedError: the maximum number of schedules is reached.
          FullError, ReadOnlyError, DrainingError: nothing can be stored now.
        """
        self._journal.admission.check()
        check_new_schedule_name(name)
        self._topics.check_name(schedule.topic)
        if len(schedule.payload) > self._max_payload_bytes:
            raise PayloadTooLargeError(len(schedule.payload), self._max_payload_bytes)
        tick_ms = first_tick_ms(schedule, self._clock.now_ms())
        _options_at(name, schedule, tick_ms).attributes(tick_ms).encode()  # Each message must fit.
        is_new = name not in self._next
        if is_new:
            self._limits.admit_schedule(len(self._next))
        self._journal.change({schedules.schedule(name): schedules.encode_schedule(schedule)})
        self._moved.pop(name, None)
        self._go_on_at(name, tick_ms)
        self._wait_for(name)
        if len(self._heap) > 2 * len(self._next) + MAX_TICKS:
            self._rebuild()  # Most of its entries are outdated.
        self._notices.report(NoticeKind.SCHEDULE_SET, schedule=name.decode("utf-8", "replace"))
        return self._commit(), is_new

    def delete(self, name: bytes) -> Commit:
        """Remove a schedule; return the commit that makes this durable.

        Raises UnknownScheduleError, or UnavailableError: nothing can be changed now.
        """
        self._journal.admission.check_change()
        if name not in self._next:
            raise UnknownScheduleError
        return self._remove(name)

    async def fire(self, name: bytes) -> Accepted:
        """Publish the message of a schedule now, in addition to its ticks; return it, not yet durable.

        Raises UnknownScheduleError, UnavailableError, StorageError, or as `Publisher.publish_with`.
        """
        listed = await self.get(name)
        schedule, options = listed.schedule, _options_at(name, listed.schedule, self._clock.now_ms())
        await self._waking.wake_named([schedule.topic])
        topic = self._here(name, schedule)
        return await self._backpressure.admit(partial(self._publish, topic, schedule.payload, options))

    async def get(self, name: bytes) -> Listed:
        """Return a schedule; raises UnknownScheduleError, UnavailableError or StorageError."""
        return await self._journal.epoch.repeat(partial(self._get, name))

    async def _get(self, name: bytes) -> Listed:
        self._journal.admission.check_change()
        await self._journal.committer.flush()
        value = await self._journal.store.get(schedules.schedule(name))
        next_at_ms = self._next.get(name)
        if value is None or next_at_ms is None:
            raise UnknownScheduleError
        return Listed(name, schedules.decode_schedule(value), next_at_ms)

    async def page(self, after: bytes = b"", max_count: int = MAX_TICKS) -> list[Listed]:
        """Return the next schedules with names after `after`, by name; an empty list only if there are no more.

        Raises UnavailableError or StorageError.
        """
        return await self._journal.epoch.repeat(partial(self._page, after, max_count))

    async def _page(self, after: bytes, max_count: int) -> list[Listed]:
        self._journal.admission.check_change()
        await self._journal.committer.flush()
        start, stop = schedules.schedules(after)
        pairs = await self._journal.store.scan(start, stop, max_items=max_count, max_bytes=PAGE_BYTES)
        named = [(schedules.name_of(key), value) for key, value in pairs]
        return [
            Listed(name, schedules.decode_schedule(value), next_at_ms)
            for name, value in named
            if (next_at_ms := self._next.get(name)) is not None
        ]

    def _remove(self, name: bytes) -> Commit:
        self._notices.report(NoticeKind.SCHEDULE_DELETED, schedule=name.decode("utf-8", "replace"))
        return self.leave(name)

    def _commit(self) -> Commit:
        self._journal.committer.request()
        return self._journal.committer.open

    # --- schedules whose part is in another shard -----------------------------------------------------------------

    @property
    def misplaced(self) -> list[bytes]:
        """The names of schedules that are known to have their part in another shard."""
        return [name for name in self._misplaced if name in self._next]

    async def find_misplaced(self) -> None:
        """Look for schedules whose part is in another shard now; raises UnavailableError or StorageError."""
        after = b""
        while page := await self.page(after):
            for name, schedule, _ in page:
                self._is_misplaced(name, schedule)
            after = page[-1].name

    async def show(self, name: bytes) -> Shown:
        """Return a schedule as it can move; raises UnknownScheduleError, UnavailableError or StorageError.

        If it is misplaced, everything that it has published is durable, and so is what this shard knows of the topic.
        """
        schedule = (await self.get(name)).schedule
        schedule = schedule._replace(topic=self._place_of(name, schedule))
        self._is_misplaced(name, schedule)
        await self._journal.committer.flush()
        if name not in self._next:  # it was deleted in the meantime
            raise UnknownScheduleError
        return Shown(schedule, self._next[name], self._misplaced.get(name, 0))

    def take_over(self, name: bytes, shown: Shown) -> Commit:
        """Add a schedule that another shard has shown; return the commit that makes it durable.

        Raises FullError, ReadOnlyError, DrainingError, or as `Topics.check_name`: nothing was changed.
        """
        self._journal.admission.check()
        self._topics.check_name(shown.schedule.topic)
        self._journal.change({schedules.schedule(name): schedules.encode_schedule(shown.schedule)})
        self._go_on_at(name, shown.next_at_ms)
        self._wait_for(name)
        self._misplaced.pop(name, None)
        if not is_gap((self._clock.now_ms() - shown.boundary_ms) / 1000, self.period_ms / 1000):
            self._moved[name] = shown.boundary_ms
        return self._commit()

    def leave(self, name: bytes) -> Commit:
        """Remove a schedule that another shard has taken over; return the commit that makes this durable."""
        for by_name in (self._next, self._misplaced, self._moved):
            by_name.pop(name, None)
        self._journal.change({schedules.schedule(name): None, schedules.tick(name): None})
        return self._commit()

    def _place_of(self, name: bytes, schedule: Schedule) -> bytes:
        """Return the topic in which a schedule publishes: if its topic is spread, a part."""
        whole = whole_of(schedule.topic)
        part_count = 0 if whole == schedule.topic else self._topics.spread_of(whole)
        return part_name(whole, part_for(schedule.options.key or name, part_count)) if part_count else schedule.topic

    def _is_misplaced(self, name: bytes, schedule: Schedule) -> bool:
        is_misplaced = self._topics.is_elsewhere(self._place_of(name, schedule))
        if is_misplaced:
            self._misplaced.setdefault(name, self._looked_until_ms or 0)
        else:
            self._misplaced.pop(name, None)
        return is_misplaced

    def _here(self, name: bytes, schedule: Schedule) -> bytes:
        """Return the topic in which a schedule publishes now; raises ShardAwayError if it is misplaced."""
        if self._is_misplaced(name, schedule):
            raise ShardAwayError("the schedule moves to the shard with another part of its topic; try again")
        return self._place_of(name, schedule)

    # --- what is due ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Start to publish the ticks that are due by now, if there are any."""
        if not self._journal.admission.may_change:
            return
        now_ms = self._clock.now_ms()
        if now_ms < self._last_look_ms:  # The clock was set back.
            self._looked_until_ms = min(self._looked_until_ms or 0, now_ms)
        if is_gap((now_ms - self._last_look_ms) / 1000, self.period_ms / 1000):
            self._looked_until_ms = now_ms - self.period_ms  # Ticks in the last period are not late.
        self._last_look_ms = now_ms
        if self._publishing.is_running:
            return
        if self._heap and self._heap[0][0] <= now_ms:
            self._publishing.start(self._run(now_ms))
        else:
            self._looked_until_ms = now_ms

    async def _run(self, now_ms: int) -> None:
        """Publish the ticks that are due; retry ticks that cannot be published at the next tick of the broker."""
        errors: dict[bytes, MiniqueueError] = {}
        try:
            await self._journal.committer.flush()  # Afterwards, the store contains schedules that were just set.
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
            pass  # The store is being reopened; then `restored` starts again.
        finally:
            for name in errors:
                self._wait_for(name)
            self._tell(errors)

    def _wait_for(self, name: bytes) -> None:
        if (next_at_ms := self._next.get(name)) is not None:
            heapq.heappush(self._heap, (next_at_ms, name))

    async def _fire(self, name: bytes, due_at_ms: int, now_ms: int) -> None:
        """Publish the messages of one schedule; raises MiniqueueError if some could not be published."""
        value = await self._journal.store.get(schedules.schedule(name))
        if value is None or self._next.get(name) != due_at_ms:
            return  # The schedule was changed in the meantime.
        schedule = schedules.decode_schedule(value)
        ticks_ms, next_at_ms = due_ticks_ms(schedule, due_at_ms, now_ms, MAX_TICKS)
        self._here(name, schedule)
        ticks_ms = self._wanted(schedule, ticks_ms, self._moved.pop(name, None))
        step = max(1, min(MAX_TICKS_PER_COMMIT, MAX_BYTES_PER_COMMIT // (len(schedule.payload) + 1)))
        stops_ms = [*ticks_ms[step::step], next_at_ms]
        for number, stop_ms in enumerate(stops_ms):
            some_ms = ticks_ms[number * step : (number + 1) * step]
            if some_ms:
                await self._waking.wake_named([schedule.topic])
            await self._backpressure.admit(partial(self._publish_some, name, schedule, (due_at_ms, stop_ms), some_ms))
            due_at_ms = stop_ms

    def _wanted(self, schedule: Schedule, ticks_ms: list[int], boundary_ms: int | None) -> list[int]:
        """Return the ticks that are to have a message, according to the setting `missed` of the schedule.

        Ticks up to `boundary_ms` are missed; None: those for which this shard has looked before.
        """
        boundary_ms = (self._looked_until_ms or 0) if boundary_ms is None else boundary_ms
        missed = [tick_ms for tick_ms in ticks_ms if tick_ms <= boundary_ms]
        kept_count = {Missed.ALL: len(missed), Missed.ONE: 1, Missed.NONE: 0}[schedule.missed]
        return ticks_ms[max(0, len(missed) - kept_count) :]

    def _publish_some(self, name: bytes, schedule: Schedule, span_ms: tuple[int, int], ticks_ms: list[int]) -> None:
        """Publish messages for some ticks; move the next tick from the start of the span to its end, in one commit."""
        start_ms, stop_ms = span_ms
        if self._next.get(name) != start_ms:
            return  # The schedule was changed in the meantime.
        topic = self._here(name, schedule)
        for tick_ms in ticks_ms:
            token = CURRENT_ACTOR.set(b"schedule " + name)
            try:
                self._publish(topic, schedule.payload, _options_at(name, schedule, tick_ms))
            except MiniqueueError:
                self._go_on_at(name, tick_ms)
                raise
            finally:
                CURRENT_ACTOR.reset(token)
        self._go_on_at(name, stop_ms)

    def _go_on_at(self, name: bytes, next_at_ms: int) -> None:
        if next_at_ms == NEVER_MS:
            self._remove(name)
        elif self._next.get(name) != next_at_ms:
            self._next[name] = next_at_ms
            self._journal.change({schedules.tick(name): values.encode_number(next_at_ms)})
            self._journal.committer.request()

    def _rebuild(self) -> None:
        self._heap = [(next_at_ms, name) for name, next_at_ms in self._next.items()]
        heapq.heapify(self._heap)

    def _tell(self, errors: Mapping[bytes, MiniqueueError]) -> None:
        """Log which schedules could not publish; log each error once, until it changes. Misplaced ones are moved."""
        said = {name: str(error) for name, error in errors.items() if name not in self._misplaced}
        if new := [name for name, text in said.items() if self._said.get(name) != text]:
            log.warning(
                "schedules could not publish their messages, which is tried again",
                schedule=new[0],
                error=said[new[0]],
                others=len(new) - 1,
            )
        self._said = said


def _options_at(name: bytes, schedule: Schedule, tick_ms: int) -> PublishOptions:
    """Return the options of the message of a tick."""
    own = (SCHEDULE_HEADER, name), (TICK_HEADER, b"%d" % tick_ms)
    return schedule.options._replace(headers=own + schedule.options.headers)
