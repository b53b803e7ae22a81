"""One request to a running broker over RESP: connects, authenticates, sends a command, and disconnects.

    redis://[user[:secret]@]host[:port]      rediss:// for TLS, with the certificates that the machine trusts

A token, or the password of the user `default`, is a secret without a user.

`miniqueue.client` cannot replace this module: over RESP it requires redis-py, an extra that is missing on many brokers.
A single command requires only a socket and hiredis.
"""

import socket
import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import hiredis

from miniqueue.errors import ConfigError, ConnectError, DisconnectedError, ServerError
from miniqueue.server.process.escaping import escape

TIMEOUT_SECONDS = 10.0
DEFAULT_PORT = 6379
_READ_BYTES = 1 << 16


def ask(url: str, secret: str | None, command: Sequence[bytes]) -> Any:  # noqa: ANN401 - replies are of any type
    """Return the reply to a command; maps are dicts.

    Raises:
      ConfigError: the URL is invalid.
      ConnectError: the broker cannot be reached.
      DisconnectedError: no complete reply has been received.
      ServerError: the broker rejected a command.
    """
    parts = _parsed(url)
    commands = [[b"HELLO", b"3"], list(command)]
    if secret is not None:
        commands.insert(0, [b"AUTH", secret.encode("utf-8", "surrogateescape")])
    elif parts.username is not None:
        commands.insert(0, [b"AUTH", unquote(parts.username).encode(), unquote(parts.password or "").encode()])
    connection = _connected(parts)
    try:
        connection.sendall(b"".join(map(_encoded, commands)))
        replies = _replies(connection, len(commands))
    except OSError as exc:
        raise DisconnectedError(f"no reply from the broker: {exc}") from exc
    finally:
        connection.close()
    return replies[-1]


def _parsed(url: str) -> SplitResult:
    invalid = ConfigError(["flag -url: invalid URL; must be redis://[user[:secret]@]host[:port], or rediss:// for TLS"])
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or parts.port == 0:
            raise invalid
    except ValueError as exc:  # the port is no number
        raise invalid from exc
    return parts


def _connected(parts: SplitResult) -> socket.socket:
    address = parts.hostname or "", parts.port or DEFAULT_PORT
    try:
        plain = socket.create_connection(address, TIMEOUT_SECONDS)
        try:
            is_tls = parts.scheme == "rediss"
            return ssl.create_default_context().wrap_socket(plain, server_hostname=address[0]) if is_tls else plain
        except OSError:
            plain.close()
            raise
    except OSError as exc:  # TLS raises it, too
        raise ConnectError(f"no broker answers on {escape(address[0])}:{address[1]}: {exc}") from exc


def _encoded(command: Sequence[bytes]) -> bytes:
    return b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in command)


def _replies(connection: socket.socket, count: int) -> list[Any]:
    reader = hiredis.Reader()
    replies: list[Any] = []
    while len(replies) < count:
        if not (data := connection.recv(_READ_BYTES)):
            raise DisconnectedError("the broker closed the connection")
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not False:
                replies.append(reply)
        except hiredis.ProtocolError as exc:
            raise DisconnectedError("the reply is not RESP; check host and port") from exc
        for refusal in replies:
            if isinstance(refusal, hiredis.ReplyError):
                raise ServerError(f"the broker refused: {escape(str(refusal))}")
    return replies
