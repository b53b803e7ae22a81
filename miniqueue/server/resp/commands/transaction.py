"""MULTI … EXEC: publishes and settles by receipt that are one commit, with any other commands between them.

    C: MULTI     C: PUBLISH a one     C: ACK t 5f0c-17     C: EXEC
    S: +OK       S: +QUEUED           S: +QUEUED           S: [OK, OK]       when the commit is durable

Each command is checked when it is queued; if one is refused, EXEC does nothing and is answered EXECABORT. At EXEC,
publishes and settles are the atomic part (`broker.transactions`); the other commands come before it or after it:

    LEN t    PUBLISH a x    LEN a    ACK t r    READ …
    before   └──── the atomic part ───────┘                  if it fails, its error is the reply to EXEC
                            after               after        in order, when the commit is durable

Nearly all transactions have an atomic part and nothing else: the reply to EXEC is queued with the commit, as that of
any publish. MULTI, a run of PUBLISH, and EXEC in one read are such a transaction, and not even queued (`publish_run`).
Otherwise the connection carries out the queued commands again, one by one (`Execution`): the reply to EXEC is the
beginning of an array, and the replies to the commands, which follow it, are its elements. So a transaction with long
replies needs no more memory than a pipeline, and takes turns as one. What comes before the atomic part is withheld
until its outcome is known.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import structlog

from miniqueue.broker import Commit
from miniqueue.broker.model.limits import Limit
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.broker.transactions.acts import Act, Executed, Publish, Refused
from miniqueue.broker.transactions.transactions import unique_keys
from miniqueue.core.message.names import check_topic
from miniqueue.errors import (
    DrainingError,
    InternalError,
    LimitReachedError,
    MiniqueueError,
    PayloadTooLargeError,
    RequestError,
)
from miniqueue.errors.requests import TransactionAbortedError, TransactionRefusedError
from miniqueue.server.resp.commands.context import INTERNAL_ERROR, Client, Mode
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import ArityError
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import Parsed, Run

log = structlog.get_logger()

QUEUED: Final = b"+QUEUED\r\n"
#: Why WATCH is refused, before MULTI as after it.
NO_WATCH: Final = "WATCH is not supported: there are no keys to watch; send the transaction without it"
#: Maximum number of commands of a transaction.
MAX_COMMANDS: Final = 10_000
#: The memory of a queued word besides its bytes, about, and of a command.
WORD_BYTES: Final = 64
COMMAND_BYTES: Final = 256
#: Queued commands are charged in steps of this size.
CHARGED_BYTES: Final = 4 << 10
#: Maximum size of the replies that come before the atomic part.
MAX_WITHHELD_BYTES: Final = 1 << 20


class Part(NamedTuple):
    """How a command is a part of the atomic part.

    Attributes:
      parse: returns the act of the command; raises MiniqueueError.
      reply: returns the reply to the command from its act and the outcome of that.
    """

    parse: Callable[[Command], Act]
    reply: Callable[[Any, Any], bytes]


#: PUBLISH: each message has a reply of its own.
PUBLISH: Final = Part(lambda command: Publish(command[1], [command[2]]), lambda *_: replies.OK)


class Step:
    """A command of a transaction, or a run of PUBLISH to one topic.

    Attributes:
      command: the first command.
      part: None if the command is not in the atomic part.
      act: its act.
      count: number of commands.
    """

    __slots__ = ("act", "command", "count", "part")

    def __init__(self, command: Command, part: Part | None, act: Act | None, count: int = 1) -> None:
        self.command = command
        self.part = part
        self.act = act
        self.count = count


#: Checks a command that is to be queued; returns its part, and its act.
Check: TypeAlias = Callable[[Client, Command], tuple[Part | None, Act | None]]
#: Carries out a command that is not in the atomic part; the list receives what returns leased messages.
CarryOut: TypeAlias = Callable[[Client, Command, list[Callable[[], None]]], bytes]


class Transaction:
    """Queues the commands of a connection from MULTI to EXEC or DISCARD.

    Args:
      client: the client that sent MULTI.
      check: checks each command.
      carry_out: carries out commands at EXEC.
      leave: carries out RESET and QUIT, which are not queued.
      refusal: why every command is refused, if the connection can have no transaction.
    """

    is_subscription = False

    def __init__(
        self,
        client: Client,
        check: Check,
        carry_out: CarryOut,
        leave: Callable[[Client, Command], bytes],
        refusal: str = "",
    ) -> None:
        self._client = client
        self._check = check
        self._carry_out = carry_out
        self._leave = leave
        self._refusal = refusal
        self._before = client.mode
        self._steps: list[Step] = []
        self._count = self._size_bytes = self._charged_bytes = 0
        self._max_bytes = client.broker.limits.max_transaction_bytes
        self.is_aborted = False

    def execute(self, command: Command) -> bytes:
        """Return the reply to one command; raises MiniqueueError."""
        word = command[0].upper()
        if word in (b"EXEC", b"DISCARD") and len(command) == 1:
            self.end()
            return self._exec() if word == b"EXEC" else replies.OK
        if word in (b"RESET", b"QUIT"):
            self.end()
            return self._leave(self._client, command)
        try:
            if word in (b"EXEC", b"DISCARD"):
                raise ArityError(1, word.decode())
            if self._refusal:
                raise RequestError(self._refusal)
            part, act = self._check(self._client, command)
            self._charge(1, sum(map(len, command)) + WORD_BYTES * len(command) + COMMAND_BYTES)
        except MiniqueueError:
            self.is_aborted = True
            raise
        if isinstance(act, Publish) and word == b"PUBLISH":
            self._add_publishes(command, part, act)
        else:
            self._steps.append(Step(command, part, act))
        return QUEUED

    def queue_run(self, run: Run) -> bytes:
        """Queue a run of PUBLISH that the client may send; return its replies, b"" if it does not fit as a whole."""
        (_, topic), payloads = run
        count, size_bytes = len(payloads), run_bytes(run)
        if self._refusal or (self._max_bytes and self._size_bytes + size_bytes > self._max_bytes):
            return b""  # each command is queued, or refused, for itself
        try:
            check_topic(topic)
            check_sizes(self._client, payloads)
            self._charge(count, size_bytes)
        except MiniqueueError:
            return b""
        self._add_publishes([*run.head, payloads[0]], PUBLISH, Publish(topic, payloads))
        return QUEUED * count

    def _add_publishes(self, command: Command, part: Part | None, act: Publish) -> None:
        """Add PUBLISH to the run before it if that has the same topic: all are one list."""
        last = self._steps[-1] if self._steps else None
        if last is not None and last.part is part and isinstance(last.act, Publish) and last.act.topic == act.topic:
            last.act.payloads.extend(act.payloads)
            last.count += len(act.payloads)
        else:
            self._steps.append(Step(command, part, act, len(act.payloads)))

    def _charge(self, count: int, size_bytes: int) -> None:
        if self.is_aborted:
            raise TransactionAbortedError("a command before this one was refused; send DISCARD or EXEC")
        if self._count + count > MAX_COMMANDS:
            raise LimitReachedError(f"a transaction has at most {MAX_COMMANDS} commands")
        if self._max_bytes and self._size_bytes + size_bytes > self._max_bytes:
            self._client.broker.limit_counts.reached(Limit.TRANSACTION_BYTES)
            raise LimitReachedError(
                f"the commands of the transaction need {self._size_bytes + size_bytes} bytes; "
                f"at most {self._max_bytes} (-{Limit.TRANSACTION_BYTES})"
            )
        self._client.broker.memory.check()
        self._count += count
        self._size_bytes += size_bytes
        if self._size_bytes - self._charged_bytes >= CHARGED_BYTES:
            self._charged_bytes = self._size_bytes
            charge(self._client, self._size_bytes)

    def end(self) -> None:
        """Leave the transaction; what was queued is not used later, except by EXEC."""
        self._client.mode = self._before
        if self._charged_bytes:
            charge(self._client, 0)

    def _exec(self) -> bytes:
        if self.is_aborted:
            raise TransactionAbortedError
        steps, client = self._steps, self._client
        if not steps:
            return replies.array([])
        acts = [step.act for step in steps if step.act is not None]
        is_at_once = len(acts) == len(steps) and not unique_keys(acts)
        if is_at_once and not client.broker.waking.named([act.topic for act in acts]):
            client.when_room(partial(_execute_now, client, steps, acts))
            return b""
        execution = Execution(client, steps, acts, self._carry_out)
        charge(client, self._size_bytes)
        client.hold()
        client.spawn(execution.begin())
        return b""


def _execute_now(client: Client, steps: Sequence[Step], acts: Sequence[Act]) -> None:
    """Carry out a transaction that is atomic as a whole; its reply comes with the commit."""
    executed = _checked(client, steps, client.broker.transactions.execute_now(acts))
    reply = replies.joined_array(sum(step.count for step in steps), b"".join(_replies(steps, executed)))
    client.wait_for(executed.commit, reply, 1, executed.size_bytes)


def _checked(client: Client, steps: Sequence[Step], result: Executed | Refused) -> Executed:
    """Return the result of a transaction that was carried out; raises TransactionRefusedError."""
    if isinstance(result, Executed):
        return result
    client.broker.limit_counts.note(result.error)
    number, act_index, error = 1, 0, result.error
    for step in steps:
        if step.act is not None:
            if act_index == result.act:
                if step.count > 1:
                    number, error = number + result.message, result.error_of_message()
                break
            act_index += 1
        number += step.count
    raise TransactionRefusedError(f"command {number} of {sum(step.count for step in steps)}", error)


def _replies(steps: Sequence[Step], executed: Executed) -> list[bytes]:
    """Return the replies to the steps of the atomic part."""
    outcomes = iter(executed.outcomes)
    return [step.part.reply(step.act, next(outcomes)) * step.count for step in steps if step.part is not None]


def publish_run(client: Client, run: Run) -> bool:
    """Do at once what MULTI, a run of PUBLISH that the client may send, and EXEC do, and queue the replies.

    Returns whether all that is checked when a command is queued is right; nothing was done if it is not. Raises
    MiniqueueError, which is the reply to EXEC.
    """
    (_, topic), payloads = run
    max_bytes = client.broker.limits.max_transaction_bytes
    if len(payloads) > MAX_COMMANDS or (max_bytes and run_bytes(run) > max_bytes):
        return False  # the command that is too much is refused when it is queued
    try:
        check_topic(topic)
        check_sizes(client, payloads)
        client.broker.memory.check()
    except MiniqueueError:
        return False
    client.reply(replies.OK + QUEUED * len(payloads))
    client.when_room(partial(_publish_now, client, Publish(topic, payloads)))
    return True


def _publish_now(client: Client, act: Publish) -> None:
    """Carry out a transaction of a run; its reply comes with the commit."""
    count = len(act.payloads)
    result = client.broker.transactions.publish(act)
    executed = result if isinstance(result, Executed) else _checked(client, [Step([], PUBLISH, act, count)], result)
    client.wait_for(executed.commit, replies.joined_array(count, replies.OK * count), 1, executed.size_bytes)


def run_bytes(run: Run) -> int:
    """Return the memory of a run that is queued, about."""
    (_, topic), payloads = run
    return sum(map(len, payloads)) + len(payloads) * (WORD_BYTES + len(topic)) + COMMAND_BYTES


class Execution:
    """Carries out the commands of a transaction one by one, among them those of the atomic part.

    The connection carries out the commands of the steps, which are the next ones, with this mode.
    """

    is_subscription = False

    def __init__(self, client: Client, steps: Sequence[Step], acts: Sequence[Act], carry_out: CarryOut) -> None:
        self._client = client
        self._steps = steps
        self._acts = acts
        self._carry_out = carry_out
        self._before: Mode | None = client.mode
        self._position = 0
        self._outcome = Commit()  # done when it is known what became of the atomic part
        self._replies: list[bytes] | None = None
        self._taken: list[Callable[[], None]] = []
        self._max_unsent_bytes = 0
        self._is_committing = False

    async def begin(self) -> None:
        """Begin the reply to EXEC, and let the connection carry out the steps."""
        client = self._client
        if not client.is_closing:
            self._max_unsent_bytes = client.unsent_bytes + MAX_WITHHELD_BYTES
            client.withhold(self._outcome, b"*%d\r\n" % sum(step.count for step in self._steps))
            if not self._acts:
                self._outcome.finish()
            client.put_back([step.command for step in self._steps])
            client.mode = self
        client.release(b"")

    def execute(self, command: Command) -> bytes:
        """Carry out the next step; raises MiniqueueError."""
        step = self._steps[self._position]
        self._position += 1
        if self._position == len(self._steps):
            self._end()
        if step.part is None:
            if self._acts and self._replies is None and self._client.unsent_bytes > self._max_unsent_bytes:
                self._client.hold()
                self._client.spawn(self._give_up())
                return b""
            return self._carry_out(self._client, command, self._taken)
        if self._replies is None:
            self._is_committing = True
            self._client.hold()
            self._client.spawn(self._commit())
            return b""
        return self._replies.pop()

    def abandon(self, *, is_held: bool) -> None:
        """Answer what will not be carried out, as the connection is about to close.

        `is_held`: the step before the next one is not answered yet, either.
        """
        if self._is_committing:
            return  # its outcome is the end of the reply
        if self._acts and self._replies is None:
            self._fail(DrainingError("the broker closes the connection; nothing of the transaction was done"))
            return
        refusal = replies.error(
            DrainingError.code, "the broker closes the connection; this command was not carried out"
        )
        of_parts = self._replies or []
        for step in self._steps[self._position - is_held :]:
            self._client.reply(refusal if step.part is None else of_parts.pop())
        self._end()

    async def _commit(self) -> None:
        """Carry out the atomic part, and give out the replies when it is durable."""
        client = self._client
        try:
            executed = _checked(client, self._steps, await client.broker.transactions.execute(self._acts))
            await executed.commit.wait()
        except MiniqueueError as exc:
            self._fail(exc)
            client.release(b"")
        except Exception:  # a bug must not leave the connection held forever
            log.exception("EXEC failed")
            self._fail(InternalError(INTERNAL_ERROR))
            client.release(b"")
        else:
            self._is_committing = False
            self._replies = _replies(self._steps, executed)[::-1]
            self._outcome.finish()
            client.release(self._replies.pop())

    async def _give_up(self) -> None:
        self._fail(
            LimitReachedError(f"the replies before the first publish or settle exceed {MAX_WITHHELD_BYTES} bytes")
        )
        self._client.release(b"")

    def _fail(self, error: MiniqueueError) -> None:
        """Reply with an error instead of the array: drop what is withheld, and the commands that come next."""
        if self._outcome.is_done:
            return
        client = self._client
        client.take_next(_Next(len(self._steps) - self._position).is_next)
        self._end()
        for take_back in self._taken:
            take_back()
        client.drop_withheld(self._outcome)
        self._outcome.finish(error)

    def _end(self) -> None:
        self._client.mode = self._before
        charge(self._client, 0)


class _Next:
    """Takes a number of commands."""

    def __init__(self, count: int) -> None:
        self._count = count

    def is_next(self, _command: Parsed) -> bool:
        """Return whether a command is among the next ones."""
        self._count -= 1
        return self._count >= 0


def charge(client: Client, size_bytes: int) -> None:
    """Charge the memory of the queued commands."""
    if (account := client.session.actor.account) is not None:
        account.put(Purpose.TRANSACTIONS, size_bytes)


def check_sizes(client: Client, payloads: Sequence[bytes]) -> None:
    """Raise PayloadTooLargeError if a payload is larger than the broker accepts."""
    max_bytes = client.broker.max_message_bytes
    if (longest_bytes := max(map(len, payloads))) > max_bytes:
        raise PayloadTooLargeError(longest_bytes, max_bytes)


def outside(_client: Client, command: Command) -> bytes:
    """Refuse EXEC and DISCARD of a client that has not sent MULTI."""
    raise RequestError(f"{command[0].upper().decode()} without MULTI")


def watch(_client: Client, _command: Command) -> bytes:
    """Refuse WATCH: a client that relies on it must not go on."""
    raise RequestError(NO_WATCH)


def unwatch(_client: Client, _command: Command) -> bytes:
    """Confirm UNWATCH: nothing is watched."""
    return replies.OK
