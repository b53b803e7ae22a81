"""The live page of one process, made when it is asked for the first time, so that a startup does not wait for it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from miniqueue.broker import Broker
from miniqueue.server.asgi.late import LateApp
from miniqueue.server.asgi.replies import NOT_FOUND
from miniqueue.server.security.authentication import Authenticator

if TYPE_CHECKING:
    from miniqueue.server.dashboard.app import DashboardApp
    from miniqueue.server.dashboard.models.facts import Facts
    from miniqueue.server.shards.shard import Shard


class Page:
    """The live page.

    Args:
      monitoring: the application of the monitoring port, which answers all other paths.
      queue: the application of the queue for clients.
      broker: the broker.
      sign_in: authenticates users; None: there are none.
      facts: returns what is shown of the process.
      shard: the place of the process among the shards; None: there is only this process.

    Attributes:
      app: the application of the monitoring port, with the page.
      parts: with shards, answers what other processes ask of the page of this one.
    """

    def __init__(
        self,
        monitoring: ASGIApp,
        queue: ASGIApp,
        broker: Broker,
        sign_in: Authenticator | None,
        facts: "Callable[[], Facts]",
        shard: "Shard | None" = None,
    ) -> None:
        self._monitoring = monitoring
        self._queue = queue
        self._broker = broker
        self._sign_in = sign_in
        self._facts = facts
        self._shard = shard
        self._made: DashboardApp | None = None
        self._is_draining = False
        self.app = LateApp(monitoring, _is_of_page, "miniqueue.server.dashboard.app", self._make)
        self.parts = LateApp(NOT_FOUND, lambda _: True, "miniqueue.server.shards.page.parts", self._make_parts)

    def _make(self) -> ASGIApp:
        from miniqueue.server.dashboard.app import DashboardApp  # noqa: PLC0415 - a startup does not wait for it

        sharing = None if self._shard is None else self._shard.page_sharing(self._broker)
        made = DashboardApp(self._monitoring, self._queue, self._broker, self._sign_in, self._facts(), sharing=sharing)
        self._made = made
        if self._is_draining:
            made.drain()
        return made

    def _make_parts(self) -> ASGIApp:
        from miniqueue.server.shards.page.parts import new_parts  # noqa: PLC0415 - a startup does not wait for it

        return new_parts(self._broker, self._facts(), self._sign_in)

    def drain(self) -> None:
        """End all streams of the page, and refuse new ones."""
        self._is_draining = True
        if self._made is not None:
            self._made.drain()


def _is_of_page(path: str) -> bool:
    return path in ("/", "/ui") or path.startswith("/ui/")
