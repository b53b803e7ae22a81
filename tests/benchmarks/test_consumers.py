"""What consuming connections ask for, and when."""

import pytest

from benchmarks.clients.consumers import CONSUMERS, GROUPS, Consumer
from benchmarks.clients.dialects import TOPIC, pack


class Everything:
    """Takes payloads, as many as wanted."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.payloads: list[bytes] = []

    def received(self, payloads: list[bytes]) -> bool:
        self.payloads += payloads
        return len(self.payloads) < self.wanted

    def fail(self, error: Exception) -> None:
        raise error


class Written:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def take(self) -> bytes:
        data, self.data = self.data, b""
        return data


def connected(name: str, sink: Everything, number: int = 0, word: bytes = b"ACK") -> tuple[Consumer, Written]:
    consumer, transport = CONSUMERS[name](sink, number, 2, word), Written()
    consumer.connection_made(transport)
    return consumer, transport


def read_from(offset: int) -> bytes:
    return pack(b"READ", TOPIC, b"0", b"%d" % offset, b"COUNT", b"2", b"BYTES", b"4194304")


def page(next_offset: int, *payloads: bytes) -> bytes:
    messages = b"".join(b"*3\r\n$3\r\n0-7\r\n$%d\r\n%b\r\n*0\r\n" % (len(one), one) for one in payloads)
    return b"*4\r\n$4\r\nnext\r\n:%d\r\n$8\r\nmessages\r\n*%d\r\n%b" % (next_offset, len(payloads), messages)


def test_a_log_is_read_page_by_page_until_there_are_enough():
    sink = Everything(3)
    reader, transport = connected("read", sink)
    assert transport.take() == read_from(0)
    reader.data_received(page(9, b"a", b"b"))
    assert transport.take() == read_from(9)
    reader.data_received(page(11, b"c"))
    assert transport.take() == b""
    assert sink.payloads == [b"a", b"b", b"c"]


def entries(*ids: bytes) -> bytes:
    one = b"*2\r\n$3\r\n%b\r\n*2\r\n$5\r\nfield\r\n$1\r\nx\r\n"
    return b"*%d\r\n" % len(ids) + b"".join(one % entry_id for entry_id in ids)


def test_a_stream_of_redis_is_read_page_by_page_until_there_is_enough():
    reader, transport = connected("redis-range", Everything(3))
    assert transport.take() == pack(b"XRANGE", TOPIC, b"-", b"+", b"COUNT", b"2")
    reader.data_received(entries(b"1-0", b"1-1"))
    assert transport.take() == pack(b"XRANGE", TOPIC, b"(1-1", b"+", b"COUNT", b"2")
    reader.data_received(entries(b"1-2"))
    assert transport.take() == b""


def test_consumers_of_redis_go_round_the_groups_and_acknowledge_in_their_own():
    for number, group in enumerate(GROUPS):
        reader, transport = connected("redis-groups", Everything(3), number)
        asked = transport.take()
        assert pack(b"XREADGROUP", b"GROUP", group)[4:] in asked
        reader.data_received(b"*1\r\n*2\r\n$5\r\nbench\r\n" + entries(b"1-0", b"1-1"))
        assert transport.take() == pack(b"XACK", TOPIC, group, b"1-0", b"1-1") + asked


@pytest.mark.parametrize(("word", "sent"), [(b"ACK", b"+ACK"), (b"NACK", b"-NAK")])
def test_a_batch_of_jetstream_is_settled_with_the_word(word, sent):
    puller, transport = connected("nats", Everything(3), word=word)
    asked = transport.take()
    puller.data_received(b"MSG inbox.0 1 r1 1\r\nx\r\nMSG inbox.0 1 r2 1\r\nx\r\n")
    settled = b"".join(b"PUB %b 4\r\n%b\r\n" % (reply, sent) for reply in (b"r1", b"r2"))
    assert transport.take().startswith(settled)
    assert asked


def test_a_consumer_of_one_group_reads_in_no_other():
    for group in GROUPS:
        for number in range(3):
            _, transport = connected(f"prefetch-{group.decode()}", Everything(1), number)
            assert transport.take() == pack(b"SUBSCRIBE", TOPIC, b"PREFETCH", b"2", b"GROUP", group)
