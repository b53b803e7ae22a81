"""A transaction at a door: kept there until EXEC, and then carried out by the shard that has all of its topics.

    MULTI ─ commands, each checked and queued ─┬─ a topic of a second shard ─▶ CROSSSHARD; EXEC aborts
                                               └─ EXEC ─┬─ own topics, or none ─▶ as without shards
                                                        └─ of another shard ─▶ MULTI, the commands, EXEC, in one batch

A client that leaves before EXEC leaves nothing behind in any shard. In a transaction of another shard, commands without
a topic, such as TOPICS, show what that shard has.

A command for a spread topic concerns the part of its key, or of its receipts. What has neither enters any part in the
shard of the transaction.
"""

from collections.abc import Callable
from typing import NamedTuple

from miniqueue.core.message.parts import part_for, part_name
from miniqueue.core.options.publish import without_digest
from miniqueue.core.settings.placing import Placing
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import CrossShardError, SpreadTopicError
from miniqueue.server.resp.commands import table
from miniqueue.server.resp.commands.context import Client
from miniqueue.server.resp.commands.transaction import QUEUED, Transaction
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


def place_in(placing: Placing, topic: bytes, part_count: int, command: Command | Run, shard: int | None) -> Place:
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
      place_of: returns the place of a command in a transaction of a shard; None if it concerns no topic.
      pass_on: carries out the commands in another shard, from MULTI to EXEC.
    """

    def __init__(
        self,
        client: Client,
        own: int,
        place_of: Callable[[Command | Run, int | None], Place | None],
        pass_on: Callable[[int, list[Command | Run]], None],
    ) -> None:
        super().__init__(client, table.check_queued, table.carry_out_queued, table.execute)
        self._own = own
        self._place_of = place_of
        self._pass_on = pass_on
        self._place: Place | None = None
        self._commands: list[Command | Run] = []

    def execute(self, command: Command) -> bytes:
        """Return the reply to one command; raises MiniqueueError."""
        word = command[0].upper()
        if word == b"EXEC" and len(command) == 1 and not self.is_aborted and self._is_elsewhere:
            shard = self._own if self._place is None else self._place.shard
            self.end()
            self._pass_on(shard, [[b"MULTI"], *self._commands, command])
            return b""
        if word not in (b"EXEC", b"DISCARD", b"RESET", b"QUIT"):
            own = self._placed(command)
            reply = super().execute(own)
            self._commands.append(own)
            return reply
        return super().execute(command)

    def queue_run(self, run: Run) -> bytes:
        """Queue a run of PUBLISH that the client may send; return its replies, b"" if it does not fit as a whole."""
        of_run = self._place_of(run, None if self._place is None else self._place.shard)
        if of_run is not None and self._place is not None and of_run.shard != self._place.shard:
            return b""  # each command is refused for itself
        own = run if of_run is None else of_run.command
        assert isinstance(own, Run)  # it stays one
        replies = super().queue_run(own)
        if replies:
            self._place = self._place or of_run
            self._commands.append(Run(own.head, [*own.lasts]))  # the queue adds to its own list
        return replies

    @property
    def _is_elsewhere(self) -> bool:
        return self._place is not None and self._place.shard != self._own

    def _placed(self, command: Command) -> Command:
        """Return a command as the shard of the transaction carries it out.

        Raises CrossShardError, or SpreadTopicError, if it concerns another shard than those before it.
        """
        before = self._place
        try:
            own = self._place_of(command, None if before is None else before.shard)
            if own is not None and before is not None and own.shard != before.shard:
                if own.topic == before.topic:
                    raise SpreadTopicError(own.topic, "a transaction")
                raise CrossShardError(before.topic, own.topic)
        except MiniqueueError:
            self.is_aborted = True
            raise
        if own is None:
            return command
        self._place = before or own
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
