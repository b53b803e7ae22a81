"""Traces of messages as both protocols show them.

    RESP   [[event, published, at_ms, 1700000000000, topic, t, id, 0-17, by, resp 127.0.0.1:5123], …]
    JSON   {"event":"published","atMs":1700000000000,"topic":"t","id":"0-17","by":"resp 127.0.0.1:5123"}

Fields that do not apply are omitted.
"""

from collections.abc import Iterable

from miniqueue.broker.traces.steps import ORIGINS, Step
from miniqueue.core.message.parts import whole_of
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.attribute_words import as_json


def resp_steps(steps: Iterable[Step], protocol: int) -> bytes:
    """Encode the events of a trace as an array; in RESP3 of maps."""
    return replies.array([replies.encode(_words(step), protocol) for step in steps])


def json_steps(steps: Iterable[Step]) -> list[object]:
    """Return the events of a trace as JSON; bytes that are not UTF-8 are replaced."""
    return [as_json(_words(step)) for step in steps]


def _words(step: Step) -> dict[replies.Value, replies.Value]:
    words: dict[replies.Value, replies.Value] = {
        "event": step.event,
        "at_ms": step.at_ms,
        "topic": whole_of(step.position.topic),
        "id": step.position.message_id,
        "group": step.group,
        "by": step.by,
        "member": step.member,
        "receipt": step.receipt,
        "reason": step.reason,
    }
    if step.other is not None:
        other: dict[replies.Value, replies.Value] = {"topic": whole_of(step.other.topic)}
        if step.other.message_id:
            other["id"] = step.other.message_id
        words["from" if step.event in ORIGINS else "to"] = other
    return {name: value for name, value in words.items() if value != b""}
