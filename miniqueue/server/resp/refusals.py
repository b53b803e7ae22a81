"""Why RESP connections were closed by the broker: counted, logged once a minute per reason, and a Prometheus metric.

Knows no connections and no bytes. docs/protocol.md describes what leads to each reason.
"""

from enum import StrEnum

import structlog

from miniqueue.errors import ForeignProtocolError, MemoryLimitError, MiniqueueError
from miniqueue.server.process.metric_rows import MetricRow
from miniqueue.server.process.repeats import ReasonCounter
from miniqueue.server.resp.commands.session import Session

log = structlog.get_logger()


class Reason(StrEnum):
    """What a client did to have its connection closed; the label of the metric."""

    FOREIGN = "foreign_protocol"
    LATE_SIGN_IN = "late_sign_in"
    LONG_SIGN_IN = "long_sign_in"
    MEMORY = "memory"
    PROTOCOL_ERROR = "protocol_error"
    SHARE = "share"
    SLOW_READER = "slow_reader"
    WRONG_SECRETS = "wrong_secrets"


def reason_of(error: MiniqueueError) -> Reason:
    """Return the reason for closing a connection whose bytes cannot be read."""
    if isinstance(error, MemoryLimitError):
        return Reason.MEMORY
    return Reason.FOREIGN if isinstance(error, ForeignProtocolError) else Reason.PROTOCOL_ERROR


class RespRefusals(ReasonCounter[Reason]):
    """Counts the connections that were closed, by reason."""

    def count(self, reason: Reason, session: Session, text: str) -> None:
        """Count a connection, and log it with `text` unless the reason has just been logged."""
        held_back = self.admit(reason)
        if held_back is not None:
            log.info("connection closed", peer=session.address, reason=reason.value, text=text, held_back=held_back)


REFUSAL_ROWS: tuple[MetricRow[RespRefusals], ...] = (
    MetricRow(
        "resp_refusals_total",
        "counter",
        "RESP connections ended.",
        lambda refusals: {reason.value: refusals.counts.get(reason, 0) for reason in Reason},
        ("reason",),
        note="Since the start, by [reason](#resp-limits).",
    ),
)
