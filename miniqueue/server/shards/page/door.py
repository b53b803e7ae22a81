"""The door of a process for the live page: a session is served by the process in which it began.

    a cookie with 2-4f1c… ─▶ shard 2, through a tunnel: it knows the session         no session: this process

Streams are passed on, too, so that everything that a session has ends with it.
"""

import re
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.asgi.replies import error_reply
from miniqueue.server.asgi.request import HttpActor
from miniqueue.server.dashboard.gate import cookie_name, token_in
from miniqueue.server.dashboard.replies import secured
from miniqueue.server.shards.http.door import PASSED_BYTES
from miniqueue.server.shards.http.owners import Owners

_PREFIX: Final = re.compile(r"([0-9]{1,3})-")
#: Paths of which only the files are the same in all processes.
_SESSION: Final = "/ui/session"
_OF_SESSIONS: Final = ("/ui/api", "/ui/data", "/ui/live", _SESSION)


def session_prefix(shard: int) -> str:
    """Return the beginning of the tokens of the sessions of a shard."""
    return f"{shard}-"


class PageDoor:
    """Passes the requests of sessions on.

    Args:
      app: the application of the monitoring port of this process, with the page.
      owners: the owners of all shards, of the monitoring port.
      memory: the accounts of the memory that clients use.
      port: the number of the port, for the name of the cookie.
    """

    def __init__(self, app: ASGIApp, owners: Owners, memory: Memory, port: int) -> None:
        self._app = app
        self._memory = memory
        self._owners = owners
        self._cookie_name = cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        shard = self._shard_of(scope)
        if shard is None:
            await self._app(scope, receive, send)
            return
        account = HttpActor(scope, self._memory).account
        account.add(Purpose.REQUESTS, PASSED_BYTES)
        try:
            await self._owners.pass_on(shard, scope, receive, send)
        except ShardAwayError as error:
            if scope["path"] != _SESSION:
                await error_reply(error)(scope, receive, secured(send))
            else:  # the session may have ended with its process; a person can sign in again here
                await self._app(scope, receive, send)
        except MiniqueueError as error:
            await error_reply(error)(scope, receive, secured(send))
        finally:
            account.add(Purpose.REQUESTS, -PASSED_BYTES)

    def _shard_of(self, scope: Scope) -> int | None:
        """Return the shard of the session of a request, if it is another than this one."""
        if scope["type"] != "http" or not scope["path"].startswith(_OF_SESSIONS):
            return None
        if any(name == b"authorization" for name, _ in scope["headers"]):
            return None
        match = _PREFIX.match(token_in(scope, self._cookie_name))
        shard = None if match is None else int(match[1])
        return shard if shard in self._owners.numbers and shard != self._owners.placing.number else None
