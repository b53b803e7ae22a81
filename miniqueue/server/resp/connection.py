"""One RESP connection of a Redis client, or of a person with telnet: bytes become calls of the broker and back.

    data_received ─▶ commands ─▶ a run of PUBLISH ──▶ broker ──▶ the reply waits for its commit ─▶ `replies`
                   │          └▶ any other ───▶ commands/table ──▶ the reply ────────────────────────▲
                   └─ more than there is time for: `incoming`, then `turns`

`wire` turns bytes into commands; a run of PUBLISH to one topic in one read is one list, added to the commit that is
being gathered, and so are PUBs with keys that follow each other (`keyed`). Many commands are carried out as long as the
turn lasts; the rest is postponed.

The state of a connection has four independent parts, `life`, `hold`, `turn` and `is_slow`; `states` explains them and
has the table of transitions. A client that closes its half, or leaves, has sent commands that are still carried out;
`closing` says how.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from math import inf
from typing import Any, Final, cast

import structlog

from miniqueue.access.users import User
from miniqueue.broker.model.new_partitions import PartitionsDueError
from miniqueue.broker.model.shares import Pool
from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.message.parts import whole_of
from miniqueue.errors import MemoryLimitError, MiniqueueError, PayloadTooLargeError, TopicFullError
from miniqueue.errors.requests import SchemaError
from miniqueue.server.resp.closing import GoneTransport, LingeringClose, SlowReader
from miniqueue.server.resp.commands import table
from miniqueue.server.resp.commands.channels import Channels
from miniqueue.server.resp.commands.context import ClientGoneError, HeldByGet, Mode, Waiting
from miniqueue.server.resp.commands.events import EventStream
from miniqueue.server.resp.commands.receive import return_held
from miniqueue.server.resp.commands.session import Session
from miniqueue.server.resp.commands.subscribe import Stream
from miniqueue.server.resp.commands.transaction import Execution, Transaction, publish_run
from miniqueue.server.resp.guard import Guard
from miniqueue.server.resp.incoming import CommandQueue
from miniqueue.server.resp.keyed import PUBS, keyed_run, publish_keyed
from miniqueue.server.resp.refusals import Reason, reason_of
from miniqueue.server.resp.replies import ReplyQueue
from miniqueue.server.resp.router import Router
from miniqueue.server.resp.shared import Shared
from miniqueue.server.resp.states import (
    CLOSING,
    DRAINING,
    DUE,
    GONE,
    HAD,
    HALF_CLOSED,
    LINGERING,
    OPEN,
    TRANSITIONS,
    Event,
    Hold,
    Turn,
)
from miniqueue.server.resp.turns import FEW_COMMANDS
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_reader import Parsed, Run, RunTransaction

log = structlog.get_logger()

#: uvloop reads this much at once. After a read of that size libuv reads on, up to 32 times, before other connections
#: are read.
FULL_READ_BYTES: Final = 256_000
#: How many commands are carried out, for how many bytes of replies, before the next check of the clock.
STEP_COMMANDS: Final = 32
STEP_REPLIES_BYTES: Final = 4 << 10
#: With more bytes of replies the turn is over, too.
MAX_REPLIES_BYTES: Final = 64 << 10
#: Maximum number of commands of a run that are carried out one by one, as some are refused, before others have a turn.
MAX_ONE_BY_ONE: Final = 64
#: A TLS connection ends at once when the client ends it: so many commands are carried out in time to answer them.
MAX_LAST_COMMANDS: Final = 4096
#: How much is read while a command holds the connection. A command that can wait long is answered when there is more,
#: because the client could no longer be noticed to leave.
MAX_KEPT_BYTES: Final = 64 << 10
#: At most so much is used by commands that have been read and are not carried out yet (`incoming.MAX_READ_BYTES`).
READ_COMMANDS_BYTES: Final = 96 << 10
#: The memory of an idle connection, and of TLS in addition.
CONNECTION_BYTES: Final = 12 << 10
TLS_BYTES: Final = 48 << 10
#: From this size on, the part of a command that has arrived is charged.
CHARGED_BYTES: Final = 64 << 10
#: From this size on, unread replies are charged. Below it, ten thousand connections have 80 MiB, which are not.
MAX_UNREAD_BYTES: Final = 8 << 10
#: How long a command waits for memory, and how often it is checked.
MEMORY_SECONDS: Final = 10.0
MEMORY_CHECK_SECONDS: Final = 0.5


class RespConnection(asyncio.Protocol):
    """One connection: a `Client` to its commands."""

    is_link = False
    _transport: asyncio.Transport
    account: MemoryAccount

    def __init__(self, shared: Shared) -> None:
        self.server = shared
        self.broker = shared.broker
        self.session = Session(next(shared.next_id))
        self.stream: Stream | None = None
        self.mode: Mode | None = None
        self._at_rest = shared.broker.waking.at_rest
        # Whether anything may come before a command is carried out here: a router, or topics that have to wake.
        self._is_led: object = self._at_rest if shared.new_router is None and not self.is_link else True
        self.held: dict[bytes, HeldByGet] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.command_count = 0
        self._input_bytes = 0  # what is charged for the bytes that wait
        self._memory_wait: asyncio.TimerHandle | None = None
        self._incoming = CommandQueue()
        self._replies = ReplyQueue(self._all_sent, self._cut_broken)
        self.reply = self._replies.add  # bound: without a call more for each reply
        self.send = self._replies.send
        self.wait_for = self._replies.wait_for
        self.withhold = self._replies.withhold
        self.drop_withheld = self._replies.drop_after
        self.await_reply = self._replies.await_reply
        self.await_more = self._replies.await_more
        self.give_out = self._replies.give_out
        self._most_unsent_bytes = MAX_REPLIES_BYTES  # in this turn
        self._slow_reader = SlowReader(self.broker.max_message_bytes, shared.max_output_bytes)
        self._linger: LingeringClose | None = None
        self._is_tls = False
        self._life = OPEN
        self._hold: Hold | None = None
        self._turn: Turn | None = None
        self._is_slow = False
        self._trust = partial(self._incoming.trust, self.broker.max_message_bytes)
        self.router: Router | None = None if shared.new_router is None else shared.new_router(self)
        self.guard: Guard | None = None
        if shared.sign_in is None:
            self._trust()
        else:
            self.guard = Guard(
                self.session,
                shared.sign_in,
                admit=self._admit_to,
                trust=self._trust,
                hold=partial(self.hold, reads_on=False),  # an unauthenticated client gets no more memory
                release=self.release,
                reject=self._reject,
            )

    # --- the transport ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the server."""
        peer, ssl_object = transport.get_extra_info("peername"), transport.get_extra_info("ssl_object")
        self._is_tls = ssl_object is not None
        self.join(transport, peer)
        self.session.local = (transport.get_extra_info("sockname") or self.session.local)[:2]
        if self.guard is not None:
            self.guard.start(ssl_object)
        self.account.add(Purpose.CONNECTIONS, CONNECTION_BYTES + (TLS_BYTES if self._is_tls else 0))
        if self.broker.memory.is_full or self.account.owner.is_crowd_over:
            self._refuse_for_memory()

    def join(self, transport: asyncio.BaseTransport, peer: tuple[str, int] | None) -> None:
        """Join the server, as a client at an address."""
        self._transport = self._replies.transport = cast(asyncio.Transport, transport)
        # The kernel takes megabytes before something waits in this buffer. uvloop lets 64 KiB wait, with TLS 512.
        self._transport.set_write_buffer_limits(MAX_UNREAD_BYTES)
        self.account = self.broker.memory.connect(peer[0] if peer else "?")
        self.session.connect(peer, self.account, self.broker.clock.now_ms())
        self.server.add(self)

    def data_received(self, data: bytes) -> None:
        """Carry out the commands that are complete, as many as there is time for."""
        if self._life is not OPEN:
            if self._linger is not None:
                self._linger.drop(len(data))
            return
        incoming = self._incoming
        if self._hold is not None:  # how the bytes are read depends on the command that holds the connection
            self._keep(data, self._hold)
        elif incoming.postponed or (self._turn is not None and not self._may_read()):
            incoming.reader.keep(data)
            self._let_others_go_first()
        elif (again := incoming.reader.read_again(data)) is not None:
            self._carry_out_one(again)
        else:
            commands = incoming.reader.read(data)
            if not commands or self._input_bytes or len(data) >= CHARGED_BYTES:
                self._charge_input()
            if len(commands) == 1:
                self._carry_out_one(commands[0])
            else:
                self._work([*commands], inf if len(commands) <= FEW_COMMANDS else self.server.turns.ends_at())
        if self.guard is not None and self.guard.user is None and self._life < CLOSING:
            self.guard.note_read(len(data))
        if len(data) >= FULL_READ_BYTES and self._life < CLOSING:
            self._let_others_go_first()

    def eof_received(self) -> bool:
        """Carry out and answer the commands that came, return what was leased, then close.

        Returns whether the transport is to stay open: it is ours to close, as replies may wait for a commit. TLS cannot
        be half closed.
        """
        if self._life >= CLOSING:
            return self._life is not LINGERING and not self._is_tls
        self._change(Event.END_OF_CLIENT)
        if self._is_tls:
            self.give_up_waiting()
            self._carry_out_last()
        else:
            self.wait_no_longer()
        if self._hold is None and not self._incoming.is_behind:
            self._end()  # otherwise after the last command, even if the connection is lost before
        return not self._is_tls

    def pause_writing(self) -> None:
        """The client does not read its replies: stop reading from it."""
        self._is_slow = True
        # The transport keeps the whole of what it has written in part.
        unread_bytes = max(self._transport.get_write_buffer_size(), self._replies.unsent_bytes)
        self.account.put(Purpose.OUTPUT, unread_bytes)
        self._slow_reader.watch(self._transport, self._cut_slow, self.account)
        if self.router is not None:
            self.router.pause()
        self._adjust_reading()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_slow = False
        if self.router is not None:
            self.router.resume()
        self.account.put(Purpose.OUTPUT, 0)
        self._slow_reader.stop()
        self._adjust_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Carry out the last commands, then leave the server; leased messages return to the front of their topics."""
        if self._has_last_commands():
            self._go_on_alone()
            return
        self._life = GONE
        self.server.remove(self)
        self._replies.close()
        self._slow_reader.stop()
        if self._linger is not None:
            self._linger.stop()
            self._linger = None
        self.leave()
        self.mode = self.router = None
        self.account.close()
        if self.guard is not None:
            self.guard.close()

    def _admit_to(self, user: str) -> None:
        """Raise ShareLimitError if this connection is not the user's yet, and would be one too many."""
        if self.account.user != user:
            self.broker.shares.admit(Pool.CONNECTIONS, user)

    def _has_last_commands(self) -> bool:
        if self._life >= CLOSING or (self._hold is None and not self._incoming.is_behind):
            return False
        return self._life is HALF_CLOSED or self._hold is None or not self._hold.is_for_room

    def _go_on_alone(self) -> None:
        """Carry out what the client sent before it left, and discard the replies."""
        self._transport = self._replies.transport = GoneTransport(self.connection_lost)
        self._change(Event.END_OF_CLIENT)
        self._is_slow = False
        if self.router is not None:
            self.router.resume()
        self.account.put(Purpose.OUTPUT, 0)
        self._slow_reader.stop()
        self.give_up_waiting()
        self._adjust_reading()

    def _charge_input(self) -> None:
        """Charge the bytes that wait: part of a command, or commands that are not carried out yet."""
        incoming = self._incoming
        size_bytes = incoming.reader.unread_bytes()
        if incoming.is_behind:
            size_bytes += READ_COMMANDS_BYTES
        elif size_bytes < CHARGED_BYTES:
            size_bytes = 0
        self._input_bytes = size_bytes
        self.account.put(Purpose.INPUT, size_bytes)
        if not size_bytes or incoming.is_behind:
            self._stop_waiting_for_memory()
        elif self._memory_wait is None and self.account.first_over():
            self._wait_for_memory(asyncio.get_running_loop().time() + MEMORY_SECONDS)

    def _wait_for_memory(self, until: float) -> None:
        """Read nothing more of a command while there is no memory for it; if that lasts, close the connection."""
        self._memory_wait = None
        if self._life is not OPEN:
            return
        if self.account.first_over() is None:
            self._adjust_reading()
            return
        loop = asyncio.get_running_loop()
        if loop.time() >= until:
            self._refuse_for_memory()
            return
        self._transport.pause_reading()
        self._memory_wait = loop.call_later(MEMORY_CHECK_SECONDS, self._wait_for_memory, until)

    def _stop_waiting_for_memory(self) -> None:
        """Do not count the time in which complete commands wait for their turn: the next wait begins afresh."""
        if self._memory_wait is not None:
            self._memory_wait.cancel()
            self._memory_wait = None

    def _refuse_for_memory(self) -> None:
        over = self.account.first_over() or self.account
        self._refuse(MemoryLimitError(over.name, over.limit_bytes, over.setting))
        self._replies.flush()

    # --- carrying out, a turn at a time -----------------------------------------------------------------------

    def _carry_out_one(self, command: Parsed) -> None:
        """Do what `_carry_out` does, for a client that sends one command at a time: a hundred instructions less."""
        self.broker.others.are_waiting = True
        if self.stream is None:
            CURRENT_ACTOR.set(self.session.actor)
        self.command_count += 1
        self._execute(command)
        self._finish_turn()

    def _carry_out_last(self) -> None:
        last_count = self.command_count + MAX_LAST_COMMANDS
        while self._incoming.is_behind and self.command_count < last_count:
            if self._life >= CLOSING or self._has_too_much():
                break
            self._carry_out(self._incoming.next_commands(), inf)
            self._finish_turn()

    def _work(self, commands: list[Parsed], until: float) -> None:
        """Carry out commands, and read on, as long as there is time."""
        self._most_unsent_bytes = self._replies.unsent_bytes + MAX_REPLIES_BYTES
        self._carry_out(commands, until)
        if until < inf:
            while self._incoming.reader.is_stopped and not self._must_stop() and self.server.turns.clock() < until:
                self._carry_out(self._incoming.next_commands(), until)
        self._finish_turn()

    def _carry_out(self, commands: list[Parsed], until: float) -> None:
        """Carry out as many commands as there is time for and as the client reads the replies of; postpone the rest."""
        if self.stream is None:  # a client that has a stream publishes nothing
            CURRENT_ACTOR.set(self.session.actor)
        self._incoming.postponed = []
        position = 0
        while position < len(commands):
            position = self._carry_out_step(commands, position)
            if self._must_stop() or (position < len(commands) and self.server.turns.clock() >= until):
                break
        self.command_count += position
        self._incoming.postponed += commands[position:]  # after what was put back

    def _carry_out_step(self, commands: list[Parsed], start: int) -> int:
        """Carry out some commands from a position on; return the position after them."""
        if commands[start][0] in PUBS and (together_count := self._publish_together(commands, start)):
            return start + together_count
        position, outgoing, incoming = start, self._replies, self._incoming
        most_unsent_bytes = outgoing.unsent_bytes + STEP_REPLIES_BYTES
        for command in commands[start : start + STEP_COMMANDS]:
            position += 1
            self._execute(command)
            is_held_up = self._hold is not None or self._is_slow or self._life >= CLOSING
            if is_held_up or incoming.postponed or outgoing.unsent_bytes > most_unsent_bytes:
                break
        return position

    def _publish_together(self, commands: Sequence[Parsed], start: int) -> int:
        """Publish messages with keys from a position on; return how many, 0 if the next one is carried out alone."""
        if self.mode is not None or self.broker.backpressure.must_wait:
            return 0
        run = keyed_run(commands, start)
        if run is None or not (self.guard is None or self.guard.lets_publish(run.topic)):
            return 0
        if self._at_rest and self.broker.waking.named([run.topic]):  # the first of them wakes it
            return 0
        if self.router is None or not self.router.publish_keyed(run):
            try:
                publish_keyed(self, run)
            except (MiniqueueError, PartitionsDueError):  # one of them is refused, or all are, or have to wait
                return 0
        return len(run.keys)

    def _must_stop(self) -> bool:
        if self._life >= CLOSING or self._hold is not None or self._is_slow:
            return True
        return bool(self._incoming.postponed) or self._replies.unsent_bytes > self._most_unsent_bytes

    def _has_too_much(self) -> bool:
        return self._is_slow or self._hold is not None or self._replies.is_full

    def _finish_turn(self) -> None:
        """Send the replies that are ready, and continue with the rest in another turn."""
        incoming = self._incoming
        if incoming.reader.error is not None and self._life < CLOSING and self._hold is None and not incoming.postponed:
            self._refuse(incoming.reader.error)
        if self._replies.flush_ready() or self._is_slow or self._hold is not None:
            self._adjust_reading()
        elif (incoming.postponed or incoming.reader.is_stopped) and self._life < CLOSING:
            self._let_others_go_first()

    def _may_read(self) -> bool:
        """Whether bytes are read now; if not, other connections go first, as this one has had a turn."""
        if self.server.turns.is_over:
            return False
        if self._turn is HAD:
            self._turn = None
        return True

    def _let_others_go_first(self) -> None:
        """Continue in the next turn."""
        self._transport.pause_reading()
        self._charge_input()
        if self._turn is not DUE:
            self._turn = DUE
            self.server.turns.queue(self._go_on)

    def _go_on(self, until: float) -> None:
        self._turn = HAD
        try:
            if self._life < CLOSING and not self._has_too_much():
                self._work(self._incoming.next_commands(), until)
            self._adjust_reading()
        except Exception:  # asyncio closes a connection only for `data_received`; later replies would be misplaced
            self._cut_broken()

    def _adjust_reading(self) -> None:
        """Read on, or not, and continue with what waits, as the state is now."""
        if self._life >= CLOSING:
            return
        if self._has_too_much():
            if self._life is not HALF_CLOSED:
                self._pause_reading()
        elif self._incoming.is_behind:
            self._let_others_go_first()
        elif self._life is HALF_CLOSED:
            self._end()
        else:
            if self._input_bytes:
                self._charge_input()
            if self._memory_wait is None and not self._transport.is_reading():
                self._transport.resume_reading()

    def _pause_reading(self) -> None:
        """Read no more, unless a command holds the connection and there is room for what comes meanwhile."""
        hold = self._hold
        if self._incoming.is_behind:
            self._charge_input()
        if hold is not None and hold.room_bytes < 0:
            self.give_up_waiting()
            if self._hold is not hold:  # so it has been answered, and what comes next was seen to
                return
        if hold is None or hold.room_bytes < 0:
            self._transport.pause_reading()
        elif not self._transport.is_reading():
            self._transport.resume_reading()

    # --- commands ---------------------------------------------------------------------------------------------

    def _execute(self, command: Parsed) -> None:
        """Carry out a command, a run of PUBLISH, or a transaction of one."""
        if self._is_led and (
            (self._at_rest and self._must_wait_for_topics(command))
            or (self.router is not None and self._is_routed() and self.router.execute(command))
        ):
            return
        if isinstance(command, Run):
            head, lasts = command
            self.command_count += len(lasts) - 1
            if self.mode is None and (self.guard is None or self.guard.lets_publish(head[1])):
                self.publish(head[1], lasts)
            elif reply := self._queue_run(command):
                self.reply(reply)
            else:
                self._one_by_one(command, lambda last: self._execute([*head, last]))
            return
        if isinstance(command, RunTransaction):
            self._execute_transaction(command)
            return
        try:
            reply = self.mode.execute(command) if self.mode else table.execute(self, command)
        except MiniqueueError as exc:
            reply = self.refusal(exc)
        if reply:  # empty if it has been queued already
            self.reply(reply)

    def _must_wait_for_topics(self, command: Parsed) -> bool:
        """Return whether a command names topics that have to wake first; then it is carried out when they have."""
        run = command.run if isinstance(command, RunTransaction) else command
        words = run.head if isinstance(run, Run) else run
        # A payload is no name: of a run, which is carried out in order, no command after the first one may wait.
        topics = self.broker.waking.named(words[1:2] if words[0].upper() == b"PUBLISH" else words[1:])
        if topics and self.guard is not None:
            user = self.guard.user
            topics = [topic for topic in topics if user is not None and user.sees(whole_of(topic.name))]
        if not topics:
            return False
        self.command_count -= 1
        self.put_back([command])
        self.hold()
        self.spawn(self._act_after(self.broker.waking.wake(topics), _nothing))
        return True

    async def _act_after(self, work: Coroutine[Any, Any, None], act: Callable[[], bytes | None]) -> None:
        """Call `act` when some work is done, then carry out the commands that wait."""
        try:
            await work
        except Exception:  # a bug: the command that waits would never be carried out
            self._cut_broken()
        else:
            self._act_late(act)

    def _execute_transaction(self, transaction: RunTransaction) -> None:
        """Carry out MULTI, a run of PUBLISH, and EXEC: at once if no command is refused, otherwise one by one."""
        run = transaction.run
        if self.mode is None and (self.guard is None or self.guard.lets_publish(run.head[1])):
            try:
                is_done = publish_run(self, run)
            except MiniqueueError as exc:
                self.reply(self.refusal(exc))
                is_done = True
            if is_done:
                self.command_count += 1 + len(run.lasts)
                return
        self._execute(transaction.first)
        self.put_back([run, transaction.last])

    def _one_by_one(self, run: Run, act: Callable[[bytes], None]) -> None:
        """Call `act` with the last word of each command of a run; put back those for which there is no time now."""
        ends_at, count = self.server.turns.ends_at(), 0
        for last in run.lasts[:MAX_ONE_BY_ONE]:
            act(last)
            count += 1
            is_held_up = self._hold is not None or self._is_slow or self._life >= CLOSING
            if is_held_up or self.server.turns.clock() >= ends_at:
                break
        if rest := run.lasts[count:]:
            self.command_count -= len(rest)
            self.put_back([Run(run.head, rest)])

    def _is_routed(self) -> bool:
        """Return whether the table carries out the next command, and so the router may: no mode does."""
        return self.mode is None or (isinstance(self.mode, Channels) and self.mode.admits_others)

    def _queue_run(self, run: Run) -> bytes:
        """Return the replies to a run of PUBLISH in a transaction; b"" if each command is to be looked at."""
        if not isinstance(self.mode, Transaction) or not (self.guard is None or self.guard.lets_publish(run.head[1])):
            return b""
        return self.mode.queue_run(run)

    def put_back(self, commands: Sequence[Parsed]) -> None:
        """Make commands the next ones; for a command that holds the connection, or is carried out in part."""
        self._incoming.put_back(commands)

    @property
    def unsent_bytes(self) -> int:
        """Size of the replies since all had last been handed to the transport."""
        return self._replies.unsent_bytes

    def take_next(self, is_wanted: Callable[[Parsed], bool]) -> list[Parsed]:
        """Take the next commands as long as they are wanted; for a command that holds the connection."""
        if self._life >= CLOSING:
            return []
        if self.router is None or not self._is_routed():
            commands = self._incoming.take_while(is_wanted)
        else:
            own = self.router.own
            taken = self._incoming.take_while(lambda command: own(command) is not None and is_wanted(command))
            commands = [command for command in map(own, taken) if command is not None]
        self.command_count += len(commands)
        return commands

    def publish(self, topic: bytes, payloads: list[bytes]) -> None:
        """Publish messages and queue their replies, now or when there is room."""
        if self.broker.backpressure.must_wait:
            self._wait_for_room(partial(self._publish, topic, payloads))
        else:
            try:
                self._publish(topic, payloads)
            except PartitionsDueError as due:
                self._wait_for_partitions(partial(self._publish, topic, payloads), due)

    def when_room(self, publish: Callable[[], None]) -> None:
        """Call what publishes and queues its reply, now or when there is room. Raises MiniqueueError."""
        if self.broker.backpressure.must_wait:
            self._wait_for_room(publish)
        else:
            try:
                publish()
            except PartitionsDueError as due:
                self._wait_for_partitions(publish, due)

    def _wait_for_partitions(self, publish: Callable[[], bytes | None], due: PartitionsDueError) -> None:
        self.hold()
        self.spawn(self._act_after(self.broker.make_spare(due), publish))

    def _wait_for_room(self, publish: Callable[[], None]) -> None:
        self._hold = Hold(None, -1, is_for_room=True)  # reads nothing, as there is no room
        self.broker.backpressure.call_when_room(partial(self._act_late, publish))

    def after_writes(self, act: Callable[[], bytes]) -> bytes:
        """Return the reply of `act`, or nothing if it comes after the commit of what this connection wrote."""
        commit = self._replies.last_commit
        if commit is None or commit.is_done:
            return act()
        self.hold()
        commit.add_listener(partial(self._act_next_turn, act))
        return b""

    def in_own_turn(self, act: Callable[[], bytes]) -> bytes:
        """Return nothing; the reply of `act` comes in another turn, after the commit of what this connection wrote.

        For commands that take as long as a whole turn does: a pipeline of them keeps other clients waiting for one
        command at most.
        """
        self.hold()
        queue = partial(self.server.turns.queue, lambda _until: self._act_late(act))
        commit = self._replies.last_commit
        if commit is None or commit.is_done:
            queue()
        else:
            commit.add_listener(queue)
        return b""

    def _act_next_turn(self, act: Callable[[], bytes]) -> None:
        # Not in this turn: other listeners of the commit make what was written readable.
        asyncio.get_running_loop().call_soon(self._act_late, act)

    def _act_late(self, act: Callable[[], bytes | None]) -> None:
        self._hold = None
        if self._life >= CLOSING:
            return
        CURRENT_ACTOR.set(self.session.actor)
        try:
            if reply := act():
                self.reply(reply)
        except MiniqueueError as exc:
            self.reply(self.refusal(exc))
        except PartitionsDueError as due:
            self._wait_for_partitions(act, due)
        except Exception:
            self._cut_broken()
            return
        self._go_on_or_close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task that outlives the command; return it."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def refusal(self, error: MiniqueueError) -> bytes:
        """Return the reply that reports an error; count it if a limit has been reached."""
        self.broker.limit_counts.note(error)
        return replies.error(error.code, str(error))

    def _publish(self, topic: bytes, payloads: list[bytes]) -> None:
        try:
            commit, _, _, size_bytes = self.broker.publish(topic, payloads)
            self.wait_for(commit, replies.OK, len(payloads), size_bytes)
        except (PayloadTooLargeError, SchemaError) as exc:
            if len(payloads) == 1:
                self.reply(self.refusal(exc))
            else:  # only those that are too large, or do not fit, are refused
                self._one_by_one(Run([b"PUBLISH", topic], payloads), lambda last: self.publish(topic, [last]))
        except TopicFullError as exc:
            if count := exc.fitting_count:
                self._publish(topic, payloads[:count])
            self.reply(replies.error(exc.code, str(exc)) * (len(payloads) - count))
        except MiniqueueError as exc:
            self.reply(replies.error(exc.code, str(exc)) * len(payloads))

    # --- holding ----------------------------------------------------------------------------------------------

    def hold(self, waiting: Waiting | None = None, *, reads_on: bool = True) -> None:
        """Carry out nothing more until `release`: the reply to a command is being made elsewhere."""
        reader = self._incoming.reader
        kept_bytes = reader.unread_bytes() if reader.is_stopped else 0
        self._hold = Hold(waiting, MAX_KEPT_BYTES - kept_bytes if reads_on else -1)

    def release(self, reply: bytes) -> None:
        """Queue the reply that the connection was held for, if it is not empty, and carry out the next commands."""
        self._hold = None
        if self._life < CLOSING:
            if reply:
                self.reply(reply)
            self._go_on_or_close()

    def give_up_waiting(self) -> None:
        """Answer the command that waits, if there is one."""
        if self._hold is not None and self._hold.waiting is not None:
            self._hold.waiting.give_up()

    def wait_no_longer(self) -> None:
        """Answer the command that waits, if there is one, with what was available before."""
        if self._hold is not None and self._hold.waiting is not None:
            self._hold.waiting.wait_no_longer()

    def _go_on_or_close(self) -> None:
        """Send the replies after the command that held the connection; carry out the next one unless draining."""
        if self._life is DRAINING and self._hold is None:
            self.close_when_sent()
        else:
            self._replies.flush()
            self._adjust_reading()

    def _keep(self, data: bytes, hold: Hold) -> None:
        """Keep bytes that came while the connection is held; with too many, the command gives up or reading stops."""
        self._incoming.reader.keep(data)
        self._charge_input()
        hold.room_bytes -= len(data)
        if hold.room_bytes < 0:
            self.give_up_waiting()
            if self._hold is not None:
                self._transport.pause_reading()

    # --- what others ask --------------------------------------------------------------------------------------

    @property
    def is_blocked(self) -> bool:
        """Whether a command waits for messages or for a reply."""
        return self._hold is not None and self._hold.waiting is not None

    @property
    def user(self) -> User | None:
        """The user that the client has authenticated as; None if the broker has no users."""
        return None if self.guard is None else self.guard.user

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for messages or for replies; not if it does not read its replies."""
        is_behind = self._incoming.is_behind and not self._is_slow
        is_subscribed = self.stream is not None or (self.mode is not None and self.mode.is_subscription)
        return is_subscribed or self._hold is not None or not self._replies.is_empty or is_behind

    @property
    def is_closing(self) -> bool:
        """Whether no more commands are carried out."""
        return self._life >= CLOSING

    @property
    def is_slow(self) -> bool:
        """Whether the client does not read its replies."""
        return self._is_slow

    @property
    def has_ended(self) -> bool:
        """Whether the client sends no more; it may still read, or have gone."""
        return self._life is HALF_CLOSED

    def check_client(self) -> None:
        """Raise ClientGoneError if the client has gone: it cannot take messages."""
        if self._life is GONE or isinstance(self._transport, GoneTransport):
            raise ClientGoneError

    # --- the end ----------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """End the stream, return what is held to the front of its topic, and answer a command that waits."""
        if self.router is not None:
            self.router.leave()
        self.give_up_waiting()
        return_held(self)
        if isinstance(self.mode, EventStream):
            self.mode.close()
        if not isinstance(self.mode, Execution):  # EXEC is answered before the connection closes
            self.mode = None
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    def close_when_sent(self) -> None:
        """Read no more, and close when the last reply has been sent."""
        if isinstance(self.mode, Execution):
            self.mode.abandon(is_held=self._hold is not None)
        self._change(Event.CLOSE)
        self._replies.flush()

    def close_when_answered(self) -> None:
        """Answer the command that holds the connection, if there is one; then close."""
        if self._hold is None:
            self.close_when_sent()
        else:
            self._change(Event.DRAIN)

    def abort(self) -> None:
        """End the connection at once: a reply cannot be completed."""
        self._transport.abort()

    def close_soon(self) -> None:
        """Close when the last reply has been sent, or at once if the client does not read its replies."""
        self.close_when_sent()
        if self._is_slow:
            self._transport.abort()

    def _end(self) -> None:
        if self._life is HALF_CLOSED and self.router is not None and self.router.end():
            return
        self.leave()
        self.close_when_sent()

    def _refuse(self, error: MiniqueueError) -> None:
        """Report what was wrong, but not to a client of another protocol, and close the connection."""
        self.server.refusals.count(reason := reason_of(error), self.session, str(error))
        if reason is Reason.FOREIGN:
            self._end()
            return
        self.reply(replies.error(error.code, str(error)))
        self.leave()
        self._linger = LingeringClose(partial(self._change, Event.LINGERED))
        self._change(Event.INVALID_BYTES)

    def _reject(self, reason: Reason, text: str, reply: bytes) -> None:
        """Close the connection after a last reply, for a reason that is counted."""
        if reply:
            if self._life >= CLOSING:  # the client has been sent the reason for another one
                return
            self.reply(reply)
        self.server.refusals.count(reason, self.session, text)
        self.close_when_sent()

    def _cut_slow(self) -> None:
        """End the connection of a client that does not read its replies."""
        self.server.refusals.count(Reason.SLOW_READER, self.session, "the client does not read its replies")
        self._life = GONE
        self._transport.abort()

    def _cut_broken(self) -> None:
        """End the connection, and reply no more, because of the exception that is being handled."""
        log.exception("a RESP connection failed", peer=self.session.address)
        self._life = GONE
        self._replies.clear()
        self._transport.abort()

    def _all_sent(self) -> None:
        if self._life >= CLOSING:
            self._change(Event.ALL_SENT)
        elif not self._transport.is_reading():
            self._adjust_reading()

    def _change(self, event: Event) -> None:
        """Change the life of the connection as `TRANSITIONS` says."""
        life = TRANSITIONS[self._life].get(event, self._life)
        if life is self._life:
            return
        if life is LINGERING and self._linger is not None and self._transport.can_write_eof():
            self._life = LINGERING
            self._linger.start(self._transport)
        elif life in (LINGERING, GONE):  # TLS cannot be half closed; uvloop drops by itself what still comes
            self._life = GONE
            self._transport.close()
        else:
            self._life = life


def _nothing() -> None:
    """Do nothing: only the wait is needed."""
