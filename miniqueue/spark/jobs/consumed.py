"""How long messages waited until they were acknowledged, of those topics whose setting `trace` is on.

Where several groups read a topic, it is the last one of them that counts: then the message was done with.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from miniqueue.client import Client, RefusedError
from miniqueue.client.call import Call, Reply

_DONE = b"acknowledged"
#: What a broker says that has no trace of a message, or shows none to this user.
_UNTOLD = frozenset({"NOMESSAGE", "NOTOPIC", "NOPERM"})


class Published(Protocol):
    """A message, as a read shows it: where it is, and when it was published."""

    topic: str
    id: str
    published_at: datetime


class Waits:
    """Asks a broker for traces.

    Args:
      client: of the broker.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def of(self, messages: Iterable[Published]) -> list[int]:
        """Return how many ms each message waited, of those that are done; a message counts once."""
        places = dict.fromkeys((one.topic, one.id) for one in messages)
        calls = [Call(("TRACE", topic, message_id), _waited_ms) for topic, message_id in places]
        results: list[Any] = self._client.execute_all(calls) if calls else []
        for one in results:
            if isinstance(one, RefusedError) and one.code not in _UNTOLD:
                raise one
        return [one for one in results if isinstance(one, int)]


def _waited_ms(steps: Reply) -> int | None:
    """Return the time between the commit and the last acknowledgement; None if either is not known."""
    begins = [step[b"at_ms"] for step in steps if step[b"event"] == b"committed"]
    ends = [step[b"at_ms"] for step in steps if step[b"event"] == _DONE]
    return int(max(ends) - min(begins)) if begins and ends else None
