"""Settling by receipt over HTTP: `POST /topics/{topic}/ack`, and nack, back, dack, reject, extend in the same form.

    {"receipts": ["5f0c-17", "5f0c-18"], "delaySeconds": 5}  ──▶  ["OK", "NOLEASE …"]

dack requires `delaySeconds`, extend `leaseSeconds`, reject `reason`; nack can have `delaySeconds` and `reason`. The
reply has one result per receipt, in order.
With `?sync=true` the reply is sent when the settle is on the disk; extend has no such form, as no lease is stored.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from starlette.types import ASGIApp, Scope

from miniqueue.broker import Broker
from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.leases.settling import ACK, BACK, Settling
from miniqueue.core.options.consume import MAX_PREFETCH, NOT_LEASED, parse_switch
from miniqueue.core.options.durations import parse_seconds
from miniqueue.core.options.settle import NackOptions, check_reason
from miniqueue.errors import (
    InvalidDelayError,
    InvalidLineError,
    NothingOutstandingError,
    RequestError,
)
from miniqueue.server.asgi.endpoints import JsonBodyEndpoint
from miniqueue.server.asgi.replies import Reply, json_reply
from miniqueue.server.asgi.request import parameters_of
from miniqueue.server.asgi.routing import topic_within

#: Maximum size of a body: ample for the maximum number of receipts.
MAX_BODY_BYTES: Final = 2 << 20
#: What a reply says of a receipt: that nothing is leased with it, and that it was settled.
_RESULTS = (f"{NothingOutstandingError.code} {NOT_LEASED}", "OK")
_INVALID_BODY = 'invalid body; must be a JSON object with "receipts", an array of strings'

#: What a request does with messages of a topic; arguments: leases, topic, members of the body.
_Act = Callable[[Leases, bytes, dict[str, Any]], Settling]


def settle_endpoints(broker: Broker) -> dict[tuple[str, str], ASGIApp]:
    """Return the endpoints by method and path."""
    return {
        ("POST", path): JsonBodyEndpoint(partial(_settle, broker, act, path != _EXTEND), MAX_BODY_BYTES)
        for path, act in _ACTS.items()
    }


async def _settle(broker: Broker, act: _Act, is_stored: bool, scope: Scope, content: object) -> Reply:
    if not isinstance(content, dict):
        raise InvalidLineError(_INVALID_BODY)
    is_synced = _is_synced(scope)
    if is_synced and not is_stored:
        raise RequestError("leases are not stored, so they cannot be synced")
    topic, receipts = topic_within(scope), receipts_of(content)
    results = await broker.leases.settle_in_turns(topic, receipts, act(broker.leases, topic, content))
    if is_synced:
        await broker.sync().wait()
    return json_reply(200, list(map(_RESULTS.__getitem__, results)))


def _is_synced(scope: Scope) -> bool:
    """Return the parameter `sync`; others are ignored, as they always were."""
    return parse_switch("sync", dict(parameters_of(scope)))


def receipts_of(content: dict[str, Any]) -> list[bytes]:
    """Return the receipts in a body; raises InvalidLineError."""
    receipts = content.get("receipts")
    if not isinstance(receipts, list) or not set(map(type, receipts)) <= {str}:
        raise InvalidLineError(_INVALID_BODY)
    if not 0 < len(receipts) <= MAX_PREFETCH:
        raise InvalidLineError(f'invalid number of "receipts": {len(receipts)}; must be 1 to {MAX_PREFETCH}')
    return list(map(str.encode, receipts))


def seconds_of(content: dict[str, Any], name: str) -> float:
    """Return a number of seconds in a body; raises InvalidDelayError."""
    seconds = content.get(name)
    if isinstance(seconds, str):
        return parse_seconds(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidDelayError(f'invalid "{name}"; must be a number of seconds, or a duration such as "1h30m"')
    return float(seconds)


def reason_of(content: dict[str, Any]) -> bytes:
    """Return the reason in a body; raises RequestError."""
    reason = content.get("reason")
    if not isinstance(reason, str):
        raise RequestError('invalid "reason"; must be a string')
    return reason.encode()


def _nack(leases: Leases, _topic: bytes, content: dict[str, Any]) -> Settling:
    return leases.nacking(nack_options_of(content))


def nack_options_of(content: dict[str, Any]) -> NackOptions:
    """Return the options of a NACK in a body; raises RequestError."""
    delay_seconds = seconds_of(content, "delaySeconds") if "delaySeconds" in content else None
    return NackOptions(delay_seconds, check_reason(reason_of(content)) if "reason" in content else b"")


_EXTEND = "/topics/{topic}/extend"
_ACTS: Mapping[str, _Act] = MappingProxyType(
    {
        "/topics/{topic}/ack": lambda _leases, _topic, _content: ACK,
        "/topics/{topic}/nack": _nack,
        "/topics/{topic}/back": lambda _leases, _topic, _content: BACK,
        "/topics/{topic}/dack": lambda leases, _topic, content: leases.dacking(seconds_of(content, "delaySeconds")),
        "/topics/{topic}/reject": lambda leases, topic, content: leases.rejecting(topic, reason_of(content)),
        _EXTEND: lambda leases, _topic, content: leases.extending(seconds_of(content, "leaseSeconds")),
    }
)
