"""Who makes an HTTP request, for whoever notes it."""

from starlette.types import Scope


class HttpActor:
    """The client of a request, spelled only when it is noted: by then the gate knows the user."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __bytes__(self) -> bytes:
        """Spell it: protocol, address, and user if there is one."""
        host, port = self._scope.get("client") or ("?", 0)
        user = self._scope.get("user")
        return f"http {host}:{port}{f' user {user.name}' if user else ''}".encode()
