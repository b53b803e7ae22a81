"""What consuming connections ask for, and when."""

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


def connected(name: str, sink: Everything, number: int = 0) -> tuple[Consumer, Written]:
    consumer, transport = CONSUMERS[name](sink, number, 2, b"ACK"), Written()
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


def test_a_consumer_of_one_group_reads_in_no_other():
    for group in GROUPS:
        for number in range(3):
            _, transport = connected(f"prefetch-{group.decode()}", Everything(1), number)
            assert transport.take() == pack(b"SUBSCRIBE", TOPIC, b"PREFETCH", b"2", b"GROUP", group)
