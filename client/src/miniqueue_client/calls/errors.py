"""Refusals of the broker over RESP as errors of the client, and which errors permit a retry.

Knows the error codes of docs/protocol.md. Does not know redis-py or any connection.

    what happened                                    error               retry
    no connection, so nothing was sent               ConnectError        always
    -READONLY, -DRAINING, -TRYAGAIN, -MOVED:         RefusedError        always
     nothing was done
    -UNKNOWN; the reply was lost                     RefusedError,       if the call is repeatable
                                                     DisconnectedError
    any other code                                   RefusedError        never: it would be refused again
"""

from typing import Final

from miniqueue_client.errors import ClientError, ConnectError, DisconnectedError, ServerError

#: Codes for a command that was not carried out, but can be later, or by another node.
_NOT_YET: Final = frozenset({"READONLY", "DRAINING", "TRYAGAIN", "MOVED"})
#: Code for a command of which the broker does not know whether it was carried out.
_UNKNOWN: Final = "UNKNOWN"


class RefusedError(ServerError):
    """The broker refused a command.

    Attributes:
      code: the error code, such as `NOTOPIC` or `LIMIT`; docs/protocol.md lists them.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text

    def __reduce__(self) -> tuple[type["RefusedError"], tuple[str, str]]:
        """Return how to rebuild the error when it is unpickled, as Spark does on its driver."""
        return RefusedError, (self.code, self.text)


class UntrustedError(ConnectError):
    """The broker's certificate is not trusted."""


def refusal(line: str) -> RefusedError:
    """Return the error of a reply: an error code, then a text for people."""
    word, _, text = line.partition(" ")
    return RefusedError(word, text) if word.isupper() and text else RefusedError("ERR", line)


def is_passing(error: ClientError) -> bool:
    """Whether the broker may accept the command later, as after a restart."""
    if isinstance(error, RefusedError):
        return error.code in _NOT_YET or error.code == _UNKNOWN
    return isinstance(error, ConnectError | DisconnectedError)


def is_done_perhaps(error: ClientError) -> bool:
    """Whether the command may have been carried out despite the error."""
    if isinstance(error, RefusedError):
        return error.code == _UNKNOWN
    return isinstance(error, DisconnectedError)
