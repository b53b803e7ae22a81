"""A transaction at a door: kept there until EXEC, and then carried out by the shard that has all of its topics.

    MULTI ─ commands, each checked and queued ─┬─ a topic of a second shard ─▶ CROSSSHARD; EXEC aborts
                                               └─ EXEC ─┬─ own topics, or none ─▶ as without shards
                                                        └─ of another shard ─▶ MULTI, the commands, EXEC, in one batch

A client that leaves before EXEC leaves nothing behind in any shard. In a transaction of another shard, commands without
a topic, such as TOPICS, show what that shard has.

A command for a spread topic concerns the part of its key, or of its receipts. What has neither enters any part in the
shard of the transaction. After the topic got more parts, a publish that can be known in another part is looked for
there before it is queued. So a transaction that is repeated is the one that it was, or is refused.
"""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from miniqueue.broker import Broker
from miniqueue.core.message.parts import part_for, part_name
from miniqueue.core.options.publish import without_digest
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.spreading import NEVER_GREW, Earlier
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import CrossShardError, ShardAwayError, SpreadTopicError
from miniqueue.server.resp.commands import table
from miniqueue.server.resp.commands.context import Client, answer_later
from miniqueue.server.resp.commands.transaction import QUEUED, Transaction
from miniqueue.server.shards.links.earlier import Published, needs_to_ask
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.resp.parts import batches, parting
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import Run
from miniqueue.wire.resp_replies import OK


class Place(NamedTuple):
    """What a command in a transaction concerns.

    Attributes:
      shard: the number of the shard that carries it out.
      topic: the topic.
      command: the command as this shard carries it out.
    """

    shard: int
    topic: bytes
    command: Command | Run


class Places:
    """The places of the commands of a connection.

    Args:
      broker: knows the spread topics.
      peers: all shards.
      topic_of: returns the topic that a command concerns, and its shard; None if it concerns none. Raises RequestError.
    """

    def __init__(
        self, broker: Broker, peers: Peers, topic_of: Callable[[Command | Run], tuple[int, bytes] | None]
    ) -> None:
        self.part_count_of = broker.spread_of
        self._earlier_of = broker.earlier_of
        self._peers = peers
        self._topic_of = topic_of

    def place_of(self, command: Command | Run, shard: int | None, part_count: int = 0) -> Place | None:
        """Return the place of a command in a transaction of a shard, None if it has none; None for no topic.

        `part_count`: among how many parts the command has its place; 0: as many as there are. Raises RequestError, or
        SpreadTopicError.
        """
        shard_and_topic = self._topic_of(command)
        if shard_and_topic is None:
            return None
        own, topic = shard_and_topic
        count = part_count or self.part_count_of(topic)
        if not count:
            return Place(own, topic, command)
        earlier = self._earlier_of(topic)
        if earlier.counts and isinstance(command, list) and parting.is_cut(command):
            command = [*command[:2], earlier.batch_id(command[2], count), *command[3:]]
        return _place_in(self._peers.placing, topic, count, command, shard)

    def look(self, command: Command) -> Coroutine[Any, Any, int] | None:
        """Return what finds among how many parts a publish has its place, if it can be known where it was before.

        That raises ShardAwayError. Raises RequestError.
        """
        shard_and_topic = self._topic_of(command)
        earlier = NEVER_GREW if shard_and_topic is None else self._earlier_of(shard_and_topic[1])
        if shard_and_topic is None or not earlier.counts:
            return None
        topic, published = shard_and_topic[1], parting.published_by(command)
        part_count = self.part_count_of(topic)
        if published is None or not needs_to_ask(part_count, earlier, published):
            return None
        return self._find(topic, part_count, earlier, published)

    async def _find(self, topic: bytes, part_count: int, earlier: Earlier, published: Published) -> int:
        [count] = await self._peers.earlier.counts(topic, part_count, earlier, [published])
        return count


def _place_in(placing: Placing, topic: bytes, part_count: int, command: Command | Run, shard: int | None) -> Place:
    """Return the place of a command for a spread topic, in a transaction of a shard, None if it has none yet.

    Raises RequestError, or SpreadTopicError if the command concerns several parts.
    """
    number = None if isinstance(command, Run) else _part_of(topic, command, part_count)
    if number is None:
        start, parts = parting.turn(), range(part_count)
        in_turn = [(start + each) % part_count for each in parts]
        beside = [each for each in in_turn if shard in (None, placing.shard_of(part_name(topic, each)))]
        number = (beside or in_turn)[0]
    part = part_name(topic, number)
    own = Run([command.head[0], part], command.lasts) if isinstance(command, Run) else parting.renamed(command, part)
    return Place(placing.shard_of(part), topic, own)


def _part_of(topic: bytes, command: Command, part_count: int) -> int | None:
    """Return the only part that a command concerns; None if any part will do."""
    word = command[0].upper()
    if word in (b"PUBLISH", b"MPUBLISH"):
        return None
    if word == b"PUB":
        return parting.part_by_key(command, part_count)
    if word in (b"PUBBATCH", b"PUBEACH", b"PUBPACKED") and len(command) > 2:
        is_keyed = word in parting.PARSERS and len(command) >= batches.LEAST_WORDS
        keys = parting.PARSERS[word](command[3:])[1].keys if is_keyed else ()
        wanted = {part_for(key, part_count) for key in keys if key}
        if command[2] and (not keys or not all(keys)):
            wanted.add(part_for(without_digest(command[2]), part_count))
        if len(wanted) < 2:
            return wanted.pop() if wanted else None
    elif (number := parting.part_of(command, part_count, lambda _: 0)) is not None:
        return number
    raise SpreadTopicError(topic, f"{word.decode('utf-8', 'replace')} in a transaction")


