"""What a connection keeps of what its client has said: little, whatever it says, and for however long."""

import hpack
from h2.settings import SettingCodes
from hyperframe.frame import SettingsFrame

from miniqueue.server.hypercorn.frames import KNOWN_STREAMS, MAX_TABLE_BYTES
from tests.server.hypercorn.raw_http2 import FRAME_HEAD_BYTES
from tests.server.hypercorn.test_streams import Requests


def set_table(requests: Requests, size_bytes: int) -> None:
    frame = SettingsFrame(0, settings={SettingCodes.HEADER_TABLE_SIZE: size_bytes})
    requests.connection.receive_data(frame.serialize())


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


def test_the_table_of_replies_stays_small_however_large_a_one_is_offered():
    requests = Requests()
    set_table(requests, 2**32 - 1)
    for number in range(2 * MAX_TABLE_BYTES // 32):
        reply = [(b":status", b"201"), (b"message-id", b"%d" % number)]
        requests.connection.send_headers(requests.begin(), reply, end_stream=True)
    table = requests.connection.encoder.header_table
    assert sum(32 + len(name) + len(value) for name, value in table.dynamic_entries) <= MAX_TABLE_BYTES


def test_a_smaller_table_that_is_asked_for_twice_is_told_of():
    requests = Requests()
    set_table(requests, 100)
    set_table(requests, 100)
    requests.connection.clear_outbound_data_buffer()
    requests.end(requests.begin())
    decoder = hpack.Decoder()
    decoder.max_allowed_table_size = 100
    block = requests.connection.data_to_send()[FRAME_HEAD_BYTES:]
    assert decoder.decode(block, raw=True) == [(b":status", b"200")]
