"""Who makes a request: the user of a session, of an `Authorization` header, or of a client certificate.

    Authorization ─▶ `AuthMiddleware` ─┐
    cookie ────────▶ `Sessions` ───────┼─▶ user ─▶ may? ─ no ─▶ 403
    certificate ───▶ `AuthMiddleware` ─┘ 401

Browsers add cookies to the requests of other pages, too. So a request that may change something must have the Origin of
this page, which other pages cannot set; the cookie is `SameSite=Strict` besides. Its name contains the port, since
browsers send a cookie to all ports of a machine.
"""

from collections.abc import Callable
from typing import Final

from starlette.types import Scope

from miniqueue.access.users import User
from miniqueue.server.asgi.authorization import AuthMiddleware
from miniqueue.server.asgi.early_errors import ForeignOriginError
from miniqueue.server.dashboard.sessions import Sessions
from miniqueue.server.security.authentication import Authenticator

#: Methods that change nothing.
READING: Final = ("GET", "HEAD")
#: Where a request of the page itself, or of a person who enters its address, comes from: `Sec-Fetch-Site`.
_OWN_SITE: Final = (b"same-origin", b"none")


class Gate:
    """Returns the user of each request, if there are users.

    Args:
      sign_in: authenticates users; None: there are none, and every client may do everything.
      sessions: the sessions.
      port: the port of the page, for the name of the cookie.
      is_secure: whether the page is served over TLS, so that the cookie must not be sent without it.
    """

    def __init__(self, sign_in: Authenticator | None, sessions: Sessions, port: int, *, is_secure: bool) -> None:
        self.sign_in = sign_in
        self.sessions = sessions
        self._cookie_name = cookie_name(port)
        self._cookie_end = "; Path=/ui; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")
        self._middleware = None if sign_in is None else AuthMiddleware(sign_in)

    async def user_of(self, scope: Scope) -> User | None:
        """Return the user who makes a request, and charge the connection to the user; None if there are no users.

        Raises NotAuthenticatedError, WrongSecretError, or TooManyAttemptsError.
        """
        middleware = self._middleware
        if middleware is None:
            return None
        token = self._token_for(scope)
        user = (self.sessions.user_of(token) if token else None) or await middleware.user_of(scope)
        middleware.assign(scope, user)
        scope["user"] = user
        return user

    def presence_of(self, scope: Scope, user: User | None) -> Callable[[], bool]:
        """Return a function that returns whether the user who made a request is still signed in, unchanged.

        Its calls count as a use of the session: an open stream keeps the session, as requests do.
        """
        sign_in, token = self.sign_in, self._token_for(scope)
        if sign_in is None or user is None:
            return lambda: True
        if self.sessions.user_of(token) is user:
            return lambda: self.sessions.user_of(token) is user
        return lambda: sign_in.is_current(user)

    def _token_for(self, scope: Scope) -> str:
        """Return the token that authenticates a request; empty if a header does, or if there is none."""
        return "" if any(name == b"authorization" for name, _ in scope["headers"]) else self.token_of(scope)

    def token_of(self, scope: Scope) -> str:
        """Return the token in the cookie of a request; empty if there is none."""
        return token_in(scope, self._cookie_name)

    def cookie(self, token: str) -> tuple[bytes, bytes]:
        """Return the header that gives a browser the token of a session; an empty one removes it."""
        ends = "" if token else "; Max-Age=0"
        return b"set-cookie", self._cookie_name + f"={token}{self._cookie_end}{ends}".encode()


def cookie_name(port: int) -> bytes:
    """Return the name of the cookie of the page on a port."""
    return b"miniqueue-%d" % port


def token_in(scope: Scope, name: bytes) -> str:
    """Return the token in the cookie with a name of a request; empty if there is none."""
    for header, value in scope["headers"]:
        # Not with http.cookies: a cookie of another program on this machine, which browsers send too, can make it
        # miss this one, and one with many backslashes holds it for seconds.
        for cookie in value.split(b";") if header == b"cookie" else ():
            key, _, token = cookie.strip().partition(b"=")
            if key == name:
                return str(token, "latin-1")
    return ""


def check_origin(scope: Scope) -> None:
    """Raise ForeignOriginError unless the page itself sends a request that may change something.

    Behind a proxy with TLS, a page over https sends requests over http. The reverse is an attack: a page that was
    inserted into a connection without TLS.
    """
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if scope["method"] in READING and not origins:
        return
    scheme, _, origin_host = b"".join(origins).partition(b"://")
    is_downgraded = scope["scheme"] == "https" and scheme != b"https"
    if len(origins) != 1 or hosts != [origin_host] or is_downgraded:
        raise ForeignOriginError


def check_site(scope: Scope) -> None:
    """Raise ForeignOriginError if a page of another site, or of another port of this machine, sends a request.

    Such a page cannot read the reply to a GET without an Origin, but can keep the broker busy, or its streams occupied.
    Browsers say where a request comes from, if it goes to this machine or over TLS.
    """
    if any(name == b"sec-fetch-site" and value not in _OWN_SITE for name, value in scope["headers"]):
        raise ForeignOriginError
