"""`POST /topics/{topic}/receive`, and `POST /receive` for several topics: receive messages once, as JSON lines.

    request ──▶ a request in the topic's queue of consumers ──▶ {"receipt":…,"msg":…}
       └ the client disconnects ─▶ out of the queue, before messages are delivered in vain

    POST /receive?topic=orders&topic=letters&pattern=jobs.*    ──▶ {"topic":…,"receipt":…,"msg":…}

The reply is sent when there are messages, or when the wait time is over. Leases of received messages do not belong to a
connection, so the reply is sent as a whole; if it gets lost, the leases expire and the messages are redelivered.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

from starlette.types import ASGIApp, Receive, Scope

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.broker import Broker
from miniqueue.broker.leases.receive import ReceiveResult, Receiving
from miniqueue.broker.leases.receive_any import ReceivedAny
from miniqueue.broker.runtime.share import TimeShare, Work
from miniqueue.core.message.parts import whole_of
from miniqueue.core.options.consume import parse_receive_options
from miniqueue.core.options.topic_choice import parse_choice
from miniqueue.errors import MiniqueueError
from miniqueue.server.asgi.replies import JSON_LINES, Reply
from miniqueue.server.asgi.request import OFFER_KEY, lists_of, query_of
from miniqueue.server.asgi.routing import topic_within
from miniqueue.server.http.open_streams import OpenStreams, StreamEndpoint, WaitsForAnswer
from miniqueue.wire.receive_replies import json_messages, json_messages_of

_OPTIONS = ("group", "member", "count", "wait", "lease", "autoack")

ResultT = TypeVar("ResultT")


def receive_endpoints(broker: Broker, streams: OpenStreams) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path."""
    return {
        ("POST", "/topics/{topic}/receive"): StreamEndpoint(streams, partial(_receive, broker), only_waits=True),
        ("POST", "/receive"): StreamEndpoint(streams, partial(_receive_any, broker), only_waits=True),
    }


def _receive(broker: Broker, scope: Scope) -> "_WaitsForMessages[ReceiveResult]":
    options = parse_receive_options(query_of(scope, _OPTIONS))
    return _WaitsForMessages(broker.share, partial(broker.leases.receive, topic_within(scope), options), _encode)


def _receive_any(broker: Broker, scope: Scope) -> "_WaitsForMessages[ReceivedAny]":
    query, lists = lists_of(scope, _OPTIONS, ("topic", "pattern"))
    choice = parse_choice(lists["topic"], lists["pattern"])
    options, user = parse_receive_options(query), scope.get("user")
    for name in choice.names:
        check_permitted(user, Right.CONSUME, name, f"POST /receive of the topic '{name.decode()}'")
    reach = list if user is None else user.consumable
    return _WaitsForMessages(
        broker.share, partial(broker.several.receive, choice, options, reach), _encode_any, scope.get(OFFER_KEY)
    )


def _encode(received: ReceiveResult) -> Work[bytes]:
    return json_messages(*received)


def _encode_any(received: ReceivedAny) -> Work[bytes]:
    return json_messages_of((whole_of(topic), *result) for topic, result in received)


class _WaitsForMessages(WaitsForAnswer[ResultT], Generic[ResultT]):
    """One request, which waits in the queues of consumers from its construction; raises MiniqueueError.

    Args:
      share: divides the time of the event loop: a long reply is made in turns.
      begin: requests the messages.
      encode: makes the body of the reply.
      offer: called with messages before they are in a reply; returns whether they are taken. None: they are.
    """

    def __init__(
        self,
        share: TimeShare,
        begin: Callable[[Callable[[ResultT], None], Callable[[MiniqueueError], None]], Receiving],
        encode: Callable[[ResultT], Work[bytes]],
        offer: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        super().__init__()
        self._share = share
        self._offer = offer
        self._encode = encode
        self._receiving = begin(self.answer, self.fail)

    async def obtain(self, receive: Receive) -> Reply | None:
        """Return the received messages, or None if the client has disconnected; raises MiniqueueError."""
        body = None
        try:
            received = await self.wait(receive)
            if received is not None and (self._offer is None or not received or await self._offer()):
                body = await self._share.finish(self._encode(received))
        finally:
            if body is None:
                self._receiving.take_back()
        return None if body is None else Reply(200, body, JSON_LINES)

    def end(self) -> None:
        """Stop waiting, and answer without messages."""
        self._receiving.give_up()
