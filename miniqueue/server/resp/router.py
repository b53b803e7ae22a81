"""What leads the commands of a connection to other processes of a broker with shards. Without shards, there is none."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from miniqueue.broker.runtime.accounts import MemoryAccount
from miniqueue.errors import MiniqueueError
from miniqueue.server.cluster.nodes import Nodes
from miniqueue.server.resp.commands.context import Client
from miniqueue.server.resp.guard import Guard
from miniqueue.server.resp.keyed import KeyedRun
from miniqueue.server.resp.replies import LateReply
from miniqueue.wire.resp_reader import Parsed


class Router(Protocol):
    """Passes on what does not concern this process alone."""

    def execute(self, command: Parsed) -> bool:
        """Carry out a command, and see to its reply, if it concerns other processes; return whether it does."""
        ...

    def publish_keyed(self, run: KeyedRun) -> bool:
        """Publish messages with keys, and see to their replies, if they concern others; return whether they do."""
        ...

    def own(self, command: Parsed) -> Parsed | None:
        """Return a command as this process carries it out; None if it concerns other processes."""
        ...

    def pause(self) -> None:
        """Read no replies until `resume`: the client does not read them."""
        ...

    def resume(self) -> None:
        """Read replies again."""
        ...

    def end(self) -> bool:
        """Note that the client sends no more; return whether the router closes the connection, after last replies."""
        ...

    def leave(self) -> None:
        """End what other processes do for the client, which leaves: they return what it holds."""
        ...


class RoutedClient(Client, Protocol):
    """A connection, as its router sees it."""

    guard: Guard | None
    account: MemoryAccount

    def refusal(self, error: MiniqueueError) -> bytes:
        """Return the reply that reports an error."""
        ...

    def await_reply(self, size_bytes: int) -> LateReply:
        """Queue the reply to a command that another process carries out."""
        ...

    def await_more(self, late: LateReply, size_bytes: int) -> bool:
        """Put the reply to a command into `late`, too; return False if other replies come after that."""
        ...

    def give_out(self, late: Sequence[LateReply], texts: Sequence[bytes]) -> None:
        """Give replies to what waits for them."""
        ...

    def abort(self) -> None:
        """End the connection at once."""
        ...


class Routing(NamedTuple):
    """What a process among several has for its connections.

    Attributes:
      new_router: makes the router of a connection.
      ids: the ids of connections, which no other process gives.
      nodes: the processes, as clients see them.
    """

    new_router: Callable[[RoutedClient], Router]
    ids: Iterator[int]
    nodes: Nodes
