"""Every error that miniqueue raises on purpose.

A class says whose fault it is; `code` is the stable word that RESP clients see in front of the text, and HTTP clients
beside it; the docstring is the default text. HTTP status codes live with the server, which owns that protocol.
"""

import inspect


class MiniqueueError(Exception):
    """Something went wrong in miniqueue."""

    code = "ERR"

    def __init__(self, text: str = "") -> None:
        super().__init__(text or (inspect.getdoc(type(self)) or "").rstrip("."))


def described(error: BaseException) -> str:
    """Return the kind and the text of an error that nobody expected, as the last line of a traceback has them."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


# --- the peer's fault: the bytes make no sense, the connection ends -------------------------------------------


class ProtocolError(MiniqueueError):
    """Protocol error."""


class ForeignProtocolError(ProtocolError):
    """Another protocol than that of this port."""


# --- the caller's fault: this request fails, connection and lease live on ------------------------------------


class RequestError(MiniqueueError):
    """The request cannot be carried out."""


class UnknownCommandError(RequestError):
    """Unrecognised command received."""


class InvalidTopicError(RequestError):
    """A topic name is 1 to 255 bytes of UTF-8 without control characters, white space or '/'."""

    code = "BADTOPIC"


class PayloadTooLargeError(RequestError):
    """The message is larger than this broker accepts."""

    code = "TOOBIG"

    def __init__(self, size_bytes: int, max_bytes: int) -> None:
        super().__init__(f"message of {size_bytes} bytes is over the limit of {max_bytes} (-max-message-size)")
        self.size_bytes = size_bytes
        self.max_bytes = max_bytes


class NothingOutstandingError(RequestError):
    """No message is outstanding."""

    code = "NOLEASE"


class UnknownReceiptError(RequestError):
    """A receipt belongs to no message that is outstanding here."""

    code = "NOLEASE"

    def __init__(self, unknown_count: int, count: int) -> None:
        super().__init__(f"{unknown_count} of {count} receipts belong to no message outstanding here")
        self.unknown_count = unknown_count
        self.count = count


class MessageOutstandingError(RequestError):
    """Error getting next value for consumer."""

    code = "OUTSTANDING"


class InvalidDelayError(RequestError):
    """A delay is a number of seconds, 0 or more."""

    code = "BADDELAY"


class InvalidPrefetchError(RequestError):
    """A prefetch is a whole number from 1 to 10000."""

    code = "BADPREFETCH"

    def __init__(self, max_prefetch: int = 10_000) -> None:
        super().__init__(f"A prefetch is a whole number from 1 to {max_prefetch}")


class InvalidAttributesError(RequestError):
    """The headers or other attributes of a message are wrong or too long."""

    code = "BADATTRIBUTE"


class UnsupportedEncodingError(RequestError):
    """A body is taken as it is: no Content-Encoding but identity."""

    code = "BADENCODING"


class InvalidLineError(RequestError):
    """A line of a JSON-lines body could not be used."""

    code = "BADLINE"


# --- the caller is not the right one --------------------------------------------------------------------------


class NotAuthenticatedError(RequestError):
    """Authentication required."""

    code = "NOAUTH"

    def __init__(self, text: str = "Authentication required.") -> None:  # with Redis' full stop: clients compare
        super().__init__(text)


class WrongSecretError(RequestError):
    """The user or the secret is wrong; it is not told which."""

    code = "WRONGPASS"

    def __init__(self) -> None:  # in the words of Redis
        super().__init__("invalid username-password pair or user is disabled.")


class NotPermittedError(RequestError):
    """The user has no right to do this."""

    code = "NOPERM"

    def __init__(self, act: str) -> None:  # in the words of Redis
        super().__init__(f"this user has no permissions to run {act}")


class TooManyAttemptsError(RequestError):
    """There were too many wrong secrets from this address; try again in a minute."""

    code = "TOOMANY"


# --- the broker cannot do it now -----------------------------------------------------------------------------


class UnavailableError(MiniqueueError):
    """The broker cannot take this request now."""

    code = "UNAVAILABLE"


class ReadOnlyError(UnavailableError):
    """The store failed; publishing is refused until it has been reopened and checked."""

    code = "READONLY"


class FullError(UnavailableError):
    """The disk is full; publishing is refused until there is space again."""

    code = "FULL"


class LimitReachedError(UnavailableError):
    """A limit of this broker has been reached."""

    code = "LIMIT"


class TopicFullError(LimitReachedError):
    """The topic holds as much as it may.

    `fitting_count`: how many of the messages, from the first on, there would have been room for.
    """

    def __init__(self, what: str, setting: str, fitting_count: int = 0, outcome: str = "nothing was added") -> None:
        super().__init__(f"the topic holds as many {what} as it may ({setting}); {outcome}")
        self.what = what
        self.setting = setting
        self.fitting_count = fitting_count


class DrainingError(UnavailableError):
    """The broker is shutting down."""

    code = "DRAINING"


class OutcomeUnknownError(UnavailableError):
    """The store failed during the commit: the messages may or may not have been kept."""

    code = "UNKNOWN"


# --- the store's fault ---------------------------------------------------------------------------------------


class StorageError(MiniqueueError):
    """The store failed."""


class NoSpaceError(StorageError):
    """No space is left on the disk."""


class StoreInUseError(StorageError):
    """Another process has the store open."""


class StoreClosedError(StorageError):
    """The store is closed."""


class StoreFailedError(StorageError):
    """The store failed and could not be reopened."""


class NotAStoreError(StorageError):
    """The directory is neither empty nor a miniqueue store."""


class NotEmptyError(StorageError):
    """The directory is not empty."""


class FormatVersionError(StorageError):
    """The store was written in a format that this version does not read."""

    def __init__(self, what: str, found: int, expected: int) -> None:
        super().__init__(f"{what}: format version {found} found, this miniqueue reads {expected}")
        self.found = found
        self.expected = expected


class CorruptionError(StorageError):
    """Stored bytes are damaged."""


# --- the operator's fault ------------------------------------------------------------------------------------


class ConfigError(MiniqueueError):
    """The configuration cannot be used."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class CertificateError(ConfigError):
    """The certificate or its key cannot be used."""


class ListenError(MiniqueueError):
    """The address cannot be listened on."""

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {why}")
        self.host = host
        self.port = port


# --- what a client of ours met -------------------------------------------------------------------------------


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


# --- ours ----------------------------------------------------------------------------------------------------


class InternalError(MiniqueueError):
    """A bug in miniqueue; please report it."""
