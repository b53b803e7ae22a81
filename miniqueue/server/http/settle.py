"""Settling by receipt over HTTP: `POST /topics/{topic}/ack`, and nack, back, dack, reject, extend in the same form.

    {"receipts": ["5f0c-17", "5f0c-18"], "delaySeconds": 5}  ──▶  ["OK", "NOLEASE …"]

dack requires `delaySeconds`, extend `leaseSeconds`, reject `reason`; the reply has one result per receipt, in order.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from starlette.types import ASGIApp, Scope

from miniqueue.broker import Broker
from miniqueue.broker.leases.leases import Leases
from miniqueue.core.options.consume import MAX_PREFETCH, NOT_LEASED
from miniqueue.errors import (
    InvalidDelayError,
    InvalidLineError,
    NothingOutstandingError,
    RequestError,
)
from miniqueue.server.asgi.endpoints import JsonBodyEndpoint
from miniqueue.server.asgi.replies import Reply, json_reply
from miniqueue.server.asgi.routing import topic_within

#: Maximum size of a body: ample for the maximum number of receipts.
MAX_BODY_BYTES: Final = 2 << 20
_INVALID_BODY = 'invalid body; must be a JSON object with "receipts", an array of strings'

#: Settles messages of a topic; arguments: leases, topic, receipts, members of the body.
_Act = Callable[[Leases, bytes, list[bytes], dict[str, Any]], list[bool]]


def settle_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path."""
    return {
        ("POST", path): JsonBodyEndpoint(partial(_settle, broker.leases, act), MAX_BODY_BYTES)
        for path, act in _ACTS.items()
    }


async def _settle(leasing: Leases, act: _Act, scope: Scope, content: object) -> Reply:
    if not isinstance(content, dict):
        raise InvalidLineError(_INVALID_BODY)
    return json_reply(200, _results(act(leasing, topic_within(scope), _receipts(content), content)))


def _receipts(content: dict[str, Any]) -> list[bytes]:
    receipts = content.get("receipts")
    if not isinstance(receipts, list) or not all(isinstance(receipt, str) for receipt in receipts):
        raise InvalidLineError(_INVALID_BODY)
    if not 0 < len(receipts) <= MAX_PREFETCH:
        raise InvalidLineError(f'invalid number of "receipts": {len(receipts)}; must be 1 to {MAX_PREFETCH}')
    return list(map(str.encode, receipts))


def _seconds(content: dict[str, Any], name: str) -> float:
    seconds = content.get(name)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidDelayError(f'invalid "{name}"; must be a number of seconds')
    return float(seconds)


def _reason(content: dict[str, Any]) -> bytes:
    reason = content.get("reason")
    if not isinstance(reason, str):
        raise RequestError('invalid "reason"; must be a string')
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
