"""What a connection keeps of what its client has said: little, whatever it says, and for however long."""

from miniqueue.server.h2guard.frames import KNOWN_STREAMS
from tests.server.test_h2guard_streams import Requests


def test_the_numbers_of_streams_that_are_over_are_not_kept():
    requests = Requests()
    for _ in range(2 * KNOWN_STREAMS):
        requests.end(requests.begin())
    requests.connection.count_requests()
    assert len(requests.connection._closed_streams) == KNOWN_STREAMS
