"""The exceptions by which a handler decides what happens to its message: they are no errors."""

from typing import Final

from miniqueue_client.calls.call import Seconds, seconds_of

MAX_REASON_BYTES: Final = 1024


class Outcome(Exception):  # noqa: N818 - a decision of the handler, not an error
    """The base class of exceptions by which a handler decides what happens to its message."""


class Reject(Outcome):
    """The message becomes a dead letter.

    Args:
      reason: kept with the dead letter; cut after 1 KiB.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason.encode()[:MAX_REASON_BYTES].decode("utf-8", "ignore")


class Delay(Outcome):
    """The message is redelivered after a delay.

    Args:
      seconds: the delay.
    """

    def __init__(self, seconds: Seconds) -> None:
        self.seconds = seconds_of(seconds)  # raises here, in the handler, if it is not a number
        super().__init__(f"again in {seconds} s")
