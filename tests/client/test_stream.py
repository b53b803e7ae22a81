from miniqueue_client.http2.stream import Stream


class FakeOwner:
    """Counts what is given back."""

    def __init__(self) -> None:
        self.given_back_bytes = 0

    def send(self, stream: Stream) -> None:
        """Send nothing."""

    def give_back(self, stream_id: int, size_bytes: int) -> None:
        self.given_back_bytes += size_bytes

    def abandon(self, stream: Stream) -> None:
        """Ignore it."""


async def test_an_empty_part_is_not_the_end():
    owner = FakeOwner()
    stream = Stream(owner, 1)
    stream.receive(b"", 10)  # all padding
    stream.receive(b"x", 1)
    assert await stream.read() == b"x"
    assert owner.given_back_bytes == 11
    stream.end_response()
    assert await stream.read() == b""
