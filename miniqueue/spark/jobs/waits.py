"""How long messages waited until they were acknowledged, for topics whose setting `trace` is on.

If several groups read a topic, the last acknowledgement counts: then the message was done.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from miniqueue_client import Client, RefusedError
from miniqueue_client.calls.call import Call, Reply

_DONE = b"acknowledged"
#: Error codes for a message without a trace, or with one that this user may not see.
_NO_TRACE = frozenset({"NOMESSAGE", "NOTOPIC", "NOPERM"})


class Published(Protocol):
    """A message of a read: its topic, its id, and when it was published."""

    topic: str
    id: str
    published_at: datetime


class Waits:
    """Requests traces from a broker.

    Args:
      client: a client of the broker.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def of(self, messages: Iterable[Published]) -> list[int]:
        """Return how many ms each message waited, without messages that are not done; each message counts once."""
        distinct = dict.fromkeys((message.topic, message.id) for message in messages)
        calls = [Call(("TRACE", topic, message_id), _waited_ms) for topic, message_id in distinct]
        results: list[Any] = self._client.execute_all(calls) if calls else []
        for result in results:
            if isinstance(result, RefusedError) and result.code not in _NO_TRACE:
                raise result
        return [result for result in results if isinstance(result, int)]


def _waited_ms(steps: Reply) -> int | None:
    """Return the time from the commit to the last acknowledgement; None if either is unknown."""
    begins = [step[b"at_ms"] for step in steps if step[b"event"] == b"committed"]
    ends = [step[b"at_ms"] for step in steps if step[b"event"] == _DONE]
    return int(max(ends) - min(begins)) if begins and ends else None
