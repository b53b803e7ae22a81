"""The mode of a connection that has subscribed at the owner of a topic: commands and deliveries pass as they come."""

from functools import partial

from miniqueue.server.resp.commands import table
from miniqueue.server.resp.router import RoutedClient
from miniqueue.server.shards.links.link import Batch, Link, Tunneled
from miniqueue.wire.resp_parser import Command, encode_command


class Tunnel:
    """A tunnel, from its construction until the owner ends it.

    Args:
      client: the connection.
      link: leads to the owner.
    """

    is_subscription = True

    def __init__(self, client: RoutedClient, link: Link) -> None:
        self._client = client
        self._link = link
        self._has_ended = False
        link.open_tunnel(Tunneled(client.send, self._end))

    def execute(self, command: Command) -> bytes:
        """Send a command on; RESET ends the tunnel, after what the owner has sent before."""
        if command[0].upper() == b"RESET":
            self._client.hold()
            self._link.send(encode_command(command), Batch(self._client.send, self._reset, lambda _: self._end()))
        else:
            self._link.write(encode_command(command))
            if not self._link.has_room(partial(self._client.release, b"")):
                self._client.hold()
        return b""

    def end(self) -> None:
        """Close our half of the link, as the client has closed its half of the connection."""
        if not self._has_ended:
            self._has_ended = True
            self._link.end()

    def _reset(self, rest: bytes) -> None:
        self._client.mode = None
        table.execute(self._client, [b"RESET"])  # the owner has answered
        self._client.release(rest)

    def _end(self) -> None:
        """End the connection: its owner has ended, or has ended the stream."""
        if self._client.mode is self:
            self._client.mode = None
            self._client.close_when_sent()
