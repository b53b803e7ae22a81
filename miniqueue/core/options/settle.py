"""The options of a NACK, and the reasons that consumers give, in the syntax of every protocol.

    NACK topic receipt… DELAY 30 REASON "smtp: 421"      delay_seconds=30, reason=b"smtp: 421"

A receipt is never the name of an option.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from miniqueue.core.options.durations import parse_seconds
from miniqueue.errors import RequestError

#: Maximum size of the reason for which a message is returned or rejected.
MAX_REASON_BYTES: Final = 1024
#: The options of a NACK, by the names in commands.
NACK_OPTIONS: Final = (b"DELAY", b"REASON")


class NackOptions(NamedTuple):
    """The options of a NACK.

    Attributes:
      delay_seconds: when the messages are delivered again; None: immediately, or as the retry delays of the topic say.
      reason: why they failed; b"" for none.
    """

    delay_seconds: float | None = None
    reason: bytes = b""


PLAIN_NACK: Final = NackOptions()


def parse_nack_options(options: Mapping[bytes, bytes]) -> NackOptions:
    """Parse options by the names in `NACK_OPTIONS`; raises InvalidDelayError, or RequestError for the reason."""
    if not options:
        return PLAIN_NACK
    delay_seconds = parse_seconds(options[b"DELAY"].decode("utf-8", "replace")) if b"DELAY" in options else None
    return NackOptions(delay_seconds, check_reason(options.get(b"REASON", b"")))


def check_reason(reason: bytes) -> bytes:
    """Return `reason` if it has at most `MAX_REASON_BYTES`; raises RequestError otherwise."""
    if len(reason) > MAX_REASON_BYTES:
        raise RequestError(f"a reason has at most {MAX_REASON_BYTES} bytes")
    return reason
