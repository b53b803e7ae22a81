"""The other shards of this broker, as one process sees them: where they are, and whether they answer.

A process that does not answer is asked nothing: what waits for it is reported as not carried out, or as unknown. It is
asked again twice a second.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import structlog

from miniqueue.core.settings.placing import Placing
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.links.earlier import EarlierParts
from miniqueue.server.shards.links.growth import Growth
from miniqueue.server.shards.links.introduction import Introduction
from miniqueue.server.shards.links.kept import KeptLinks
from miniqueue.server.shards.links.link import Failure, Link
from miniqueue.server.shards.links.part_choice import PartChoice
from miniqueue.server.shards.links.take_choice import TakeChoice
from miniqueue.wire.resp_replies import bulk

#: How often a shard is asked whether it answers.
ASK_SECONDS: Final = 0.5
#: How long it may take: so many pauses, which count as such, however long this process stands still in one of them.
ANSWER_PAUSES: Final = 6
PAUSE_SECONDS: Final = 0.5

ProtocolT = TypeVar("ProtocolT", bound=asyncio.Protocol)

log = structlog.get_logger()


class Peers:
    """All shards of a broker.

    Args:
      placing: the place of this process among them.
      paths: the Unix sockets of the backs, by number of the shard.

    Attributes:
      chance: decides which shard is asked first.
      part_choice: chooses parts of spread topics for messages without keys.
      take_choice: chooses the shard that a RECEIVE of a spread topic asks first.
      report: returns what the others hear with each question, as JSON.
      growth: reports changes of the parts of spread topics to the streams of this process.
      earlier: finds publishes in the parts where they were before such a change.
      spreading: gives orders about spread topics that are given often.
      on_away: called with the number of a shard that has ended, or does not answer any more.
    """

    def __init__(self, placing: Placing, paths: list[Path]) -> None:
        self.placing = placing
        self._paths = paths
        self.chance = Random(placing.number)
        self._away: set[int] = set()
        self.part_choice = PartChoice(placing, self._away)
        self.take_choice = TakeChoice(placing, self.chance)
        self._is_iteration_noted = False
        self.report: Callable[[], bytes] = lambda: b"{}"
        self.on_away: Callable[[int], None] = lambda _: None
        self.growth = Growth()
        self.earlier = EarlierParts(placing, self.open)
        self.spreading = KeptLinks("spread", self.open)
        self._links: dict[Link, int] = {}
        self._opening: set[asyncio.Task[None]] = set()

    def others(self) -> list[int]:
        """Return the numbers of the other shards."""
        return [number for number in range(self.placing.shard_count) if number != self.placing.number]

    def open(self, number: int, introduction: Introduction) -> Link:
        """Return a new link to a shard, which may not be connected yet; raises ShardAwayError."""
        self.check(number)
        return self._open(number, introduction)

    def _open(self, number: int, introduction: Introduction) -> Link:
        link = Link(introduction, self._links.pop)
        self._links[link] = number
        task = asyncio.get_running_loop().create_task(self._connect(link, self._paths[number]))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return link

    def choose_part(self, topic: bytes, part_count: int, message_count: int, commit: object) -> int:
        """Return the part of messages without a key.

        What enters the same commit, or comes in the same iteration, is in one part, so that it is one batch.
        """
        number = self.part_choice.choose(topic, part_count, message_count, commit)
        if self.part_choice.has_distant and not self._is_iteration_noted:
            self._is_iteration_noted = True
            asyncio.get_running_loop().call_soon(self._end_iteration)
        return number

    def _end_iteration(self) -> None:
        self._is_iteration_noted = False
        self.part_choice.end_iteration()

    async def connect_http(self, number: int, make: Callable[[bytes], ProtocolT]) -> ProtocolT:
        """Return a new tunnel to a shard, whose protocol `make` returns for what it sends first; raises OSError."""
        loop, opening = asyncio.get_running_loop(), Introduction("http").encode()
        _, protocol = await loop.create_unix_connection(lambda: make(opening), str(self._paths[number]))
        return protocol

    def check(self, number: int) -> None:
        """Raise ShardAwayError if a shard is known not to answer."""
        if number in self._away:
            raise ShardAwayError(f"shard {number} does not answer; try again")

    async def _connect(self, link: Link, path: Path) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: link, str(path))
        except OSError:
            link.fail()

    async def watch(self) -> None:
        """Ask each other shard whether it answers, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in self.others():
                group.create_task(self._watch(number))

    async def _watch(self, number: int) -> None:
        while True:
            try:
                await self._ask(number)
            except Exception:
                log.exception("a shard could not be watched", other_shard=number)
            await asyncio.sleep(ASK_SECONDS)

    async def _ask(self, number: int) -> None:
        """Ask a shard whether it answers, as long as it does; then give up what waits for it.

        If its process has ended, another one can be there already, so it is asked once more.
        """
        link, has_answered = self._ask_over(number), False
        while True:
            if await _answers(link, self.report()):
                has_answered = True
                self.note_present(number)
                await asyncio.sleep(ASK_SECONDS)
            elif has_answered and link.is_lost:
                link, has_answered = self._ask_over(number), False
            else:
                break
        self.note_away(number)

    def _ask_over(self, number: int) -> Link:
        return self._open(number, Introduction("ping", name=str(self.placing.number)))

    def note_present(self, number: int) -> None:
        """Note that a shard answers."""
        if number in self._away:
            self._away.discard(number)
            log.info("a shard answers again", other_shard=number)

    def note_away(self, number: int) -> None:
        """Give up what waits for a shard that has ended, or does not answer."""
        if number not in self._away:
            self._away.add(number)
            log.warning("a shard does not answer", other_shard=number)
        for lost in [each for each, at in self._links.items() if at == number]:
            lost.fail()
        self.on_away(number)


async def _answers(link: Link, report: bytes) -> bool:
    """Return whether the process at the other end of a link answers in time."""
    if link.is_lost:
        return False
    answer = asyncio.ensure_future(link.ask(b"*2\r\n$4\r\nHEAR\r\n" + bulk(report)))
    try:
        for _ in range(ANSWER_PAUSES):
            if (await asyncio.wait([answer], timeout=PAUSE_SECONDS))[0]:
                return not isinstance(answer.result(), Failure)
        return False
    finally:
        answer.cancel()
