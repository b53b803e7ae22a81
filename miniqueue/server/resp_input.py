"""What comes in on one RESP connection: bytes become commands, which are carried out a turn at a time.

    data_received ─▶ a few commands ─────────────────────────▶ carried out
                 └─▶ many ─▶ carried out for as long as the turn lasts ─▶ the rest is postponed ─▶ `resp_turns`
                 └─▶ it had many before, and the turn is over: not even read yet ─────────────────────▲

Does not know what a command is: that is for who is derived from this.
"""

from abc import abstractmethod
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Protocol

from miniqueue.errors import MiniqueueError
from miniqueue.server.resp_backlog import Backlog
from miniqueue.server.resp_output import Output
from miniqueue.server.resp_session import Session
from miniqueue.server.resp_turns import FEW_COMMANDS
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import CommandReader
from miniqueue.wire.resp_runs import Run
from miniqueue.wire.resp_stranger import StrangerReader

if TYPE_CHECKING:
    from miniqueue.server.resp_guard import Guard
    from miniqueue.server.resp_server import RespServer
    from miniqueue.server.resp_stream import Stream

#: As much uvloop reads at once. Behind a read of that size libuv reads on, up to 32 times, before others get a turn.
FULL_READ_BYTES = 256_000
#: Commands are made of so many bytes before the next look at the clock, or of so many words where reading is slow. It
#: takes a fifth of a millisecond.
MAX_READ_BYTES = 8 << 10
MAX_STRICT_WORDS = 128
#: Commands that are carried out, and bytes of replies, before the next look at the clock.
STEP_COMMANDS = 32
STEP_REPLIES_BYTES = 4 << 10
#: Beyond so much in replies the turn is over, too.
MAX_REPLIES_BYTES = 64 << 10
#: A TLS connection ends at once when its peer ends it. So many commands of what it has sent are carried out then.
MAX_LAST_COMMANDS = 4096


class Mode(Protocol):
    """What carries out the commands of a connection in place of the table of commands."""

    def execute(self, command: Command) -> bytes:
        """Carry out one command and return its reply, empty if it has been queued; raises MiniqueueError."""
        ...


