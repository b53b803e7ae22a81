"""Errors of the Python client."""

from miniqueue.errors.base import MiniqueueError


class ClientError(MiniqueueError):
    """A client could not do what it was asked."""


class ConnectError(ClientError):
    """The server cannot be reached."""


class DisconnectedError(ClientError):
    """The connection or the stream ended before it was done."""


class ServerError(ClientError):
    """The server refused the request.

    `status` is the HTTP status, or None when the server said so on a stream that goes on. `code` is the stable word of
    the refusal, such as `NOTOPIC`; `ERR` if the server has sent none.
    """

    def __init__(self, text: str, status: int | None = None, code: str = "ERR") -> None:
        super().__init__(text)
        self.status = status
        self.code = code
