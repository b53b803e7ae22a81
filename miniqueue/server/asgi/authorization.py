"""Authentication and authorization of HTTP requests, on the queue's port and the monitoring port.

    request ─ route open? ─ no ─▶ Authorization, or client certificate ─▶ user ─ may? ─ yes ─▶ endpoint
                                     401, 429                                      └ 403

Only if users are configured. All checks happen before the body is read. Credentials that were right once are recognized
again on the same connection, by a keyed hash of the header: so a password is verified only once per connection, and its
text is not kept. If the user of a request in progress is revoked, the request receives no more of its body, as if the
client had disconnected.
"""

import asyncio
import base64
import binascii
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miniqueue.access.rights import ROUTES, Right
from miniqueue.access.users import User
from miniqueue.errors import MiniqueueError, NotAuthenticatedError, NotPermittedError
from miniqueue.server.asgi.replies import error_reply
from miniqueue.server.asgi.request import ACCOUNT_KEY, SIGNED_IN_KEY
from miniqueue.server.asgi.routing import Methods, finder_of_topic
from miniqueue.server.security.authentication import Authenticator
from miniqueue.server.security.certificate_reading import STATE_KEY

#: Maximum number of remembered credentials, one per connection: the default of -max-connections.
MAX_KNOWN = 10_000


def routes(endpoints: Mapping[tuple[str, str], ASGIApp], gate: "AuthMiddleware | None") -> dict[str, Methods]:
    """Return the methods of each path, with their endpoints guarded.

    Args:
      endpoints: the endpoints by method and path.
      gate: authenticates the users; with None, every client may do everything.

    Raises KeyError for a route that the table of rights does not contain.
    """
    methods: dict[str, dict[str, ASGIApp]] = {}
    for (method, path), endpoint in endpoints.items():
        guarded = endpoint if gate is None else gate.guard(method, path, endpoint)
        methods.setdefault(path, {})[method] = guarded
    return {path: Methods(of_path) for path, of_path in methods.items()}


class AuthMiddleware:
    """Authenticates requests, and remembers the users of connections.

    Args:
      sign_in: authenticates the users.
      admit: raises ShareLimitError if a user, by name, may have no further connection.
      prepare: called for each request that a user may make, before it is answered.
    """

    def __init__(
        self,
        sign_in: Authenticator,
        admit: Callable[[str], None] = lambda _user: None,
        prepare: Callable[[Scope], Awaitable[None]] | None = None,
    ) -> None:
        self._sign_in = sign_in
        self.prepare = prepare
        self._admit = admit
        self._key = secrets.token_bytes(32)
        #: Users by a hash of connection and header; so are the checks in progress.
        self._known: dict[bytes, User] = {}
        self._checks: dict[bytes, asyncio.Task[User]] = {}

    def guard(self, method: str, path: str, endpoint: ASGIApp) -> ASGIApp:
        """Return the guarded endpoint of a route; raises KeyError for a route without rights."""
        needs = ROUTES[method, path]
        return endpoint if needs.right is Right.OPEN else _Guarded(self, method, path, endpoint)

    async def user_of(self, scope: Scope) -> User:
        """Return the user who made a request.

        Raises NotAuthenticatedError, WrongSecretError, TooManyAttemptsError.
        """
        header = _authorization(scope)
        if header is None:
            return self._certified(scope)
        host, port = scope.get("client") or ("?", 0)
        connection = f"{host}:{port}"
        digest = hashlib.blake2b(connection.encode() + b" " + header, key=self._key, digest_size=32).digest()
        user = self._known.get(digest)
        if user is None or not self.is_current(user):
            name, secret = _credentials(header)
            check = self._checks.get(digest)
            if check is None:
                check = self._begin_check(digest, self._sign_in.identify(name, secret, host, connection))
            try:
                user = await asyncio.shield(check)
            finally:
                del check  # it keeps its error, whose traceback keeps this frame
        return user

    def _begin_check(self, digest: bytes, identifying: Coroutine[None, None, User]) -> asyncio.Task[User]:
        """Verify a secret, once for all requests that a client sends concurrently."""
        task = self._checks[digest] = asyncio.get_running_loop().create_task(identifying)
        task.add_done_callback(partial(self._remember, digest))
        return task

    def _certified(self, scope: Scope) -> User:
        """Return the user whom the application around this one, or a certificate, has authenticated."""
        user: User | None = scope.get(SIGNED_IN_KEY)
        if user is not None and self.is_current(user):
            return user
        user = self._sign_in.with_certificate(scope.get("state", {}).get(STATE_KEY, ""))
        if user is None:
            raise NotAuthenticatedError
        return user

    def is_current(self, user: User) -> bool:
        """Whether a user still exists, with the same secret and rights."""
        return self._sign_in.is_current(user)

    async def may(self, scope: Scope, right: Right) -> bool:
        """Whether the user who made a request has a right for the whole broker."""
        try:
            user = await self.user_of(scope)
        except MiniqueueError:
            return False
        return user.may(right, None)

    def assign(self, scope: Scope, user: User) -> None:
        """Charge the connection of a request to a user; raises ShareLimitError if the user has too many."""
        account = scope.get("state", {}).get(ACCOUNT_KEY)
        if account is not None and account.user != user.name:
            self._admit(user.name)
            account.become(user.name)

    def _remember(self, digest: bytes, task: asyncio.Task[User]) -> None:
        del self._checks[digest]
        if task.cancelled() or task.exception() is not None:
            return
        self._known[digest] = task.result()
        if len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]


