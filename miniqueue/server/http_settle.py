"""Settling by receipt over HTTP: `POST /topics/{topic}/ack`, and the same for nack, back, dack, reject and extend.

    {"receipts": ["5f0c-17", "5f0c-18"], "delaySeconds": 5}  ──▶  ["OK", "NOLEASE …"]

dack takes `delaySeconds`, extend `leaseSeconds`, reject `reason`; there is one result for each receipt, in order.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from miniqueue.broker import Broker
from miniqueue.broker.leasing import Leasing
from miniqueue.core.prefetch import MAX_PREFETCH
from miniqueue.core.receiving import NOT_LEASED
from miniqueue.errors import (
    InvalidDelayError,
    InvalidLineError,
    MiniqueueError,
    NothingOutstandingError,
    PayloadTooLargeError,
    RequestError,
)
from miniqueue.server.http_publish import read_body
from miniqueue.server.paths import topic_within
from miniqueue.server.replies import error_reply, json_reply

MAX_BODY_BYTES = 2 << 20

#: Settles messages of a topic, as the body says.
_Act = Callable[[Leasing, bytes, list[bytes], dict[str, Any]], list[bool]]


class SettleEndpoint:
    """Settles messages in one way."""

    def __init__(self, broker: Broker, act: _Act) -> None:
        self._broker = broker
        self._act = act

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            body = await read_body(receive, MAX_BODY_BYTES)
            if body is None:
                return
            reply = json_reply(200, _results(self._settle(topic_within(scope), body)))
        except PayloadTooLargeError:
            reply = error_reply(InvalidLineError(f"the body is over {MAX_BODY_BYTES} bytes"))
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)

    def _settle(self, topic: bytes, body: bytes) -> list[bool]:
        try:
            content: Any = orjson.loads(body)
        except orjson.JSONDecodeError as exc:
            raise InvalidLineError("the body is not JSON") from exc
        return self._act(self._broker.leasing, topic, _receipts(content), content)


def settle_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path."""
    return {("POST", path): SettleEndpoint(broker, act) for path, act in _ACTS.items()}


def _receipts(content: object) -> list[bytes]:
    receipts = content.get("receipts") if isinstance(content, dict) else None
    if not isinstance(receipts, list) or not all(isinstance(receipt, str) for receipt in receipts):
        raise InvalidLineError('the body is a JSON object with "receipts", an array of strings')
    if not 0 < len(receipts) <= MAX_PREFETCH:
        raise InvalidLineError(f'"receipts" are 1 to {MAX_PREFETCH}')
    return list(map(str.encode, receipts))


def _seconds(content: dict[str, Any], name: str) -> float:
    seconds = content.get(name)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidDelayError(f'"{name}" is a number of seconds')
    return float(seconds)


def _reason(content: dict[str, Any]) -> bytes:
    reason = content.get("reason")
    if not isinstance(reason, str):
        raise RequestError('"reason" is a string')
    return reason.encode()


def _results(results: list[bool]) -> list[str]:
    refusal = f"{NothingOutstandingError.code} {NOT_LEASED}"
    return ["OK" if is_settled else refusal for is_settled in results]


_ACTS: Mapping[str, _Act] = MappingProxyType(
    {
        "/topics/{topic}/ack": lambda leasing, topic, receipts, _: leasing.ack(topic, receipts),
        "/topics/{topic}/nack": lambda leasing, topic, receipts, _: leasing.nack(topic, receipts),
        "/topics/{topic}/back": lambda leasing, topic, receipts, _: leasing.back(topic, receipts),
        "/topics/{topic}/dack": lambda leasing, topic, receipts, content: leasing.dack(
            topic, receipts, _seconds(content, "delaySeconds")
        ),
        "/topics/{topic}/reject": lambda leasing, topic, receipts, content: leasing.reject(
            topic, receipts, _reason(content)
        ),
        "/topics/{topic}/extend": lambda leasing, topic, receipts, content: leasing.extend(
            topic, receipts, _seconds(content, "leaseSeconds")
        ),
    }
)
