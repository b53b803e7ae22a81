"""`POST /transactions`: JSON lines of publishes and settles that are one commit; all of them are done, or none.

    {"publish":"orders","text":"one","key":"42"}                       {"id":"0-17"}
    {"publish":"bills","msg":"dHdv","dedup":"7f"}            ──▶       {"id":"0-3"}
    {"publish":"mails","batch":["a",{"text":"b","key":"k"}]}           {"ids":["0-0","0-1"]}
    {"ack":"carts","receipts":["5f0c-17"]}                             ["OK"]

A publish has the members of a line of `POST /publish/{topic}`, and `text` for payloads that are text; a batch is an
array of these, or of strings, and can have one `dedup` id. A settle has those of the body of `POST
/topics/{topic}/ack`, `nack`, `back`, `dack`, `reject`, `extend`. The reply has a line for each act, in order, when the
commit is durable; with `?sync=true`, when it is on the disk, whatever the store's sync mode. If an act cannot be done,
the reply is its error, with its number:

    {"error":"act 4 of 4: the receipt belongs to no message that is leased now; …","code":"NOLEASE","act":4}
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.access.rights import Right
from miniqueue.access.users import check_permitted
from miniqueue.broker import Accepted, Broker, Published
from miniqueue.broker.model.limits import Limit
from miniqueue.broker.transactions.acts import Act, Executed, Outcome, Publish, PublishBatch, PublishWith, Settle, Way
from miniqueue.broker.transactions.transactions import MAX_ITEMS
from miniqueue.core.message.ids import following_ids
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.consume import parse_switch
from miniqueue.core.options.publish import NO_OPTIONS, PublishOptions, check_batch_id, parse_members
from miniqueue.errors import (
    InvalidLineError,
    LimitReachedError,
    MiniqueueError,
    PayloadTooLargeError,
    RequestError,
)
from miniqueue.errors.requests import TransactionRefusedError
from miniqueue.server.asgi.replies import JSON_LINES, Reply, error_reply
from miniqueue.server.asgi.request import query_of, read_body
from miniqueue.server.http.settle import nack_options_of, reason_of, receipts_of, seconds_of
from miniqueue.wire.json_bytes import take_payload
from miniqueue.wire.json_lines import encode_id, encode_ids, error_members, max_line_bytes

#: Number of bytes of lines that are decoded in one event-loop iteration, and how many bytes a line counts in addition.
TURN_BYTES: Final = 64 << 10
LINE_BYTES: Final = 640
#: Number of messages of a batch that are decoded in one event-loop iteration.
TURN_MESSAGES: Final = 200
#: Maximum size of a body if the size of transactions is unlimited.
MAX_BODY_BYTES: Final = 1 << 40
_NO_ACT: Final = 'an act is a JSON object with "publish", or with "ack", "nack", "back", "dack", "reject" or "extend"'


class TransactionEndpoint:
    """Carries out the transaction in the body of each request."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._max_bytes = broker.limits.max_transaction_bytes or MAX_BODY_BYTES
        self._max_line_bytes = max_line_bytes(broker.max_message_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless the client disconnects before its end."""
        try:
            is_synced = parse_switch("sync", query_of(scope, ("sync",)))
            body = await self._read(receive)
            if body is None:
                return
            reply = await self._answer(scope, body, is_synced=is_synced)
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)

    async def _read(self, receive: Receive) -> bytes | None:
        try:
            return await read_body(receive, self._max_bytes)
        except PayloadTooLargeError as exc:
            self._broker.limit_counts.reached(Limit.TRANSACTION_BYTES)
            raise LimitReachedError(
                f"the body is too large; at most {self._max_bytes} bytes (-{Limit.TRANSACTION_BYTES})"
            ) from exc

    async def _answer(self, scope: Scope, body: bytes, *, is_synced: bool) -> Reply:
        if (line_count := body.count(b"\n")) > MAX_ITEMS:  # before a list of them, empty ones too, needs the memory
            raise LimitReachedError(f"too many lines in a transaction: {line_count}; at most {MAX_ITEMS}")
        lines = [line for line in body.split(b"\n") if line.strip()]
        acts: list[Act] = []
        turn_bytes = TURN_BYTES
        for number, line in enumerate(lines, start=1):
            try:
                if len(line) > self._max_line_bytes:
                    raise InvalidLineError(f"the line has {len(line)} bytes; at most {self._max_line_bytes}")
                _add(acts, await _act_of(scope, line))
            except MiniqueueError as exc:
                return _refusal(number, len(lines), exc)
            turn_bytes -= len(line) + LINE_BYTES
            if turn_bytes < 0:
                turn_bytes = TURN_BYTES
                await asyncio.sleep(0)
        if not acts:
            return Reply(200, b"", JSON_LINES)
        result = await self._broker.transactions.execute(acts, is_synced=is_synced)
        if isinstance(result, Executed):
            await result.commit.wait()
            return Reply(200, b"".join(map(_encode, acts, result.outcomes)), JSON_LINES)
        self._broker.limit_counts.note(result.error)
        number, error = 1 + sum(map(_line_count, acts[: result.act])), result.error
        if isinstance(acts[result.act], Publish):  # each message has its own line
            number, error = number + result.message, result.error_of_message()
        return _refusal(number, len(lines), error)


def _refusal(number: int, count: int, error: MiniqueueError) -> Reply:
    """Return the reply for an act, from 1, that cannot be done."""
    refusal = TransactionRefusedError(f"act {number} of {count}", error)
    return error_reply(error, more={**error_members(refusal), "act": number})


def _add(acts: list[Act], act: Act) -> None:
    """Add an act; a message without options joins those before it to the same topic: all are one list."""
    last = acts[-1] if acts else None
    if isinstance(act, Publish) and isinstance(last, Publish) and last.topic == act.topic:
        last.payloads.extend(act.payloads)
    else:
        acts.append(act)


def _line_count(act: Act) -> int:
    return len(act.payloads) if isinstance(act, Publish) else 1


async def _act_of(scope: Scope, line: bytes) -> Act:
    """Return the act of a line, if the client may do it; raises MiniqueueError."""
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise InvalidLineError("the line is not JSON") from exc
    names = [name for name in ("publish", *_WAYS) if isinstance(members, dict) and name in members]
    if len(names) != 1 or not isinstance(topic := members.pop(names[0]), str):
        raise InvalidLineError(_NO_ACT)
    name = topic.encode()
    right = Right.PUBLISH if names[0] == "publish" else Right.CONSUME
    check_permitted(scope.get("user"), right, name, f"{names[0]} of the topic")
    if names[0] == "publish":
        return await _batch(name, members) if "batch" in members else _publish(name, members)
    return _settle(name, _WAYS[names[0]], members)


_WAYS: Final = {way.value: way for way in Way}


def _publish(topic: bytes, members: dict[str, Any]) -> Act:
    payload = take_payload(members)
    options = parse_members(members)
    return Publish(topic, [payload]) if options == NO_OPTIONS else PublishWith(topic, payload, options)


async def _batch(topic: bytes, members: dict[str, Any]) -> PublishBatch:
    messages, dedup_id = members.pop("batch"), members.pop("dedup", "")
    if members or not isinstance(dedup_id, str):
        raise InvalidLineError('a batch has "dedup" and no other options; its messages have "headers", "key" and "ttl"')
    if not isinstance(messages, list) or not 0 < len(messages) <= MAX_ITEMS:
        raise InvalidLineError(f'"batch" is an array of 1 to {MAX_ITEMS} messages')
    payloads: list[bytes] = []
    keys: list[bytes] = []
    others: dict[int, PublishOptions] = {}
    for message in messages:
        each = {"text": message} if isinstance(message, str) else message
        if not isinstance(each, dict):
            raise InvalidLineError('a message of a batch is a string, or an object with "msg" or "text"')
        payload = take_payload(each)
        options = parse_members(each) if each else NO_OPTIONS
        if options != PublishOptions(key=options.key):
            others[len(payloads)] = options
        payloads.append(payload)
        keys.append(options.key)
        if len(payloads) % TURN_MESSAGES == 0:
            await asyncio.sleep(0)
    return PublishBatch(topic, payloads, check_batch_id(dedup_id.encode()), BatchOptions(keys, others))


def _settle(topic: bytes, way: Way, members: dict[str, Any]) -> Settle:
    known = {"receipts", *_VALUES.get(way, ())}
    if unknown := sorted(members.keys() - known):
        raise RequestError(f"unknown member {unknown[0][:100]!r}; must be among {', '.join(sorted(known))}")
    receipts = receipts_of(members)
    if way is Way.NACK:
        return Settle(topic, receipts, way, nack=nack_options_of(members))
    if way is Way.REJECT:
        return Settle(topic, receipts, way, reason=reason_of(members))
    seconds = sum(seconds_of(members, name) for name in _VALUES.get(way, ()))
    return Settle(topic, receipts, way, seconds=float(seconds))


#: The members of a settle besides its receipts.
_VALUES: Final = {
    Way.NACK: ("delaySeconds", "reason"),
    Way.DACK: ("delaySeconds",),
    Way.EXTEND: ("leaseSeconds",),
    Way.REJECT: ("reason",),
}


def _encode(act: Act, outcome: Outcome) -> bytes:
    """Return the lines of the reply to an act."""
    if isinstance(outcome, Published):
        return encode_ids(outcome.partition, outcome.first_seq, _line_count(act))
    if isinstance(outcome, Accepted) and isinstance(act, PublishBatch):
        ids = [message_id.decode() for message_id in following_ids(outcome.message_id, outcome.message_count)]
        return orjson.dumps({"ids": ids, **({"duplicate": True} if outcome.is_duplicate else {})}) + b"\n"
    if isinstance(outcome, Accepted):
        return encode_id(outcome.message_id, is_duplicate=outcome.is_duplicate)
    receipts: Sequence[bytes] = act.receipts if isinstance(act, Settle) else ()
    return b"[%b]\n" % b",".join([b'"OK"'] * len(receipts))
