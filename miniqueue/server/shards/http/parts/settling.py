"""Settles messages of a spread topic by their receipts, each of which contains its part.

    POST /topics/orders/ack {"receipts": [a, b, c]} ─▶ part 0: [a, c]  part 3: [b] ─▶ the results, in the same order
    POST /topics/orders/reply?receipt=a             ─▶ part 0

Each part settles its own: if a shard does not answer, the results of its receipts are the error.
"""

from itertools import repeat
from operator import mod
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.core.cursor.receipts import part_of_receipt, parts_of_receipts
from miniqueue.core.message.partitioning import indexes_by_run
from miniqueue.core.options.consume import MAX_PREFETCH
from miniqueue.errors import InvalidLineError, MiniqueueError, PayloadTooLargeError
from miniqueue.server.asgi.replies import JSON
from miniqueue.server.asgi.request import parameters_of, read_body
from miniqueue.server.http.settle import MAX_BODY_BYTES
from miniqueue.server.shards.http.owners import Answer, replaying, together
from miniqueue.server.shards.http.parts.asking import Parts, Spread

_NO_RECEIPTS: Final = (b"",)


async def settle(parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request; raises MiniqueueError."""
    try:
        body = await read_body(receive, MAX_BODY_BYTES)
    except PayloadTooLargeError as exc:
        raise InvalidLineError(f"body too large; must be at most {MAX_BODY_BYTES} bytes") from exc
    if body is None:
        return
    content, receipts = _receipts_in(body)
    indexes = indexes_by_run(list(map(mod, parts_of_receipts(receipts), repeat(topic.part_count))))
    if len(indexes) == 1:
        await parts.pass_on(topic, next(iter(indexes)), scope, replaying(body, receive), send)
        return
    with parts.owners.gathering(scope) as gathering:

        async def settle_own(number: int) -> Answer | MiniqueueError:
            own = {**content, "receipts": [content["receipts"][index] for index in indexes[number]]}
            try:
                return await parts.ask(topic, number, scope, gathering, orjson.dumps(own))
            except MiniqueueError as exc:
                return exc

        answers = dict(zip(indexes, await together(map(settle_own, indexes)), strict=True))
        answer = _merged(len(receipts), indexes, answers)
        await answer.reply()(scope, receive, send)


async def reply(parts: Parts, topic: Spread, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the reply to a request, by the receipt of its message; raises MiniqueueError."""
    receipt = next((value for name, value in parameters_of(scope) if name == "receipt"), b"")
    await parts.pass_on(topic, part_of_receipt(receipt) % topic.part_count, scope, receive, send)


def _receipts_in(body: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Return a body and its receipts; if it is invalid, one receipt of no message: a part says what is wrong."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}, [*_NO_RECEIPTS]
    receipts = content.get("receipts") if isinstance(content, dict) else None
    if not isinstance(receipts, list) or not 0 < len(receipts) <= MAX_PREFETCH or not all(map(_is_text, receipts)):
        return {}, [*_NO_RECEIPTS]
    return content, [receipt.encode() for receipt in receipts]


def _is_text(receipt: object) -> bool:
    return isinstance(receipt, str)


def _merged(receipt_count: int, indexes: dict[int, list[int]], answers: dict[int, Answer | MiniqueueError]) -> Answer:
    """Return the results of all receipts; if no part has settled any, the first error."""
    if all(isinstance(answer, MiniqueueError) or answer.is_error for answer in answers.values()):
        first = next(iter(answers.values()))
        if isinstance(first, MiniqueueError):
            raise first
        return first
    results = [""] * receipt_count
    for number, answer in answers.items():
        own = indexes[number]
        for index, result in zip(own, _results(answer, len(own)), strict=True):
            results[index] = result
    return Answer(200, [(b"content-type", JSON)], orjson.dumps(results))


def _results(answer: Answer | MiniqueueError, count: int) -> list[str]:
    """Return the results of the receipts of one part."""
    if isinstance(answer, MiniqueueError):
        return [f"{answer.code} {answer}"] * count
    content = orjson.loads(answer.body)
    return [f"{content['code']} {content['error']}"] * count if answer.is_error else content
