"""One stream of the client, without a connection."""

from miniqueue.client.stream import Stream
from miniqueue.errors import DisconnectedError


class FakeOwner:
    """Notes what a stream asks of its connection."""

    def __init__(self) -> None:
        self.given_back_bytes = 0

    def send(self, stream):
        pass

    def give_back(self, stream_id, size_bytes):
        self.given_back_bytes += size_bytes

    def abandon(self, stream):
        stream.fail(DisconnectedError())


def test_what_nobody_has_read_leaves_its_room_to_other_streams():
    owner = FakeOwner()
    stream = Stream(owner, 1)
    stream.receive(b"payload", 9)
    stream.close()
    stream.close()
    assert owner.given_back_bytes == 9


def test_an_answer_that_is_over_and_not_read_leaves_its_room_too():
    owner = FakeOwner()
    stream = Stream(owner, 1)
    stream.receive(b"payload", 9)
    stream.end_response()
    stream.is_sent = True
    stream.close()
    assert owner.given_back_bytes == 9
