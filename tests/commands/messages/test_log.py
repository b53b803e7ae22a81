"""Reading lanes of a log, page by page, while the broker is lost and returns."""

from dataclasses import dataclass

import pytest

from miniqueue.commands.messages import log
from miniqueue.commands.messages.log import Lane
from miniqueue.errors import DisconnectedError
from miniqueue_client import Message
from miniqueue_client.calls.values import Page


@dataclass
class FakeLog:
    """Lanes whose messages were published in turn, one each millisecond.

    Attributes:
      lanes: their names.
      missed: the number of messages at the start of each lane that are deleted.
      lost: the lane that cannot be read once.
    """

    lanes: tuple[str, ...]
    missed: int = 0
    lost: str = ""

    def read(self, topic, lane, offset, *, count, max_bytes):
        if lane == self.lost:
            self.lost = ""
            raise DisconnectedError("lost")
        first = max(offset, self.missed)
        messages = tuple(
            Message(topic, f"{lane}-{number}", b"", published_at_ms=number * 10 + self.lanes.index(lane))
            for number in range(first, first + count)
        )
        return Page(messages, first + count, first - offset, 0, 9)


def ids_until_lost(client, lanes, missed):
    ids = []
    try:
        for message in log.messages_in(client, "t", lanes, missed.append):
            ids.append(message.id)
    except DisconnectedError:
        ids.append("lost")
    return ids


@pytest.mark.parametrize("page_messages", [1, 2, 500])
def test_a_lost_broker_skips_no_message_of_another_lane(monkeypatch, page_messages):
    monkeypatch.setattr(log, "_PAGE_MESSAGES", page_messages)
    client = FakeLog(("0", "1"), missed=1, lost="1")
    lanes, missed = [Lane("0", 0, 3), Lane("1", 0, 3)], []
    assert ids_until_lost(client, lanes, missed) == ["lost"]
    assert ids_until_lost(client, lanes, missed) == ["0-1", "1-1", "0-2", "1-2"]
    assert missed == [1, 1]
    assert [lane.next for lane in lanes] == [3, 3]


def test_what_was_published_since_the_end_was_found_is_read_later():
    client = FakeLog(("0",), missed=2)
    lanes, missed = [Lane("0", 0, 3)], []
    assert ids_until_lost(client, lanes, missed) == ["0-2"]
    lanes[0].end = 5
    assert ids_until_lost(client, lanes, missed) == ["0-3", "0-4"]
    assert missed == [2]
