"""What was refused to HTTP clients, by reason: counted for the metrics, and said in the log once a minute.

Knows neither connections nor what was asked. A reason is one of `Reason`; docs/protocol.md says what leads to it.
"""

from enum import StrEnum

import structlog

from miniqueue.server.tally import Tally

log = structlog.get_logger()


class Reason(StrEnum):
    """Why a request, a stream or a connection was ended."""

    BAD_REQUEST = "bad_request"
    DRAINING = "draining"
    FLOOD = "flood"
    INTERNAL_ERROR = "internal_error"
    LARGE_HEADERS = "large_headers"
    LONG_FRAME = "long_frame"
    PROTOCOL_ERROR = "protocol_error"
    SLOW_BODY = "slow_body"
    SLOW_CONNECTION = "slow_connection"
    SLOW_HEADERS = "slow_headers"
    SLOW_READER = "slow_reader"
    TOO_MANY_STREAMS = "too_many_streams"


class Refusals(Tally[Reason]):
    """Counts refusals."""

    def count(self, reason: Reason, client: tuple[str, int] | None) -> None:
        """Count one; `client` is the address of the other end, for the log.

        For an internal error call it where the exception is handled, whose traceback goes into the log.
        """
        held_back = self._admit(reason)
        if held_back is not None:
            address = client and client[0]
            log.warning(
                "an HTTP client was refused",
                reason=reason.value,
                client=address,
                held_back=held_back,
                exc_info=reason is Reason.INTERNAL_ERROR,
            )
