"""The RESP listener: makes a connection for each client, and ends all of them."""

from collections.abc import Iterator, Mapping

from miniqueue.broker import Broker
from miniqueue.server.resp.commands.connection import described
from miniqueue.server.resp.connection import RespConnection
from miniqueue.server.resp.router import Routing
from miniqueue.server.resp.shared import Connection, Shared
from miniqueue.server.resp.turns import TURN_SECONDS, LoopShare
from miniqueue.server.security.authentication import Authenticator
from miniqueue.server.views.clients import ConnectedClient


class RespServer:
    """Accepts RESP connections for a broker.

    Args:
      broker: serves all connections.
      parameters: the settings that CONFIG GET shows.
      sign_in: authenticates users; None: every client may do everything.
      max_output_bytes: maximum size of the replies that a client has not read; None: the default of Redis.
      routing: what a process among several has for its connections; None: there are no shards.
      turn_seconds: time per event-loop iteration for all clients that pipeline many commands.
    """

    #: The reply to a connection for which there is no file descriptor; Redis sends the same.
    refusal = b"-ERR max number of clients reached\r\n"

    def __init__(
        self,
        broker: Broker,
        parameters: Mapping[str, str],
        sign_in: Authenticator | None = None,
        max_output_bytes: int | None = None,
        turn_seconds: float = TURN_SECONDS,
        *,
        routing: Routing | None = None,
    ) -> None:
        turns = LoopShare(turn_seconds, is_gathering=broker.is_gathering, others=broker.others)
        self.shared = Shared(broker, parameters, sign_in, max_output_bytes, turns)
        if routing is not None:
            self.shared.new_router, self.shared.next_id, self.shared.nodes = routing
        self.connections = self.shared.connections
        self.refusals = self.shared.refusals

    def __call__(self) -> RespConnection:
        """Make the protocol object of a new connection."""
        return RespConnection(self.shared)

    @property
    def commands_processed(self) -> int:
        """Number of commands that were carried out since the start."""
        return self.shared.commands_processed

    def all_connections(self) -> list[Connection]:
        """Return the open connections."""
        return list(self.connections.values())

    def _with_links(self) -> list[Connection]:
        return [*self.shared.links, *self.connections.values()]

    def listed(self) -> Iterator[ConnectedClient]:
        """Yield the clients that are connected."""
        for connection in self.all_connections():
            yield described(connection)

    def answer_waiting(self) -> None:
        """Answer every client that waits for messages or for a reply."""
        for connection in self._with_links():
            connection.give_up_waiting()

    def drain(self) -> None:
        """Return every lease, and close every connection when the commands in progress have been answered."""
        for connection in self._with_links():
            connection.leave()
            connection.close_when_answered()

    def cut_off(self) -> None:
        """Close the connections of users that were changed or removed; the messages that they hold are returned."""
        for connection in self._with_links():
            if connection.guard is not None and not connection.guard.is_current:
                connection.leave()
                connection.close_when_sent()
