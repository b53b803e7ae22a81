"""All RESP connections of a broker: where they begin, and how they end together."""

import time
from itertools import count

from miniqueue.broker import Broker
from miniqueue.server.resp import RespConnection
from miniqueue.server.resp_refusals import RespRefusals
from miniqueue.server.resp_turns import TURN_SECONDS, Turns
from miniqueue.server.sign_in import SignIn


class RespServer:
    """Accepts connections for a broker.

    Args:
      broker: what they all use.
      parameters: what CONFIG GET shows.
      sign_in: knows the users; None where everybody may do everything.
      max_output_bytes: how much of its replies a client may leave lying; None for the usual.
      turn_seconds: of a turn of the loop, for those who pipeline many, all together.
    """

    #: What a connection is told for which there is no descriptor; Redis says the same.
    refusal = b"-ERR max number of clients reached\r\n"

    def __init__(
        self,
        broker: Broker,
        parameters: dict[str, str],
        sign_in: SignIn | None = None,
        max_output_bytes: int | None = None,
        turn_seconds: float = TURN_SECONDS,
    ) -> None:
        self.broker = broker
        self.parameters = parameters
        self.sign_in = sign_in
        self.max_output_bytes = max_output_bytes
        self.connections: dict[int, RespConnection] = {}
        self.next_id = count(1)
        self.started_at = time.monotonic()
        self.connections_received = 0
        self._commands_of_closed = 0
        self.turns = Turns(turn_seconds)
        self.refusals = RespRefusals(time.monotonic)

    def __call__(self) -> RespConnection:
        """Make the protocol object of a new connection."""
        return RespConnection(self)

    @property
    def commands_processed(self) -> int:
        """Number of commands that were carried out since the start."""
        return self._commands_of_closed + sum(one.command_count for one in self.connections.values())

    def add(self, connection: RespConnection) -> None:
        """Note a connection that begins."""
        self.connections[connection.session.id] = connection
        self.connections_received += 1

    def remove(self, connection: RespConnection) -> None:
        """Forget a connection that has ended."""
        del self.connections[connection.session.id]
        self._commands_of_closed += connection.command_count

    def all_connections(self) -> list[RespConnection]:
        """Return those that there are."""
        return list(self.connections.values())

    def answer_waiting(self) -> None:
        """Have everybody answered who waits for messages or for a reply."""
        for connection in list(self.connections.values()):
            connection.give_up_waiting()

    def drain(self) -> None:
        """Return every lease, send what is ready, and close every connection."""
        for connection in list(self.connections.values()):
            connection.leave()
            connection.close_when_sent()

    def cut_off(self) -> None:
        """End the connections of users who are not what they were; what they held goes back."""
        for connection in list(self.connections.values()):
            if connection.guard is not None and not connection.guard.is_current:
                connection.leave()
                connection.close_when_sent()
