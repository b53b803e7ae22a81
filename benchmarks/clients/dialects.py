"""How each protocol says "keep this message", and what it answers when it did."""

from collections.abc import Callable
from dataclasses import dataclass

import hiredis

#: The topic, stream or subject of all loads, and the inbox of a NATS connection for answers.
TOPIC = b"bench"
INBOX = b"inbox"
NATS_HELLO = b'CONNECT {"verbose":false}\r\nSUB %b.%%d 1\r\n' % INBOX


def pack(*words: bytes) -> bytes:
    """Return a RESP command."""
    return bytes(hiredis.pack_command(words))  # type: ignore[arg-type]  # its stub allows for one word only


@dataclass(frozen=True)
class Dialect:
    """One way to publish.

    Attributes:
      publish: returns the bytes that publish a payload; the second argument is the number of the connection.
      accepted: occurs once in every positive reply, and never in another.
      refused: occur in a negative reply only.
      hello: what a connection says first; it takes the number of the connection.
    """

    publish: Callable[[bytes, int], bytes]
    accepted: bytes
    refused: tuple[bytes, ...]
    hello: bytes = b""


def _publish_resp(payload: bytes, _: int) -> bytes:
    return pack(b"PUBLISH", TOPIC, payload)


def _publish_xadd(payload: bytes, _: int) -> bytes:
    return pack(b"XADD", TOPIC, b"*", b"field", payload)


def _publish_nats(payload: bytes, connection: int) -> bytes:
    return b"PUB %b %b.%d %d\r\n%b\r\n" % (TOPIC, INBOX, connection, len(payload), payload)


def _publish_beanstalk(payload: bytes, _: int) -> bytes:
    return b"put 0 0 3600 %d\r\n%b\r\n" % (len(payload), payload)


def _put_delayed(payload: bytes, _: int) -> bytes:
    return b"put 0 86400 3600 %d\r\n%b\r\n" % (len(payload), payload)


_BEANSTALK_ERRORS = (b"OUT_OF_MEMORY", b"INTERNAL_ERROR", b"DRAINING", b"BAD_FORMAT", b"JOB_TOO_BIG", b"EXPECTED_CRLF")

DIALECTS = {
    "miniqueue": Dialect(_publish_resp, b"+OK\r\n", (b"-",)),
    "redis": Dialect(_publish_xadd, b"$", (b"-ERR", b"-LOADING", b"-MISCONF", b"-OOM")),
    "nats": Dialect(_publish_nats, b'"seq"', (b'"error"', b"-ERR"), NATS_HELLO),
    "beanstalk": Dialect(_publish_beanstalk, b"INSERTED", _BEANSTALK_ERRORS),
    "beanstalk-delayed": Dialect(_put_delayed, b"INSERTED", _BEANSTALK_ERRORS),
}
