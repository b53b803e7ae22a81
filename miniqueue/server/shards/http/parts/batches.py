"""Batches with a dedup id whose lines have keys of several parts: each part adds its own, and the answers become one.

    one ─ {…,"key":"a"} ─┐                          ┌─ part 5: one, three ─▶ {"id":"5120-17"} {"id":"5120-18"} ─┐
    two ─ {…,"key":"b"}  ├─ ?dedup=7f, of each part ┤                                                           ├─▶ 201
    three ─ {…,"key":"a"}┘                          └─ part 2: two        ─▶ {"id":"2048-9"} ────────────────────┘

Each part adds its lines in one commit, or none of them, and knows the dedup id for itself. So a batch that is sent
again after an error is completed. If a part refuses, the error says which lines are not confirmed, counted from 1.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.core.message.partitioning import indexes_by_number
from miniqueue.core.message.parts import part_for
from miniqueue.core.options.batch import BatchOptions, not_confirmed
from miniqueue.core.options.publish import PublishOptions, without_digest
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import OutcomeUnknownError
from miniqueue.server.asgi.replies import JSON_LINES, AnsweredError, status_of
from miniqueue.server.asgi.request import read_body
from miniqueue.server.http.publish import MAX_BATCH_BODY_BYTES, check_batch_options, decode_batch
from miniqueue.server.shards.http.owners import Answer, replaying, together
from miniqueue.server.shards.http.parts.asking import Parts, Spread, with_query
from miniqueue.server.shards.http.parts.whole import code_of
from miniqueue.server.shards.links.earlier import published_batch

#: If a body contains neither, no line has a key: the letters of its name can only be written in these two ways.
_SIGNS_OF_KEYS: Final = (b'"key"', b"\\u")
_BLANKS: Final = b" \t\r\n"

_Answers = Mapping[int, Answer | MiniqueueError]


async def publish_batch(
    parts: Parts, options: PublishOptions, topic: Spread, scope: Scope, receive: Receive, send: Send
) -> None:
    """Publish the lines of a request, each in the part of its key; raises MiniqueueError."""
    check_batch_options(options)
    body = await read_body(receive, MAX_BATCH_BODY_BYTES)
    if body is None:
        return
    has_keys = any(sign in body for sign in _SIGNS_OF_KEYS)
    each = (await decode_batch(body, parts.max_message_bytes))[1] if has_keys else BatchOptions()
    published = published_batch(options.dedup_id, each.keys)
    [topic] = await parts.placed(topic, [published])
    if not published.is_cut:
        number = parts.part_for(topic, without_digest(options.dedup_id))
        await parts.pass_on(topic, number, scope, replaying(body, receive), send)
        return
    dedup_id = parts.earlier_of(topic.name).batch_id(options.dedup_id, topic.part_count)
    scope = with_query(scope, {"dedup": dedup_id})
    indexes = _indexes(topic, options.dedup_id, each.keys)
    if len(indexes) == 1:
        await parts.pass_on(topic, next(iter(indexes)), scope, replaying(body, receive), send)
        return
    parts.check_batch(topic, indexes, each)
    lines = [line for line in body.split(b"\n") if line.strip(_BLANKS)]
    with parts.owners.gathering(scope) as gathering:

        async def publish_own(number: int) -> Answer | MiniqueueError:
            own = b"\n".join(map(lines.__getitem__, indexes[number]))
            try:
                return await parts.ask(topic, number, scope, gathering, own)
            except MiniqueueError as exc:
                return exc

        answers = dict(zip(indexes, await together(map(publish_own, indexes)), strict=True))
        await _merged(indexes, answers).reply()(scope, receive, send)


def _indexes(topic: Spread, dedup_id: bytes, keys: Sequence[bytes]) -> dict[int, list[int]]:
    """Return which lines each part gets; those without keys are in the only part of the others, or that of the id."""
    of_keys = {part_for(key, topic.part_count) for key in keys if key}
    of_no_key = of_keys.pop() if len(of_keys) == 1 else part_for(without_digest(dedup_id), topic.part_count)
    return indexes_by_number([part_for(key, topic.part_count) if key else of_no_key for key in keys])


def _merged(indexes: Mapping[int, list[int]], answers: _Answers) -> Answer:
    """Return the answers to the lines of all parts; raises the error of a part, or returns it."""
    failed = [number for number, answer in answers.items() if isinstance(answer, MiniqueueError) or answer.is_error]
    if failed:
        return _refused(indexes, answers, failed)
    lines = [b""] * sum(map(len, indexes.values()))
    statuses = set[int]()
    for number, answer in answers.items():
        assert isinstance(answer, Answer)  # it is no error
        statuses.add(answer.status)
        for index, line in zip(indexes[number], answer.body.splitlines(keepends=True), strict=True):
            lines[index] = line
    is_duplicate = statuses == {200}
    headers = [(b"content-type", JSON_LINES), *([(b"duplicate", b"true")] if is_duplicate else [])]
    return Answer(200 if is_duplicate else 201, headers, b"".join(lines))


def _refused(indexes: Mapping[int, list[int]], answers: _Answers, failed: Sequence[int]) -> Answer:
    """Return, or raise, the error of the parts that have refused their lines, or whose outcome is not known."""
    errors = [answers[number] for number in failed]
    error = next((each for each in errors if _code_of(each) == OutcomeUnknownError.code), errors[0])
    text = ""
    if len(failed) < len(answers):
        missing = sorted(chain.from_iterable(indexes[number] for number in failed))
        text = not_confirmed(sum(map(len, indexes.values())), missing)
    if isinstance(error, MiniqueueError):
        raise AnsweredError(status_of(error), error.code, f"{error}{text}")
    members = orjson.loads(error.body)
    return error._replace(body=orjson.dumps({**members, "error": members["error"] + text}))


def _code_of(error: Answer | MiniqueueError) -> str:
    return error.code if isinstance(error, MiniqueueError) else code_of(error)
