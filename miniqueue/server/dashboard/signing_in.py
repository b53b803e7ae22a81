"""`/ui/session`: who is signed in, signing in, and signing out.

    GET       {"user":"ada","signedIn":true,"needsSignIn":true,"roles":[…],"rights":[…],"version":…}, or 401
    POST      {"user":"ada","password":"…"}      200 with the same, and the cookie; 401, 429
    DELETE                                       200, and the cookie is removed

A password and a token are both accepted as `password`; an empty name means the owner of the token, or the user
`default`. Wrong attempts are counted together with those on the other ports.
"""

from typing import Final

from starlette.types import Scope

from miniqueue import __version__
from miniqueue.access.users import User
from miniqueue.broker import Broker
from miniqueue.errors import InvalidLineError, NotAuthenticatedError
from miniqueue.server.asgi.replies import Reply, json_reply
from miniqueue.server.dashboard.gate import Gate
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.dashboard.models.rights import rights_of, roles_of

#: Maximum size of the body with a name and a password.
MAX_BODY_BYTES: Final = 16 << 10


class SigningIn:
    """The endpoints of the session.

    Args:
      broker: returns the time.
      gate: has the sessions.
      facts: what is shown of the process.
    """

    def __init__(self, broker: Broker, gate: Gate, facts: Facts) -> None:
        self._clock = broker.clock
        self._gate = gate
        self._facts = facts

    async def show(self, scope: Scope) -> object:
        """Return who is signed in; raises NotAuthenticatedError."""
        return self._shown(await self._gate.user_of(scope))

    async def begin(self, scope: Scope, content: object) -> Reply:
        """Sign in; raises WrongSecretError or TooManyAttemptsError."""
        sign_in = self._gate.sign_in
        if sign_in is None:
            return json_reply(200, self._shown(None))
        name, secret = _credentials(content)
        host, port = scope.get("client") or ("?", 0)
        user = await sign_in.identify(name, secret, host, f"{host}:{port}")
        self._gate.sessions.end(self._gate.token_of(scope))
        cookie = self._gate.cookie(self._gate.sessions.begin(user))
        return json_reply(200, self._shown(user), [cookie])

    async def end(self, scope: Scope, _content: object) -> Reply:
        """Sign out."""
        self._gate.sessions.end(self._gate.token_of(scope))
        return json_reply(200, {"signedIn": self._gate.sign_in is None}, [self._gate.cookie("")])

    def _shown(self, user: User | None) -> dict[str, object]:
        facts = self._facts
        return {
            "user": None if user is None else user.name,
            "signedIn": True,
            "needsSignIn": self._gate.sign_in is not None,
            "roles": [] if user is None else roles_of(user),
            "rights": rights_of(user, None),
            "version": __version__,
            "name": facts.name,
            "sync": facts.sync,
            "respPort": facts.resp_port,
            "respTls": facts.resp_tls,
            "nowMs": self._clock.now_ms(),
        }


def _credentials(content: object) -> tuple[str | None, bytes]:
    if not isinstance(content, dict) or not isinstance(content.get("password"), str):
        raise InvalidLineError("invalid body; must be a JSON object with user and password")
    name = content.get("user") or None
    if name is not None and not isinstance(name, str):
        raise InvalidLineError("invalid user; must be a string")
    if not content["password"]:
        raise NotAuthenticatedError
    return name, content["password"].encode("utf-8", "surrogatepass")
