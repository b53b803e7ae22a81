"""Why RESP connections were ended: counted for the metrics, and said in the log once a minute for each reason.

Knows no connection and no bytes. docs/protocol.md says what leads to each reason.
"""

from enum import StrEnum

import structlog

from miniqueue.errors import ForeignProtocolError, MiniqueueError
from miniqueue.server.resp_session import Session
from miniqueue.server.tally import Tally

log = structlog.get_logger()


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


class RespRefusals(Tally[Reason]):
    """Counts connections that were ended."""

    def count(self, reason: Reason, session: Session, text: str) -> None:
        """Count one; `text` says it for people."""
        held_back = self._admit(reason)
        if held_back is not None:
            log.info("connection closed", peer=session.address, reason=reason.value, text=text, held_back=held_back)
