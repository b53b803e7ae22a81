"""Counts of rejected HTTP requests by reason, for the metrics; one rejection per reason and minute is logged.

Knows neither connections nor requests. docs/protocol.md lists the causes of each `Reason`.
"""

from enum import StrEnum

import structlog

from miniqueue.server.process.repeats import ReasonCounter

log = structlog.get_logger()


class Reason(StrEnum):
    """Why a request, a stream, or a connection was ended."""

    BAD_REQUEST = "bad_request"
    DRAINING = "draining"
    FLOOD = "flood"
    INTERNAL_ERROR = "internal_error"
    LARGE_HEADERS = "large_headers"
    LONG_FRAME = "long_frame"
    MEMORY = "memory"
    PROTOCOL_ERROR = "protocol_error"
    SLOW_BODY = "slow_body"
    SLOW_CONNECTION = "slow_connection"
    SLOW_HEADERS = "slow_headers"
    SLOW_READER = "slow_reader"
    TOO_MANY_STREAMS = "too_many_streams"


class Refusals(ReasonCounter[Reason]):
    """Counts and logs rejected requests, streams, and connections."""

    def count(self, reason: Reason, client: tuple[str, int] | None) -> None:
        """Count one rejection, and log it if none was logged within a minute; `client` is the address of the client.

        For an internal error, call it in the exception handler: the log line includes the traceback.
        """
        held_back = self.admit(reason)
        if held_back is not None:
            address = client and client[0]
            log.warning(
                "an HTTP client was refused",
                reason=reason.value,
                client=address,
                held_back=held_back,
                exc_info=reason is Reason.INTERNAL_ERROR,
            )
