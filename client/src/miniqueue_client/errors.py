"""The errors of the client, and the base of every error that miniqueue raises on purpose.

    MiniqueueError
      ├── RequestError                          the call is invalid: nothing was sent, nothing is repeated
      ├── ConfigError                           the URL or an option of the client is invalid
      └── ClientError
            ├── ConnectError                    nothing was done
            ├── DisconnectedError               the call may have been carried out
            └── ServerError                     the broker refused the call

The broker derives its own errors from these classes, and exports these too: `miniqueue.errors.ClientError` is
`miniqueue_client.errors.ClientError`. A class says whose fault it is; `code` is the stable word that RESP clients see
before the text, and HTTP clients next to it; the docstring of a class is its default text.

Must not import anything but the standard library: each start of a broker imports this module.
"""

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


class MiniqueueError(Exception):
    """Something went wrong in miniqueue."""

    code = "ERR"

    def __init__(self, text: str = "") -> None:
        super().__init__(text or (inspect.getdoc(type(self)) or "").rstrip("."))

    def detached(self) -> "Self":
        """Return this error without its traceback and cause: an error kept as a value must not keep their frames."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)


class RequestError(MiniqueueError):
    """The request cannot be carried out."""


class ConfigError(MiniqueueError):
    """The configuration cannot be used."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


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
