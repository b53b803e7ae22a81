"""Why RESP connections were ended: counted for the metrics, and said in the log once a minute for each reason.

Knows no connection and no bytes. docs/protocol.md says what leads to each reason.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import structlog

from miniqueue.errors import ForeignProtocolError, MiniqueueError
from miniqueue.server.repeats import RepeatLimit
from miniqueue.server.resp_session import Session

log = structlog.get_logger()

LOG_INTERVAL_SECONDS: Final = 60.0


class Reason(StrEnum):
    """What a client did whose connection was ended."""

    FOREIGN = "foreign_protocol"
    LATE_SIGN_IN = "late_sign_in"
    LONG_SIGN_IN = "long_sign_in"
    PROTOCOL_ERROR = "protocol_error"
    SLOW_READER = "slow_reader"
    WRONG_SECRETS = "wrong_secrets"


def reason_of(error: MiniqueueError) -> Reason:
    """Return what bytes that make no sense are a case of."""
    return Reason.FOREIGN if isinstance(error, ForeignProtocolError) else Reason.PROTOCOL_ERROR


class RespRefusals:
    """Counts connections that were ended. Not for use by several threads at once.

    Args:
      monotonic: the clock of the log's limit, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._counts: Counter[Reason] = Counter()
        self._log_limit = RepeatLimit(LOG_INTERVAL_SECONDS, monotonic)

    @property
    def counts(self) -> Mapping[Reason, int]:
        """How often each reason has occurred; one that never did may be missing."""
        return self._counts

    def count(self, reason: Reason, session: Session, text: str) -> None:
        """Count one; `text` says it for people."""
        self._counts[reason] += 1
        held_back = self._log_limit.admit(reason)
        if held_back is not None:
            log.info("connection closed", peer=session.address, reason=reason.value, text=text, held_back=held_back)
