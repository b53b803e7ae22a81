"""Spread topics across shards: the home shard, which is that of the plain name, brings its settings to all others.

    TOPIC CREATE orders SPREAD 4 ─▶ home: the topic, with its settings, is durable ─▶ CREATE orders SPREAD 4
                                     └─▶ each other shard: the same topic, which is empty, so that its doors know it
                                     └─▶ each part: created, or changed, in its shard
                                         └─ one is refused, as if it has no room for topics: the door orders ERASE
    TOPIC SET orders.dlq …       ─▶ BEGIN orders.dlq: home: a topic with as many parts, whose settings can then be set
    TOPIC DELETE orders          ─▶ ERASE orders, home: the topic is deleted, and that there are still parts is durable
                                     └─▶ each shard: CLEAR orders: the topic, the parts, and their dead letters
                                     └─▶ home: there are no parts anymore

Each step can be repeated. What the home shard stores, settings or a deletion, is the intent: `tend` completes what a
crash interrupted, and what was changed otherwise. A new topic gets its parts after a deleted one has lost its own. Only
doors order this, over a link of its own kind, after they have checked the rights.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import orjson
import structlog

from miniqueue.access.users import User
from miniqueue.broker import Broker
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.message.parts import parse_part, part_name, whole_of
from miniqueue.core.options.topic_choice import TopicChoice
from miniqueue.core.settings.placing import origin_of
from miniqueue.core.settings.settings import BY_GROUP, DEAD_LETTER_SUFFIX, TopicSettings, of_members
from miniqueue.core.settings.spreading import settings_of_part
from miniqueue.errors import GroupExistsError, MiniqueueError, ProtocolError, RequestError, UnknownTopicError
from miniqueue.errors.requests import OutcomeUnknownError, RefusedPartError, ShardAwayError, TopicExistsError
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.link import Failure
from miniqueue.server.shards.links.peers import Peers
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command, encode_command

#: The kind of the links over which a shard is ordered to do this.
KIND: Final = "spread"
DOUBT: Final = "whether all parts have changed is unknown"
#: How often spread topics are looked at that a crash, or a shard that was away, has left incomplete.
TEND_SECONDS: Final = 0.5

log = structlog.get_logger()


async def order(peers: Peers, shard: int, command: Sequence[bytes], kind: str = KIND, doubt: str = DOUBT) -> bytes:
    """Return the reply of a shard to an order of some kind; raises ShardAwayError, OutcomeUnknownError with `doubt`."""
    link = peers.open(shard, Introduction(kind))
    try:
        reply = await link.ask(encode_command([*command]))
    finally:
        link.close_when_answered()
    if reply is Failure.UNSENT:
        raise ShardAwayError(f"shard {shard} does not answer; try again")
    if isinstance(reply, Failure):
        raise OutcomeUnknownError(f"shard {shard} does not answer; {doubt}")
    return reply


def uses_group(broker: Broker, name: bytes, group: bytes) -> bool:
    """Return whether it is known here that all parts of a spread topic have a group."""
    if group == DEFAULT_GROUP_NAME:
        return True
    groups = list(filter(None, map(broker.groups.names, broker.parts_here(name))))  # dead letters lack some parts
    return bool(groups) and all(group in each for each in groups)


async def use_group(broker: Broker, peers: Peers, name: bytes, group: bytes) -> None:
    """Create a group in all parts of a spread topic as its first use does; raises MiniqueueError.

    The group must not lose what others settle in a part from which it has got nothing yet. If the parts of this shard
    have it, so have the others: it was created in them first. A shard without a part asks the home of the topic, which
    has one. The default group begins with each part.
    """
    if uses_group(broker, name, group):
        return
    has_groups = any(map(broker.groups.names, broker.parts_here(name)))
    home, own = peers.placing.shard_of(name), peers.placing.number
    if not has_groups and home != own:
        check_reply(await peers.spreading.ask(home, [b"USE-EVERYWHERE", name, group]))
        return
    for shard in [*peers.others(), own]:
        check_reply(await order(peers, shard, [b"USE", name, group]))


async def enter_by_patterns(
    broker: Broker, choice: TopicChoice, user: User | None, enter: Callable[[bytes], Awaitable[None]]
) -> None:
    """Call `enter` for each spread topic that fits a pattern of a choice, and that the user may consume.

    A topic that refuses is left out, as any that fits a pattern. Raises UnavailableError.
    """
    if not choice.beginnings or not broker.spread_topics:
        return
    fitting = dict.fromkeys(map(whole_of, choice.among(broker.topics())))
    names = sorted(name for name in fitting if broker.spread_of(name) and name not in choice.names)
    for name in names if user is None else user.consumable(names):
        with suppress(RequestError):
            await enter(name)


def check_reply(reply: bytes) -> None:
    """Raise RefusedPartError if a reply is an error."""
    if reply.startswith(b"-"):
        raise RefusedPartError(*reply[1:-2].decode("utf-8", "replace").split(" ", 1))


class Spreading:
    """Keeps the spread topics of this shard complete.

    Args:
      broker: the broker of this shard.
      peers: all shards.
    """

    def __init__(self, broker: Broker, peers: Peers) -> None:
        self._broker = broker
        self._peers = peers
        self._turn = asyncio.Lock()
        self._setting = asyncio.Lock()  # if partitions are made first, later settings are set after them
        self._complete: dict[bytes, TopicSettings] = {}  # the settings that all shards had, by topic
        self._unfinished: dict[bytes, Sequence[bytes]] = {}  # the settings in creations that have not succeeded yet
        self._said: dict[bytes, str] = {}  # why a topic is not complete, as it was logged
        self._orders: dict[bytes, Callable[..., Awaitable[None]]] = {
            b"ASSUME": self._assume,
            b"BEGIN": self.begin,
            b"CLEAR": self._clear,
            b"COMPLETE": self.complete,
            b"CREATE": self._create,
            b"ERASE": self.erase,
            b"GROUPS": self._create_groups,
            b"RETRY": self._retry,
            b"USE": self._use_group,
            b"USE-EVERYWHERE": self._use_everywhere,
        }

    async def obey(self, command: Command) -> bytes:
        """Carry out an order; return the reply."""
        word, *words = command
        try:
            if word not in self._orders:
                raise ProtocolError(f"an unknown order: {b' '.join(command)[:80]!r}")
            await self._orders[word](*words)
        except MiniqueueError as exc:
            return replies.error(exc.code, str(exc))
        return replies.OK

    async def _assume(self, name: bytes, members: bytes) -> None:
        """Set what a topic of another shard, or a part of it, has; if it has more parts now, its streams end."""
        settings, had = of_members(orjson.loads(members), name), self._broker.spread_of(name)
        await self._set(name, settings)
        if settings.spread != had:
            self._peers.growth.report(name)

    async def _set(self, name: bytes, settings: TopicSettings) -> None:
        admin = self._broker.admin
        async with self._setting:
            commit = await admin.carry_out(partial(admin.assume, name, settings))
        await commit.wait()

    async def complete(self, name: bytes) -> None:
        """Bring the settings of a spread topic of this shard to all shards and parts; raises MiniqueueError."""
        async with self._turn:
            if name in self._broker.admin.erasures:
                await self._erase_parts(name)
            await self._bring(name)
            letters, spread = name + DEAD_LETTER_SUFFIX, self._broker.spread_of(name)
            if self._broker.spread_topics.get(letters, spread) != spread:  # they have as many parts
                before = self._broker.admin.settings_of(name).spread_before
                grown = self._broker.admin.settings_of(letters)._replace(spread=spread, spread_before=before)
                await self._set(letters, grown)
                await self._bring(letters)

    async def _create(self, name: bytes, *words: bytes) -> None:
        """Complete a topic that was just created with these settings.

        Until this has succeeded, the same creation may be repeated, as TRYAGAIN tells its client to.
        """
        self._unfinished[name] = words
        await self.complete(name)
        self._unfinished.pop(name, None)

    async def _retry(self, name: bytes, *words: bytes) -> None:
        if self._unfinished.get(name) != words:
            raise TopicExistsError
        await self._create(name, *words)

    async def _bring(self, name: bytes) -> None:
        """Bring the settings of a spread topic to all shards and parts."""
        settings = self._broker.admin.settings_of(name)
        part = _encode(self._settings_of_part(name, settings))
        if name in self._complete and self._complete[name].spread != settings.spread:
            self._peers.growth.report(name)
        had = self._complete[name].spread if name in self._complete else 0
        if not had:
            await self._bring_elsewhere(name, settings)
        for number in range(settings.spread):
            await self._order_part(b"ASSUME", part_name(name, number), part)
        first = part_name(name, 0)  # it is in this shard
        groups = [group for group in self._broker.groups.names(first) if group != DEFAULT_GROUP_NAME]
        for number in range(had, settings.spread if groups else 0):
            await self._order_part(b"GROUPS", part_name(name, number), *groups)
        if had:  # messages that enter new parts find their groups there
            await self._bring_elsewhere(name, settings)
        self._complete[name] = settings

    async def _bring_elsewhere(self, name: bytes, settings: TopicSettings) -> None:
        for shard in self._peers.others():
            await self._order(shard, b"ASSUME", name, _encode(settings))

    def _settings_of_part(self, name: bytes, settings: TopicSettings) -> TopicSettings:
        """Return the settings of each part: those of groups are the same in all parts."""
        part, first = settings_of_part(settings), part_name(name, 0)
        if not self._broker.groups.names(first):
            return part
        own = self._broker.admin.settings_of(first)
        return part._replace(**{each: getattr(own, each) for each in BY_GROUP if not getattr(part, each)})

    async def _create_groups(self, part: bytes, *groups: bytes) -> None:
        for group in groups:
            with suppress(GroupExistsError):
                await self._broker.groups.create(part, group)

    async def _use_group(self, name: bytes, group: bytes) -> None:
        for part in self._broker.parts_here(name):
            with suppress(UnknownTopicError):  # a part of dead letters, which begins with the first of them
                await self._broker.groups.use(part, group)

    async def _use_everywhere(self, name: bytes, group: bytes) -> None:
        await use_group(self._broker, self._peers, name, group)

    async def begin(self, name: bytes) -> None:
        """Give the dead letters of a spread topic of this shard settings of their own; raises MiniqueueError."""
        if name not in self._broker.spread_topics:
            settings = self._broker.admin.settings_of_new(name)._replace(spread=self._broker.spread_of(name))
            await self._set(name, settings)

    async def erase(self, name: bytes) -> None:
        """Delete a spread topic of this shard, with its dead letters, in all shards.

        Raises MiniqueueError, after which `tend` continues. Not with the dead letters of a topic that remains: others
        can arrive meanwhile.
        """
        async with self._turn:
            if origin_of(name) == name:
                await self._broker.admin.begin_erasure(name).wait()
            await self._erase_parts(name)

    async def _erase_parts(self, name: bytes) -> None:
        """Delete the parts of a spread topic of this shard that was deleted."""
        self._complete = {topic: had for topic, had in self._complete.items() if not _is_of(topic, name)}
        self._unfinished.pop(name, None)
        for shard in (*self._peers.others(), self._peers.placing.number):
            await self._order(shard, b"CLEAR", name)
        await self._broker.admin.end_erasure(name).wait()

    async def _clear(self, name: bytes) -> None:
        """Delete what this shard has of a spread topic and its dead letters, except a new topic that has its name."""
        is_new = origin_of(name) == name and self._peers.placing.has(name)
        wholes = [each for each in self._broker.spread_topics if _is_of(each, name) and not (is_new and each == name)]
        parts = [each for each in self._broker.topics() if (part := parse_part(each)) and _is_of(part[0], name)]
        await asyncio.gather(*[self._broker.delete_topic(each) for each in (*parts, *wholes)])
        for each in (name, *wholes):
            self._peers.growth.report(each)

    async def tend(self) -> None:
        """Complete the spread topics of this shard that are not, until cancelled."""
        while True:
            own = [name for name in self._broker.spread_topics if self._peers.placing.has(name)]
            for name in {*own, *self._broker.admin.erasures}:
                try:
                    await self._tend(name)
                except MiniqueueError as exc:
                    if self._said.get(name) != str(exc):
                        self._said[name] = str(exc)
                        log.warning("a spread topic is not complete yet", topic=name.decode(), error=str(exc))
                else:
                    self._said.pop(name, None)
            await asyncio.sleep(TEND_SECONDS)

    async def _tend(self, name: bytes) -> None:
        if name in self._broker.admin.erasures:
            async with self._turn:
                await self._erase_parts(name)
        if name in self._broker.spread_topics and self._complete.get(name) != self._broker.admin.settings_of(name):
            await self.complete(name)

    async def _order_part(self, word: bytes, part: bytes, *words: bytes) -> None:
        await self._order(self._peers.placing.shard_of(part), word, part, *words)

    async def _order(self, shard: int, *command: bytes) -> None:
        is_own = shard == self._peers.placing.number
        check_reply(await (self.obey([*command]) if is_own else order(self._peers, shard, command)))


def _is_of(topic: bytes, name: bytes) -> bool:
    """Return whether a topic is `name`, or has its dead letters, or theirs."""
    while topic != name and topic.endswith(DEAD_LETTER_SUFFIX):
        topic = topic.removesuffix(DEAD_LETTER_SUFFIX)
    return topic == name


def _encode(settings: TopicSettings) -> bytes:
    return orjson.dumps(settings.members())
