"""What a RESP command knows of its surroundings: the client that sent it, the other clients, and nothing of sockets.

    command ─▶ Client ─▶ broker, session, guard
                 │ └───▶ ServerState: the other clients, the settings that CONFIG GET shows
                 └ reply now, with a commit (`wait_for`), or later (`answer_later`, which holds the connection)

The connection implements `Client`; commands never import it.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import structlog

from miniqueue.access.rights import Right
from miniqueue.access.users import User, check_letters
from miniqueue.broker import Broker, Commit
from miniqueue.broker.acts.task import Task
from miniqueue.errors import MiniqueueError, RequestError
from miniqueue.server.cluster.nodes import Nodes
from miniqueue.server.resp.commands.session import Session
from miniqueue.server.resp.commands.subscribe import Stream
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_reader import Parsed

log = structlog.get_logger()

#: The reply to a command that failed because of a bug.
INTERNAL_ERROR: Final = "internal error; see the broker's log"


class ClientGoneError(RequestError):
    """The client has left; no messages are delivered to it."""


class Waiting(Protocol):
    """A command that can wait for a long time but does not have to.

    The kernel reports a closed socket as it reports a half-closed one, so a client that sends no more may have gone. It
    gets what was available when it sent the command, and no messages that arrive later; and a consumer must not be
    assured that its reply has reached that client.
    """

    def give_up(self) -> None:
        """Answer the command now."""
        ...

    def wait_no_longer(self) -> None:
        """Answer the command now, or as soon as what was available before has been read."""
        ...


class Mode(Protocol):
    """Carries out the commands of a connection instead of the table: a stream, channels, or a transaction.

    Attributes:
      is_subscription: whether the client waits for what is sent to it.
    """

    is_subscription: bool

    def execute(self, command: Command) -> bytes:
        """Carry out one command; return its reply, empty if it has been queued. Raises MiniqueueError."""
        ...


class HeldByGet(NamedTuple):
    """A message that a connection holds by GET.

    Attributes:
      receipt: settles the message.
      take_back: returns the message to the front of its topic, unless it has been settled.
    """

    receipt: bytes
    take_back: Callable[[], None]


class Access(Protocol):
    """Checks what a client may do. A broker without users has none."""

    @property
    def user(self) -> User | None:
        """The user that the client has authenticated as; None until then."""
        ...

    @property
    def is_current(self) -> bool:
        """Whether the user, if there is one, still exists unchanged."""
        ...

    def check(self, command: Command) -> None:
        """Raise NotAuthenticatedError or NotPermittedError unless the user may send this command."""
        ...

    def check_everything(self, right: Right, command: Command) -> None:
        """Raise NotPermittedError unless the user has a right on the broker as a whole."""
        ...

    def begin(self, name: bytes | None, secret: bytes, finish: Callable[[], bytes]) -> None:
        """Check a secret and hold the connection meanwhile; `finish` makes the reply if the secret is right."""
        ...

    def forget(self) -> None:
        """Return to the state at the start of the connection, for RESET."""
        ...


class Client(Protocol):
    """The client that sent a command, and the queue of replies to it.

    Attributes:
      stream: the stream of a subscribed client.
      mode: carries out the commands instead of the table; the stream, or what suspends it.
      command_count: number of commands that were carried out.
      held: the messages that the connection holds by GET, by topic.
    """

    stream: Stream | None
    mode: Mode | None
    command_count: int

    @property
    def broker(self) -> Broker:
        """The broker of the listener."""
        ...

    @property
    def server(self) -> "ServerState":
        """What all connections of the listener share."""
        ...

    @property
    def session(self) -> Session:
        """What the client said about itself."""
        ...

    @property
    def guard(self) -> Access | None:
        """Checks what the client may do; None if the broker has no users."""
        ...

    @property
    def user(self) -> User | None:
        """The user that the client has authenticated as; None if the broker has no users."""
        ...

    @property
    def held(self) -> dict[bytes, HeldByGet]:
        """The messages that the connection holds by GET, by topic."""
        ...

    @property
    def is_blocked(self) -> bool:
        """Whether a command waits for messages or for a reply."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether the client sends no more; it may still read, or have gone."""
        ...

    @property
    def is_link(self) -> bool:
        """Whether another process has accepted the client, and passes on what concerns this one."""
        ...

    @property
    def is_slow(self) -> bool:
        """Whether the client does not read its replies."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether nothing more is to be replied."""
        ...

    def check_client(self) -> None:
        """Raise ClientGoneError if the client has gone: it cannot take messages."""
        ...

    def reply(self, reply: bytes, /) -> None:
        """Queue a reply; it is sent after all replies before it."""
        ...

    def send(self, reply: bytes, /) -> None:
        """Send a reply now, after all replies before it."""
        ...

    def wait_for(self, commit: Commit, reply: bytes, times: int = 1, size_bytes: int = 0, /) -> None:
        """Send `reply`, repeated `times`, when `commit` is done; if it fails, its error as often.

        `size_bytes` is the size of the payloads and attributes in the commit.
        """
        ...

    def publish(self, topic: bytes, payloads: list[bytes]) -> None:
        """Publish messages and queue their replies, now or when there is room."""
        ...

    def when_room(self, publish: Callable[[], None]) -> None:
        """Call what publishes and queues its reply, now or when there is room. Raises MiniqueueError."""
        ...

    def after_writes(self, act: Callable[[], bytes]) -> bytes:
        """Return the reply of `act`, or nothing if it comes after the commit of what this connection wrote."""
        ...

    def in_own_turn(self, act: Callable[[], bytes]) -> bytes:
        """Return nothing; the reply of `act` comes in another turn, after the commit of what this connection wrote."""
        ...

    def hold(self, waiting: Waiting | None = None) -> None:
        """Carry out nothing more until `release`: the reply to a command is being made elsewhere."""
        ...

    def release(self, reply: bytes) -> None:
        """Queue the reply that the connection was held for, if it is not empty, and carry out the next commands."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a task that outlives the command; return it."""
        ...

    def take_next(self, is_wanted: Callable[[Parsed], bool]) -> list[Parsed]:
        """Take the next commands as long as they are wanted; for a command that holds the connection."""
        ...

    def put_back(self, commands: Sequence[Parsed]) -> None:
        """Make commands the next ones; for a command that holds the connection, or is carried out in part."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """Size of the replies since all had last been handed to the transport."""
        ...

    def withhold(self, outcome: Commit, reply: bytes) -> None:
        """Send `reply`, or the error of `outcome`, when that is done; withhold what is queued after it until then."""
        ...

    def drop_withheld(self, outcome: Commit) -> None:
        """Drop the replies that were queued after the one that waits for `outcome`."""
        ...

    def leave(self) -> None:
        """End the stream, return what is held, and answer a command that waits."""
        ...

    def close_when_sent(self) -> None:
        """Read no more, and close when the last reply has been sent."""
        ...

    def close_soon(self) -> None:
        """Close when the last reply has been sent, or at once if the client does not read its replies."""
        ...


class ServerState(Protocol):
    """What commands know of the listener and of its other clients."""

    @property
    def parameters(self) -> Mapping[str, str]:
        """The settings that CONFIG GET shows, by name."""
        ...

    @property
    def nodes(self) -> Nodes:
        """The processes to which clients connect."""
        ...

    @property
    def started_at(self) -> float:
        """When the listener started, on the monotonic clock, in seconds."""
        ...

    @property
    def connections_received(self) -> int:
        """Number of connections since the start."""
        ...

    @property
    def commands_processed(self) -> int:
        """Number of commands that were carried out since the start."""
        ...

    def clients(self) -> Collection[Client]:
        """Return the clients that are connected."""
        ...

    def linked(self) -> Collection[Client]:
        """Return the clients of other processes that use this one."""
        ...


def answer_later(client: Client, work: Coroutine[Any, Any, bytes], waiting: Waiting | None = None) -> bytes:
    """Hold the connection until `work` has made the reply, or has raised the error that is the reply.

    `waiting` is notified when the client leaves. Returns nothing: the reply is queued later.
    """
    client.hold(waiting)
    task = client.spawn(_answer(client, work))
    task.add_done_callback(lambda _: work.close())  # it never began if the task was cancelled before that
    return b""


async def _answer(client: Client, work: Coroutine[Any, Any, bytes]) -> None:
    try:
        reply = await work
    except MiniqueueError as exc:
        reply = replies.error(exc.code, str(exc))
    except Exception:  # a bug must not leave the connection held forever
        log.exception("a RESP command failed")
        reply = replies.error("ERR", INTERNAL_ERROR)
    client.release(reply)


class Presence:
    """Whether the client waits for the reply; it is read from meanwhile, to notice that it leaves."""

    def __init__(self) -> None:
        self.is_waiting = True

    def give_up(self) -> None:
        """Stop the act: the client has left."""
        self.is_waiting = False

    wait_no_longer = give_up


async def begin_task(client: Client, task: Task) -> bytes:
    """Begin an act on many messages that continues without the client; return the reply: its id."""
    await locate(client, task)
    return replies.bulk(b"%d" % await client.broker.tasks.begin(task))


async def locate(client: Client, task: Task) -> None:
    """Prepare an act on many messages, if its client may act on the topic that contains them."""
    await client.broker.by_filter.locate(task, partial(check_letters, client.user))
