"""What the RESP connections of one listener share: made once by the listener, handed to each connection."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from miniqueue.broker import Broker
from miniqueue.server.cluster.nodes import ONE_NODE, Nodes
from miniqueue.server.resp.commands.context import Client
from miniqueue.server.resp.refusals import RespRefusals
from miniqueue.server.resp.router import RoutedClient, Router
from miniqueue.server.resp.turns import LoopShare
from miniqueue.server.security.authentication import Authenticator


class Connection(Client, Protocol):
    """A connection, as the listener sees it."""

    @property
    def is_link(self) -> bool:
        """Whether another process of the broker has accepted the client, and counts it."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for messages or for replies."""
        ...

    def give_up_waiting(self) -> None:
        """Answer the command that waits, if there is one."""
        ...

    def close_when_answered(self) -> None:
        """Answer the command that holds the connection, if there is one; then close."""
        ...


@dataclass(eq=False)
class Shared:
    """What the connections of one listener share.

    Attributes:
      parameters: the settings that CONFIG GET shows.
      sign_in: authenticates users; None: every client may do everything.
      max_output_bytes: maximum size of the replies that a client has not read; None: the default of `closing`.
      turns: shares the event loop between connections that send many commands.
      started_at: monotonic time of the start, in seconds.
      connections: the open connections, by the id of their session.
      new_router: makes the router of a connection; None: there are no shards.
      nodes: the processes to which clients connect.
      links: those of clients that another process of the broker has accepted.
      closed_command_count: number of commands that closed connections had carried out.
    """

    broker: Broker
    parameters: Mapping[str, str]
    sign_in: Authenticator | None
    max_output_bytes: int | None
    turns: LoopShare
    refusals: RespRefusals = field(default_factory=lambda: RespRefusals(time.monotonic))
    started_at: float = field(default_factory=time.monotonic)
    next_id: Iterator[int] = field(default_factory=lambda: count(1))
    connections: dict[int, Connection] = field(default_factory=dict)
    new_router: Callable[[RoutedClient], Router] | None = None
    nodes: Nodes = ONE_NODE
    links: set[Connection] = field(default_factory=set)
    connections_received: int = 0
    closed_command_count: int = 0

    @property
    def commands_processed(self) -> int:
        """Number of commands that were carried out since the start."""
        return self.closed_command_count + sum(client.command_count for client in self.connections.values())

    def clients(self) -> Collection[Client]:
        """Return the clients that are connected."""
        return self.connections.values()

    def linked(self) -> Collection[Client]:
        """Return the clients of other processes that use this one."""
        return self.links

    def add(self, connection: Connection) -> None:
        """Register a new connection."""
        if connection.is_link:
            self.links.add(connection)
        else:
            self.connections[connection.session.id] = connection
            self.connections_received += 1

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        if connection.is_link:
            self.links.remove(connection)
        else:
            del self.connections[connection.session.id]
            self.closed_command_count += connection.command_count