class _Guarded:
    """One route, for users with the right that it requires."""

    def __init__(self, gate: AuthMiddleware, method: str, path: str, endpoint: ASGIApp) -> None:
        self._gate = gate
        self._needs = ROUTES[method, path]
        self._topic_of = finder_of_topic(path)
        self._act = f"{method} {path}"
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            user = await self._gate.user_of(scope)
            topic = None if self._needs.topic_at is None else self._topic_of(scope)
            if not user.may(self._needs.right, topic):
                raise NotPermittedError(self._act)
            self._gate.assign(scope, user)
        except MiniqueueError as error:
            await error_reply(error)(scope, receive, send)
            return
        scope["user"] = user
        if self._gate.prepare is not None:
            await self._gate.prepare(scope)
        await self._endpoint(scope, _while_current(self._gate, user, receive), send)


def _while_current(gate: AuthMiddleware, user: User, receive: Receive) -> Receive:
    """Return a `receive` that reports a disconnect once the user is revoked."""

    async def receive_or_end() -> Message:
        message = await receive()
        return message if gate.is_current(user) else {"type": "http.disconnect"}

    return receive_or_end


def _authorization(scope: Scope) -> bytes | None:
    """Return the `Authorization` header or None; raises NotAuthenticatedError if there are several."""
    values: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) > 1:
        raise NotAuthenticatedError
    return values[0] if values else None


def _credentials(header: bytes) -> tuple[str | None, bytes]:
    """Return the name, or None, and the secret; raises NotAuthenticatedError for schemes besides Basic and Bearer."""
    scheme, _, rest = header.partition(b" ")
    parse = _SCHEMES.get(scheme.lower())
    if parse is None:
        raise NotAuthenticatedError
    return parse(rest.strip())


def _basic(text: bytes) -> tuple[str | None, bytes]:
    try:
        name, colon, secret = base64.b64decode(text, validate=True).partition(b":")
    except binascii.Error as exc:
        raise NotAuthenticatedError from exc
    if not colon:
        raise NotAuthenticatedError
    return name.decode("utf-8", "replace"), secret


def _bearer(text: bytes) -> tuple[str | None, bytes]:
    return None, text


_SCHEMES: dict[bytes, Callable[[bytes], tuple[str | None, bytes]]] = {b"basic": _basic, b"bearer": _bearer}