class Input(Output):
    """The other half of a connection: what it is sent.

    Args:
      server: knows the turns.
      session: who is at the other end.
      backlog: watches what the peer does not take.
    """

    def __init__(self, server: "RespServer", session: Session, backlog: Backlog) -> None:
        super().__init__(backlog)
        self.server = server
        self.session = session
        self.stream: Stream | None = None
        self.mode: Mode | None = None  # the stream, or what suspends it; None: the table of commands
        self.guard: Guard | None = None
        self.command_count = 0  # of commands carried out
        self._reader: CommandReader | StrangerReader = StrangerReader()
        self._postponed: list[Command | Run] = []  # read, but to be carried out in another turn
        self._most_unsent_bytes = MAX_REPLIES_BYTES  # in this turn
        self._has_much = False  # since its last read it had to wait for a turn
        self._is_turn_due = False
        self._has_ended = False

    @abstractmethod
    def _execute(self, command: Command | Run) -> None:
        """Carry out a command and queue its reply."""

    @abstractmethod
    def _refuse(self, error: MiniqueueError) -> None:
        """Say what was wrong with what was read, and have the connection end."""

    @abstractmethod
    def _end(self) -> None:
        """Let go of everything, and close when all is answered."""

    def data_received(self, data: bytes) -> None:
        """Carry out the commands that are complete, as many as there is time for."""
        if self._is_closing:
            if self._farewell is not None:
                self._farewell.throw_away(len(data))
            return
        if self._is_held:  # what is read, and how, depends on what is waited for
            self._reader.keep(data)
            self._note_kept(len(data))
        elif self._has_much and self.server.turns.is_over:
            self._reader.keep(data)
            self._let_others_go_first()
        elif not self._postponed and (again := self._reader.read_again(data)) is not None:
            self._carry_out_one(again)
        else:
            commands = self._reader.read(data)
            if len(commands) == 1 and not self._postponed:
                self._carry_out_one(commands[0])
            else:
                self._carry_out_several([*self._postponed, *commands])
        if self.guard is not None and self.guard.user is None and not self._is_closing:
            self.guard.note_read(len(data))
        if len(data) >= FULL_READ_BYTES and not self._is_closing:
            self._let_others_go_first()

    def eof_received(self) -> bool:
        """Carry out and answer what was asked, return what was leased, then close."""
        if self._farewell is not None and self._farewell.is_under_way:
            return False
        self._has_ended = True
        is_tls = self._transport.get_extra_info("ssl_object") is not None
        if is_tls:
            self.give_up_waiting()
            self._carry_out_the_last()
        else:
            self.end_waiting()
        if is_tls or not (self._is_behind() or self._is_held):
            self._end()
        # The transport is ours to close: there may be replies that wait for a commit. TLS cannot be half closed.
        return not is_tls

    def _carry_out_the_last(self) -> None:
        last_count = self.command_count + MAX_LAST_COMMANDS
        while self._is_behind() and self.command_count < last_count:
            if self._is_closing or self._has_too_much():
                break
            self._carry_out(self._next_commands(), inf)
            self._finish_turn()

    def _carry_out_one(self, command: Command | Run) -> None:
        """Do what `_carry_out` does, for who sends one at a time: a hundred instructions less."""
        self.server.turns.has_others = True
        self._has_much = False
        if self.stream is None:
            self.session.act()
        self.command_count += 1
        self._execute(command)
        self._finish_turn()

    def _carry_out_several(self, commands: list[Command | Run]) -> None:
        self._has_much = False
        self._work(commands, inf if len(commands) <= FEW_COMMANDS else self.server.turns.ends_at())

    def _next_commands(self) -> list[Command | Run]:
        """Return what was postponed; if nothing was, read on."""
        return self._postponed or [*self._reader.read(b"")]

    def take_next(self, is_wanted: Callable[[Command | Run], bool]) -> list[Command | Run]:
        """Take the commands that come next, as long as they are wanted; for who holds the connection."""
        taken: list[Command | Run] = []
        while (self._postponed or self._reader.is_stopped) and not self._is_closing:
            next_ones = self._next_commands()
            count = next((i for i, command in enumerate(next_ones) if not is_wanted(command)), len(next_ones))
            taken += next_ones[:count]
            self._postponed = next_ones[count:]
            if self._postponed or not next_ones:
                break
        self.command_count += len(taken)
        return taken

    def _work(self, commands: list[Command | Run], until: float) -> None:
        """Carry out commands, and read on, as long as there is time."""
        self._most_unsent_bytes = self._unsent_bytes + MAX_REPLIES_BYTES
        self._carry_out(commands, until)
        while self._reader.is_stopped and until < inf and not self._must_stop() and self.server.turns.clock() < until:
            self._carry_out(self._next_commands(), until)
        self._finish_turn()

    def _carry_out(self, commands: list[Command | Run], until: float) -> None:
        """Carry out commands, as many as there is time for and as the peer takes the replies of; postpone the rest."""
        if self.stream is None:  # who has one publishes nothing
            self.session.act()
        self._postponed = []
        position = 0
        while position < len(commands):
            position = self._carry_out_step(commands, position)
            if self._must_stop() or (position < len(commands) and self.server.turns.clock() >= until):
                break
        self.command_count += position
        self._postponed = commands[position:]

    def _carry_out_step(self, commands: list[Command | Run], start: int) -> int:
        """Carry out some commands from a position on; return the position behind them."""
        position, most_unsent_bytes = start, self._unsent_bytes + STEP_REPLIES_BYTES
        for command in commands[start : start + STEP_COMMANDS]:
            position += 1
            self._execute(command)
            if self._is_closing or self._is_held or self._is_peer_slow or self._unsent_bytes > most_unsent_bytes:
                break
        return position

    def _must_stop(self) -> bool:
        is_over = self._postponed or self._unsent_bytes > self._most_unsent_bytes
        return self._is_closing or self._is_held or self._is_peer_slow or bool(is_over)

    def _finish_turn(self) -> None:
        """Answer what can be answered, and see to it that what is left has its turn."""
        if self._reader.error is not None and not (self._is_closing or self._is_held or self._postponed):
            self._refuse(self._reader.error)
        if self._is_closing or (self._outcomes and ((first := self._outcomes[0][0]) is None or first.is_done)):
            self.flush()  # else the commit under way does
        if self._has_too_much():
            self._adjust_reading()
        elif (self._postponed or self._reader.is_stopped) and not self._is_closing:
            self._let_others_go_first()

    def _let_others_go_first(self) -> None:
        """Go on in the next turn of the loop."""
        self._transport.pause_reading()
        self._go_on_soon()

    def _go_on_soon(self) -> None:
        if not self._is_turn_due:
            self._is_turn_due = self._has_much = True
            self.server.turns.queue(self._go_on)

    def _go_on(self, until: float) -> None:
        self._is_turn_due = False
        try:
            if not self._is_closing and not self._has_too_much():
                self._work(self._next_commands(), until)
            self._adjust_reading()
        except Exception:  # outside of `data_received` nobody closes it, and later replies would be to other commands
            self._cut_broken()

    def _is_behind(self) -> bool:
        """Whether something has been read, or can be, that has not been carried out."""
        return bool(self._postponed) or self._reader.is_stopped or self._reader.error is not None

    def _adjust_reading(self) -> None:
        if self._is_closing:
            return
        if self._has_too_much():
            if not self._has_ended:
                self._pause_reading()
        elif self._is_behind():
            self._go_on_soon()
        elif self._has_ended:
            self._end()
        elif not self._transport.is_reading():
            self._transport.resume_reading()
