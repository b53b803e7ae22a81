"""What a broker refuses over RESP, as errors of the client, and which errors another try may mend.

Knows the stable words of docs/protocol.md. Does not know redis-py, or any connection.

    what happened                                    raised              another try
    no connection, so nothing was sent               ConnectError        always
    -READONLY, -DRAINING: nothing was done           RefusedError        always
    -UNKNOWN; the reply was lost                     RefusedError,       if doing it twice does no harm
                                                     DisconnectedError
    any other word                                   RefusedError        never: it would be refused again
"""

from typing import Final

from miniqueue.errors import ClientError, ConnectError, DisconnectedError, ServerError

#: With these words the broker says that it did nothing, and that it will do it later.
_NOT_YET: Final = frozenset({"READONLY", "DRAINING"})
#: The broker itself cannot say whether it was done.
_UNKNOWN: Final = "UNKNOWN"


class RefusedError(ServerError):
    """The broker refused a command.

    Attributes:
      code: the stable word, such as `NOTOPIC` or `LIMIT`; docs/protocol.md lists them.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text

    def __reduce__(self) -> tuple[type["RefusedError"], tuple[str, str]]:
        """Let it be carried to another process, as those of Spark do."""
        return RefusedError, (self.code, self.text)


class UntrustedError(ConnectError):
    """The broker's certificate is not trusted."""


def refusal(line: str) -> RefusedError:
    """Return the error of a reply: a word, then a text for people."""
    word, _, text = line.partition(" ")
    return RefusedError(word, text) if word.isupper() and text else RefusedError("ERR", line)


def is_passing(error: ClientError) -> bool:
    """Whether the broker may take it later, as after a restart."""
    if isinstance(error, RefusedError):
        return error.code in _NOT_YET or error.code == _UNKNOWN
    return isinstance(error, ConnectError | DisconnectedError)


def is_done_perhaps(error: ClientError) -> bool:
    """Whether what was asked may have been done all the same."""
    if isinstance(error, RefusedError):
        return error.code == _UNKNOWN
    return isinstance(error, DisconnectedError)
