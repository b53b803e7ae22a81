"""What a connection keeps of what its client has said: little, whatever it says, and for however long."""

from h2.settings import SettingCodes

from miniqueue.server.h2guard.frames import KNOWN_STREAMS
from tests.server.test_h2guard_streams import Requests


def test_the_numbers_of_streams_that_are_over_are_not_kept():
    requests = Requests()
    for _ in range(2 * KNOWN_STREAMS):
        requests.end(requests.begin())
    requests.connection.count_requests()
    assert len(requests.connection._closed_streams) == KNOWN_STREAMS


def test_settings_that_nobody_knows_are_not_kept():
    requests = Requests()
    settings = b"".join(code.to_bytes(2, "big") + bytes(4) for code in range(0x100, 0x200))
    requests.connection.receive_data(len(settings).to_bytes(3, "big") + b"\4\0\0\0\0\0" + settings)
    assert set(requests.connection.remote_settings) <= set(SettingCodes)
