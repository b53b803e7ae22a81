"""Schedules across shards: one of a name in all, which the home shard of the name orders.

    GET, FIRE at any door   ─▶ home: FIND, between changes ─▶ the shard that has it
    SET, DELETE at any door ─▶ home: one after the other ─▶ PUT in the shard of the topic, then DROP in all others
                               └─ a shard failed, or the home itself before: `tend` looks for names that are in several

A schedule is stored in the shard of its topic, so that a SET with another topic moves it. It is in two shards in
between, so an interruption leaves two, and not none; one of them is dropped as soon as all shards answer. Whoever has
sent such a SET knows that its outcome is unknown.

If the topic of a schedule gets more parts, the schedule can belong to another shard. It publishes nothing then where it
is, and this shard orders the home to move it:

    PLACE ─▶ home: SHOW in all shards ─▶ TAKE in the right shard, from its next tick on ─▶ LEAVE in the shard before
             └─ several have it, as the home ended in between: the one that publishes keeps it, or the furthest

So each of its ticks has one message, whichever process ends when.

A home sends its steps to each shard over one link. When it opens another, because the one before has failed or the home
is a new process, the shard first drops what it has not read of the one before: no step is late.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import hiredis
import orjson
import structlog

from miniqueue.broker import Broker
from miniqueue.broker.delays.schedules import Shown
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.message.parts import SEPARATOR, part_for, part_name
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.schedule import Schedule, of_members
from miniqueue.errors import InvalidTopicError, MiniqueueError, ProtocolError
from miniqueue.errors.requests import OutcomeUnknownError, ShardAwayError, UnknownScheduleError
from miniqueue.server.shards.links.answering import Answering
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.link import Failure, Link
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.spreading import check_reply, order
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command, encode_command

#: The kinds of the links over which doors order a home, and homes send their steps.
ORDERS: Final = "schedules"
STEPS: Final = "schedule-steps"
#: How often a home looks for schedules that are in several shards, while it does not know that there are none.
TEND_SECONDS: Final = 0.5
#: How many attempts to move schedules fail before that is logged: another shard can hear later of new parts.
FAILURES: Final = 3
#: Maximum number of times that a schedule is looked for, which can move after each.
MAX_LOOKS: Final = 5
DOUBT: Final = "whether the schedule has changed is unknown"
#: The replies to a SET.
CREATED: Final = b"+CREATED\r\n"
REPLACED: Final = b"+REPLACED\r\n"

AnswerT = TypeVar("AnswerT")

log = structlog.get_logger()

#: Lets a shard take a step, and returns its reply. Raises ShardAwayError if it was not taken, OutcomeUnknownError.
Step = Callable[[int, Command], Awaitable[bytes]]


async def order_set(peers: Peers, name: bytes, schedule: Schedule, spread_of: Callable[[bytes], int]) -> bytes:
    """Set a schedule, for the current actor; return CREATED, REPLACED, or the error of its shard.

    `spread_of` returns over how many parts a topic is spread, 0 for others: a schedule of a spread topic is in the
    part of its key, or of its name. Raises InvalidTopicError, InvalidAttributesError, ShardAwayError,
    OutcomeUnknownError.
    """
    if SEPARATOR in schedule.topic:  # no client can name a part
        raise InvalidTopicError
    if part_count := spread_of(schedule.topic):
        part = part_for(schedule.options.key or name, part_count)
        schedule = schedule._replace(topic=part_name(schedule.topic, part))
    return await _order(peers, name, b"SET", *words_of(schedule))


async def order_delete(peers: Peers, name: bytes) -> bytes:
    """Delete a schedule, for the current actor; return OK or an error; raises ShardAwayError, OutcomeUnknownError."""
    return await _order(peers, name, b"DELETE")


async def _order(peers: Peers, name: bytes, word: bytes, *words: bytes) -> bytes:
    command = [word, name, bytes(CURRENT_ACTOR.get()), *words]
    return await order(peers, peers.placing.shard_of(name), command, ORDERS, DOUBT)


async def ask_owner(
    peers: Peers, name: bytes, ask: Callable[[int], Awaitable[AnswerT]], is_missing: Callable[[AnswerT], bool]
) -> AnswerT:
    """Return the answer of the shard with a schedule; of this shard if there is none. Raises ShardAwayError.

    `is_missing` returns whether an answer says that there is none: then it has just moved.
    """
    for _ in range(MAX_LOOKS):
        try:
            reply = await order(peers, peers.placing.shard_of(name), [b"FIND", name], ORDERS)
        except OutcomeUnknownError as exc:  # nothing was changed
            raise ShardAwayError(str(exc)) from exc
        if reply.startswith(b"-"):
            raise ShardAwayError(reply[1:-2].decode("utf-8", "replace"))
        shard = int(reply[1:])
        answer = await ask(peers.placing.number if shard < 0 else shard)
        if shard < 0 or not is_missing(answer):
            break
    return answer


def words_of(schedule: Schedule) -> Command:
    """Return a schedule as the words of an order; raises InvalidAttributesError if its attributes are too long."""
    return [orjson.dumps(schedule.members()), schedule.attributes, schedule.payload]


def _schedule_of(words: Sequence[bytes]) -> Schedule:
    members, attributes, payload = words
    return of_members(orjson.loads(members), payload, attributes)


class Held(NamedTuple):
    """A schedule, as a shard has it.

    Attributes:
      shard: the shard in which it publishes.
      next_at_ms: its next tick.
      words: the words of the step by which another shard takes it over.
    """

    shard: int
    next_at_ms: int
    words: Command


class Home:
    """Orders the schedules whose names belong to this shard.

    Args:
      placing: which shard it is.
      step: lets any shard take a step.
      check: raises ShardAwayError if a shard is known not to answer.
    """

    def __init__(self, placing: Placing, step: Step, check: Callable[[int], None] = lambda _: None) -> None:
        self._check = check
        self._placing = placing
        self._step = step
        self._turn = asyncio.Lock()
        self._has_looked = False
        self._doubtful: dict[bytes, int] = {}  # the shard that was to have the schedule, by name

    async def obey(self, command: Command) -> bytes:
        """Carry out an order of a door; return the reply."""
        try:
            match command:
                case [b"SET", name, actor, *words]:
                    return await self._set(name, actor, words)
                case [b"DELETE", name, actor]:
                    return await self._delete(name, actor)
                case [b"FIND", name]:
                    return replies.integer(await self._find(name))
                case [b"PLACE", name]:
                    async with self._turn:
                        await self._place(name)
                    return replies.OK
            raise ProtocolError(f"an unknown order: {b' '.join(command)[:80]!r}")
        except MiniqueueError as exc:
            return replies.error(exc.code, str(exc))

    async def _set(self, name: bytes, actor: bytes, words: Command) -> bytes:
        owner = self._placing.shard_of(_schedule_of(words).topic)
        others = [shard for shard in self._shards if shard != owner]
        async with self._turn:
            self._check_all()
            was_doubtful = name in self._doubtful
            self._doubtful[name] = owner
            reply = await self._step(owner, [b"PUT", name, actor, *words])
            if reply.startswith(b"-"):
                if not was_doubtful:
                    del self._doubtful[name]
                return reply
            was_elsewhere = await self._drop(others, name, actor)
            del self._doubtful[name]
            return REPLACED if was_elsewhere else reply

    async def _delete(self, name: bytes, actor: bytes) -> bytes:
        async with self._turn:
            self._check_all()
            if not await self._drop(self._shards, name, actor):
                raise UnknownScheduleError
            self._doubtful.pop(name, None)
            return replies.OK

    async def _find(self, name: bytes) -> int:
        """Return the shard that has a schedule, -1 if none has; raises ShardAwayError if that is not known."""
        errors: list[MiniqueueError] = []
        async with self._turn:
            for shard in self._shards:
                try:
                    if await self._step(shard, [b"HAS", name]) == replies.integer(1):
                        return shard
                except MiniqueueError as exc:
                    errors.append(exc)
        if errors:
            raise errors[0].detached()
        return -1

    async def _drop(self, shards: Sequence[int], name: bytes, actor: bytes) -> bool:
        """Drop a schedule in some shards; return whether one had it."""
        was_there = False
        for number, shard in enumerate(shards):
            try:
                reply = await self._step(shard, [b"DROP", name, actor])
            except ShardAwayError as exc:
                if not number and len(shards) == self._placing.shard_count:
                    raise
                raise OutcomeUnknownError(f"shard {shard} does not answer; {DOUBT}") from exc
            if reply.startswith(b"-"):
                raise OutcomeUnknownError(f"shard {shard} has refused: {reply[1:-2].decode('utf-8', 'replace')}")
            was_there = was_there or reply == replies.integer(1)
        return was_there

    def _check_all(self) -> None:
        for shard in self._shards:
            self._check(shard)

    @property
    def _shards(self) -> range:
        return range(self._placing.shard_count)

    # --- after an interruption --------------------------------------------------------------------------------

    async def tend(self) -> None:
        """Drop schedules that are in several shards, until cancelled."""
        while True:
            if self._doubtful or not self._has_looked:
                try:
                    await self.look()
                except MiniqueueError as exc:
                    log.warning("schedules of one name may be in several shards", error=str(exc))
            await asyncio.sleep(TEND_SECONDS)

    async def look(self) -> None:
        """Drop all but one of the schedules of each name; raises MiniqueueError if a shard does not answer."""
        async with self._turn:
            shards_of: dict[bytes, list[int]] = {}
            for shard in self._shards:
                for name in _parsed(await self._step(shard, [b"NAMES", b"%d" % self._placing.number])):
                    shards_of.setdefault(name, []).append(shard)
            for name, shards in shards_of.items():
                if len(shards) > 1:
                    await self._place(name)
            self._doubtful.clear()
            self._has_looked = True

    # --- after the number of parts has changed ----------------------------------------------------------------

    async def _place(self, name: bytes) -> None:
        """Leave a schedule in one shard, that in which it publishes; raises MiniqueueError."""
        held: dict[int, Held] = {}
        for shard in self._shards:
            if words := _parsed(await self._step(shard, [b"SHOW", name])):
                held[shard] = Held(int(words[0]), int(words[1]), words[1:])
        if not held:
            return
        wanted = self._doubtful.get(name)
        kept = wanted if wanted in held else max(held, key=lambda shard: _rank(shard, held[shard]))
        owner = held[kept].shard
        if owner != kept:
            self._check_all()
            self._doubtful[name] = owner
            check_reply(await self._step(owner, [b"TAKE", name, *held[kept].words]))
        for shard in held:
            if shard != owner:
                check_reply(await self._step(shard, [b"LEAVE", name]))
        self._doubtful.pop(name, None)


def _rank(shard: int, held: Held) -> tuple[bool, int]:
    """Return what is highest of the shard that has a schedule as it is now, if others have one that was moved."""
    is_misplaced = held.shard != shard
    return not is_misplaced, held.next_at_ms if is_misplaced else 0


def _parsed(reply: bytes) -> list[bytes]:
    reader = hiredis.Reader()
    reader.feed(reply)
    names = reader.gets()
    if not isinstance(names, list):
        raise ShardAwayError(f"another shard does not show its schedules now: {names}")
    return names


class Steps:
    """Takes the steps of homes in this shard, and sends those of its own home to all.

    Args:
      broker: has the schedules of this shard.
      peers: all shards.
    """

    def __init__(self, broker: Broker, peers: Peers) -> None:
        self._broker = broker
        self._scheduler = broker.scheduler
        self._peers = peers
        self._spread: dict[bytes, int] = {}  # the spread topics when misplaced schedules were looked for
        self._links: dict[int, Link] = {}
        self._answering: dict[str, Answering] = {}
        self._steps: dict[bytes, Callable[..., Awaitable[bytes]]] = {
            b"DROP": self._drop,
            b"HAS": self._has,
            b"LEAVE": self._leave,
            b"NAMES": self._names,
            b"PUT": self._put,
            b"SHOW": self._show,
            b"TAKE": self._take_over,
        }

    async def send(self, shard: int, command: Command) -> bytes:
        """Send a step to a shard, and return its reply; raises ShardAwayError, OutcomeUnknownError."""
        if shard == self._peers.placing.number:
            return await self.take(command)
        link = self._links.get(shard)
        if link is None or link.is_lost:
            link = self._peers.open(shard, Introduction(STEPS, name=str(self._peers.placing.number)))
            self._links[shard] = link
        reply = await link.ask(encode_command(command))
        if reply is Failure.UNSENT:
            raise ShardAwayError(f"shard {shard} does not answer; try again")
        if isinstance(reply, Failure):
            raise OutcomeUnknownError(f"shard {shard} does not answer; {DOUBT}")
        return reply

    def answering(self, home: str) -> Answering:
        """Return the end of a new link from a home; what was not read of the one before is dropped."""
        before = self._answering.get(home)
        if before is not None:
            before.abort()
        self._answering[home] = answering = Answering(self.take)
        return answering

    def close(self) -> None:
        """End the links for the steps of the own home."""
        for link in self._links.values():
            link.close()

    async def take(self, command: Command) -> bytes:
        """Take a step; return the reply."""
        word, *words = command
        try:
            if word not in self._steps:
                raise ProtocolError(f"an unknown step: {b' '.join(command)[:80]!r}")
            return await self._steps[word](*words)
        except MiniqueueError as exc:
            return replies.error(exc.code, str(exc))

    async def _put(self, name: bytes, actor: bytes, *words: bytes) -> bytes:
        CURRENT_ACTOR.set(actor)
        commit, is_new = self._scheduler.set(name, _schedule_of(words))
        await commit.wait()
        return CREATED if is_new else REPLACED

    async def _drop(self, name: bytes, actor: bytes) -> bytes:
        CURRENT_ACTOR.set(actor)
        try:
            commit = self._scheduler.delete(name)
        except UnknownScheduleError:
            return replies.integer(0)
        await commit.wait()
        return replies.integer(1)

    async def _has(self, name: bytes) -> bytes:
        return replies.integer(int(self._scheduler.has(name)))

    async def _names(self, home: bytes) -> bytes:
        names = [name for name in self._scheduler.names if self._peers.placing.shard_of(name) == int(home)]
        return replies.array([replies.bulk(name) for name in names])

    async def _take_over(self, name: bytes, next_at_ms: bytes, boundary_ms: bytes, *words: bytes) -> bytes:
        shown = Shown(_schedule_of(words), int(next_at_ms), int(boundary_ms))
        await self._scheduler.take_over(name, shown).wait()
        return replies.OK

    async def _leave(self, name: bytes) -> bytes:
        await self._scheduler.leave(name).wait()
        return replies.OK

    async def _show(self, name: bytes) -> bytes:
        """Return the shard in which a schedule publishes, and the words of TAKE; nothing if it is not here."""
        try:
            schedule, next_at_ms, boundary_ms = await self._scheduler.show(name)
        except UnknownScheduleError:
            return replies.array([])
        shard = self._peers.placing.shard_of(schedule.topic)
        words = [b"%d" % shard, b"%d" % next_at_ms, b"%d" % boundary_ms, *words_of(schedule)]
        return replies.array(list(map(replies.bulk, words)))

    async def tend(self) -> None:
        """Order that schedules whose part is in another shard are moved there, until cancelled."""
        failure_count = 0
        while True:
            try:
                await self.move()
                failure_count = 0
            except MiniqueueError as exc:
                failure_count += 1
                if failure_count == FAILURES:
                    log.warning("schedules are not in the shards with their parts yet", error=str(exc))
            await asyncio.sleep(TEND_SECONDS)

    async def move(self) -> None:
        """Order that schedules whose part is in another shard are moved there; raises MiniqueueError."""
        spread = dict(self._broker.spread_topics)
        if spread != self._spread:
            await self._scheduler.find_misplaced()
            self._spread = spread
        errors: list[MiniqueueError] = []
        for name in self._scheduler.misplaced:
            home = self._peers.placing.shard_of(name)
            try:
                check_reply(await order(self._peers, home, [b"PLACE", name], ORDERS, DOUBT))
            except MiniqueueError as exc:
                errors.append(exc)
        if errors:
            raise errors[0].detached()
