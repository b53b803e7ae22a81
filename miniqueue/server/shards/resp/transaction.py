"""A transaction at a door: kept there until EXEC, and then carried out by the shard that has all of its topics.

    MULTI ─ commands, each checked and queued ─┬─ a topic of a second shard ─▶ CROSSSHARD; EXEC aborts
                                               └─ EXEC ─┬─ own topics, or none ─▶ as without shards
                                                        └─ of another shard ─▶ MULTI, the commands, EXEC, in one batch

A client that leaves before EXEC leaves nothing behind in any shard. In a transaction of another shard, commands without
a topic, such as TOPICS, show what that shard has.
"""

from collections.abc import Callable

from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import CrossShardError
from miniqueue.server.resp.commands import table
from miniqueue.server.resp.commands.context import Client
from miniqueue.server.resp.commands.transaction import QUEUED, Transaction
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import Run
from miniqueue.wire.resp_replies import OK


class DoorTransaction(Transaction):
    """Queues the commands of a connection, which are of one shard.

    Args:
      client: the client that sent MULTI.
      own: the number of the shard of this process.
      place_of: returns the shard and the topic that a command concerns; None if it concerns none.
      pass_on: carries out the commands in another shard, from MULTI to EXEC.
    """

    def __init__(
        self,
        client: Client,
        own: int,
        place_of: Callable[[Command | Run], tuple[int, bytes] | None],
        pass_on: Callable[[int, list[Command | Run]], None],
    ) -> None:
        super().__init__(client, table.check_queued, table.carry_out_queued, table.execute)
        self._own = own
        self._place_of = place_of
        self._pass_on = pass_on
        self._place: tuple[int, bytes] | None = None
        self._commands: list[Command | Run] = []

    def execute(self, command: Command) -> bytes:
        """Return the reply to one command; raises MiniqueueError."""
        word = command[0].upper()
        if word == b"EXEC" and len(command) == 1 and not self.is_aborted and self._is_elsewhere:
            shard, _ = self._place or (self._own, b"")
            self.end()
            self._pass_on(shard, [[b"MULTI"], *self._commands, command])
            return b""
        if word not in (b"EXEC", b"DISCARD", b"RESET", b"QUIT"):
            self._check_place(command)
            reply = super().execute(command)
            self._commands.append(command)
            return reply
        return super().execute(command)

    def queue_run(self, run: Run) -> bytes:
        """Queue a run of PUBLISH that the client may send; return its replies, b"" if it does not fit as a whole."""
        of_run = self._place_of(run)
        if of_run is not None and self._place is not None and of_run[0] != self._place[0]:
            return b""  # each command is refused for itself
        replies = super().queue_run(run)
        if replies:
            self._place = self._place or of_run
            self._commands.append(Run(run.head, [*run.lasts]))  # the queue adds to its own list
        return replies

    @property
    def _is_elsewhere(self) -> bool:
        return self._place is not None and self._place[0] != self._own

    def _check_place(self, command: Command) -> None:
        """Raise CrossShardError if a command concerns another shard than those before it."""
        try:
            of_command = self._place_of(command)
        except MiniqueueError:
            self.is_aborted = True
            raise
        if of_command is None:
            return
        if self._place is not None and of_command[0] != self._place[0]:
            self.is_aborted = True
            raise CrossShardError(self._place[1], of_command[1])
        self._place = self._place or of_command


def reply_to_exec(data: bytes, command_count: int) -> bytes:
    """Return the reply to EXEC, which follows those to MULTI and to each queued command: a line each."""
    queued = OK + QUEUED * command_count
    if data.startswith(queued):
        return data[len(queued) :]
    at = 0
    for _ in range(1 + command_count):
        at = data.index(b"\r\n", at) + 2
    return data[at:]
