"""A request for messages that waits in several shards at once: the first that has messages answers.

    RECEIVEANY … WAIT ─┬─▶ shard 0 ─ messages ─▶ the reply
                       ├─▶ shard 1 ◀─ GIVE-UP ─┘ ─ no messages
                       └─▶ shard 2 ◀─ GIVE-UP ─┘ ─ messages that it had just leased ─▶ they return (`returning`)

Nothing is done until a shard answers. If none has messages in time, the last answer is the reply.

What has been leased when the client leaves returns, too: of a command that waits in one shard (`PassedOn`), as of one
that waits in several.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from miniqueue.server.resp.commands.context import Presence, Waiting
from miniqueue.server.resp.router import RoutedClient
from miniqueue.server.shards.links.link import Batch, Failure, Link
from miniqueue.server.shards.resp.receiving import EMPTY
from miniqueue.server.shards.resp.returning import is_there
from miniqueue.wire.resp_parser import Command, encode_command


class Waits(Presence):
    """A command that concerns several shards, as long as its client waits for the reply.

    Attributes:
      act: what waits for it now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.act: Waiting | None = None

    def give_up(self) -> None:
        """Stop the act: the client has left, or must not wait."""
        super().give_up()
        if self.act is not None:
            self.act.give_up()

    def wait_no_longer(self) -> None:
        """Answer now, with what there is."""
        super().give_up()
        if self.act is not None:
            self.act.wait_no_longer()


class PassedOn:
    """A command that waits in one shard, from its construction to its reply.

    Args:
      client: gets the reply.
      link: leads to the shard.
      take_back: returns the messages in a reply that the client cannot get.
    """

    def __init__(self, client: RoutedClient, link: Link, take_back: Callable[[bytes], None]) -> None:
        self._client = client
        self._link: Link | None = link
        self._take_back = take_back
        self._kept: list[bytes] = []  # parts of the reply for a client that has left
        self._is_sent = False

    def give_up(self) -> None:
        """End the wait; if the client has left, nothing is leased any more."""
        link, self._link = self._link, None
        if link is not None and is_there(self._client):
            link.end_wait()
        elif link is not None:
            link.give_up()

    def wait_no_longer(self) -> None:
        """End the wait: the owner answers with what there is."""
        link, self._link = self._link, None
        if link is not None:
            link.end_wait()

    def take_part(self, part: bytes) -> None:
        """Pass on a part of a long reply."""
        if self._is_sent or is_there(self._client):
            self._is_sent = True
            self._client.send(part)
        else:
            self._kept.append(part)

    def take(self, rest: bytes) -> None:
        """Pass on the rest of the reply."""
        self._link = None
        if not self._is_sent and not is_there(self._client):
            self._take_back(b"".join([*self._kept, rest]))
        self._client.release(rest)


class WaitingShards:
    """One request.

    Args:
      take_back: returns the messages in a reply that comes after the first.
    """

    def __init__(self, take_back: Callable[[bytes], None]) -> None:
        self._take_back = take_back
        self._links: dict[int, Link] = {}  # the links to the shards that have not answered
        self._first: asyncio.Future[bytes | Failure] = asyncio.get_running_loop().create_future()

    def ask(self, shard: int, link: Link, command: Command) -> None:
        """Send the command by which a shard waits for messages."""
        self._links[shard] = link
        link.send(encode_command(command), Batch(None, partial(self._take, shard), partial(self._fail, shard)))

    async def first(self) -> bytes | Failure:
        """Return the messages of the first shard that has some, an error, or no messages; or why a shard has ended."""
        return await self._first

    def give_up(self) -> None:
        """Answer now: the shards return what they are about to lease."""
        for link in self._links.values():
            link.give_up()

    def wait_no_longer(self) -> None:
        """Answer with what there is."""
        for link in self._links.values():
            link.end_wait()

    def _take(self, shard: int, reply: bytes) -> None:
        del self._links[shard]
        if self._first.done():
            self._take_back(reply)
        elif reply != EMPTY or not self._links:
            self._finish(reply)

    def _fail(self, shard: int, failure: Failure) -> None:
        del self._links[shard]
        if not self._first.done():
            self._finish(failure)

    def _finish(self, reply: bytes | Failure) -> None:
        self._first.set_result(reply)
        self.give_up()
