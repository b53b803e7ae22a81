"""What one shard has of a read model, for the process that makes the whole: a port that only other shards reach.

    {"view":"overview"}                                         the read model of this shard
    {"view":"topics?q=eu","names":["eu.orders"],"first":50}     these topics, and the order of the first that match

The process that asks names the user, and each shard applies the rights of that user.
"""

from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.access.users import User
from miniqueue.broker import Broker
from miniqueue.errors import NotAuthenticatedError
from miniqueue.server.asgi.endpoints import JsonBodyEndpoint
from miniqueue.server.asgi.replies import Reply, json_reply
from miniqueue.server.asgi.request import SIGNED_IN_KEY
from miniqueue.server.dashboard.app import MODELS
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.dashboard.models.model import Context, Models, Open, options_of
from miniqueue.server.dashboard.models.topics import TOPICS, criteria_of, look
from miniqueue.server.security.authentication import Authenticator

#: The names of a page of topics, and a view.
MAX_BODY_BYTES: Final = 1 << 20


#: Maximum number of rows of a list: as many as there can be.
ALL: Final = 1 << 30


def new_parts(broker: Broker, facts: Facts, sign_in: Authenticator | None) -> ASGIApp:
    """Return what answers the other shards; the arguments are those of the page."""
    context = Context(broker, facts, sign_in, ALL)
    return Parts(context, Models(context, MODELS).open)


class Parts:
    """Answers the other shards.

    Args:
      context: what read models are made of.
      open_own: opens the read models of this shard.
    """

    def __init__(self, context: Context, open_own: Open) -> None:
        self._context = context
        self._open = open_own
        self._endpoint = JsonBodyEndpoint(self._answer, MAX_BODY_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._endpoint(scope, receive, send)

    async def _answer(self, scope: Scope, asked: Any) -> Reply:  # noqa: ANN401 - what another shard has sent
        user: User | None = scope.get(SIGNED_IN_KEY)
        if user is None and self._context.sign_in is not None:
            raise NotAuthenticatedError
        view = asked["view"].encode("latin-1")
        if "names" not in asked:
            return json_reply(200, await self._open(view, user)())
        options = options_of(view.partition(b"?")[2], TOPICS.parameters)
        return json_reply(200, await look(self._context, user, criteria_of(options), asked["names"], asked["first"]))