class DoorTransaction(Transaction):
    """Queues the commands of a connection, which are of one shard.

    Args:
      client: the client that sent MULTI.
      own: the number of the shard of this process.
      places: has the place of each command.
      pass_on: carries out the commands in another shard, from MULTI to EXEC.
    """

    def __init__(
        self, client: Client, own: int, places: Places, pass_on: Callable[[int, list[Command | Run]], None]
    ) -> None:
        super().__init__(client, table.check_queued, table.carry_out_queued, table.execute)
        self._connection = client
        self._own = own
        self._places = places
        self._pass_on = pass_on
        self._place: Place | None = None
        self._commands: list[Command | Run] = []
        self._found: tuple[Command, int] | None = None  # the next command, and among how many parts it has its place
        self._part_counts: dict[bytes, int] = {}  # how many parts its topics had, by topic

    def execute(self, command: Command) -> bytes:
        """Return the reply to one command; raises MiniqueueError."""
        word = command[0].upper()
        is_exec = word == b"EXEC" and len(command) == 1
        if is_exec and not self.is_aborted:
            self._check_parts()
        if is_exec and not self.is_aborted and self._is_elsewhere:
            shard = self._own if self._place is None else self._place.shard
            self.end()
            self._pass_on(shard, [[b"MULTI"], *self._commands, command])
            return b""
        if word not in (b"EXEC", b"DISCARD", b"RESET", b"QUIT"):
            if self._looks_for(command):
                return b""
            own = self._placed(command)
            reply = super().execute(own)
            self._commands.append(own)
            return reply
        return super().execute(command)

    def queue_run(self, run: Run) -> bytes:
        """Queue a run of PUBLISH that the client may send; return its replies, b"" if it does not fit as a whole."""
        of_run = self._places.place_of(run, None if self._place is None else self._place.shard)
        if of_run is not None and self._place is not None and of_run.shard != self._place.shard:
            return b""  # each command is refused for itself
        own = run if of_run is None else of_run.command
        assert isinstance(own, Run)  # it stays one
        replies = super().queue_run(own)
        if replies:
            self._take_place(of_run)
            self._commands.append(Run(own.head, [*own.lasts]))  # the queue adds to its own list
        return replies

    @property
    def _is_elsewhere(self) -> bool:
        return self._place is not None and self._place.shard != self._own

    def _check_parts(self) -> None:
        """Raise ShardAwayError if a topic has other parts now: the places of its commands are not sure any more."""
        for topic, part_count in self._part_counts.items():
            if self._places.part_count_of(topic) != part_count:
                self.end()
                name = topic.decode("utf-8", "replace")
                raise ShardAwayError(f"topic '{name}' got other parts; nothing of the transaction was done; try again")

    def _looks_for(self, command: Command) -> bool:
        """Return whether the place of a command is looked for first; the command is carried out again then.

        Raises RequestError.
        """
        if self._found is not None and self._found[0] is command:
            return False
        try:
            looking = self._places.look(command)
        except MiniqueueError:
            self.is_aborted = True
            raise
        if looking is None:
            return False
        answer_later(self._connection, self._look(command, looking))
        return True

    async def _look(self, command: Command, looking: Coroutine[Any, Any, int]) -> bytes:
        """Find the place of a command, and make it the next one; return no reply. Raises ShardAwayError."""
        try:
            self._found = command, await looking
        except MiniqueueError:
            self.is_aborted = True
            raise
        self._connection.command_count -= 1  # it is counted again
        self._connection.put_back([command])
        return b""

    def _take_place(self, of_command: Place | None) -> None:
        """Note where a command belongs that is queued."""
        self._place = self._place or of_command
        if of_command is not None and (part_count := self._places.part_count_of(of_command.topic)):
            self._part_counts[of_command.topic] = part_count

    def _placed(self, command: Command) -> Command:
        """Return a command as the shard of the transaction carries it out.

        Raises CrossShardError, or SpreadTopicError, if it concerns another shard than those before it.
        """
        before, part_count = self._place, 0 if self._found is None else self._found[1]
        self._found = None
        try:
            own = self._places.place_of(command, None if before is None else before.shard, part_count)
            if own is not None and before is not None and own.shard != before.shard:
                if own.topic == before.topic:
                    raise SpreadTopicError(own.topic, "a transaction")
                raise CrossShardError(before.topic, own.topic)
        except MiniqueueError:
            self.is_aborted = True
            raise
        if own is None:
            return command
        self._take_place(own)
        assert isinstance(own.command, list)  # it stays one
        return own.command


def reply_to_exec(data: bytes, command_count: int) -> bytes:
    """Return the reply to EXEC, which follows those to MULTI and to each queued command: a line each."""
    queued = OK + QUEUED * command_count
    if data.startswith(queued):
        return data[len(queued) :]
    at = 0
    for _ in range(1 + command_count):
        at = data.index(b"\r\n", at) + 2
    return data[at:]
