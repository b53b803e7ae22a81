"""Commands of another process are carried out one after the other, and an order that is none is an error."""

from miniqueue.server.shards.links.answering import Answering
from tests.fakes import FakeTransport, settle_down
from tests.server.resp.clients import command
from tests.server.shards.http.fleet import fleet_in


def answering(answer):
    protocol = Answering(answer)
    transport = FakeTransport(protocol)
    protocol.connection_made(transport)
    return protocol, transport


async def test_replies_have_the_order_of_the_commands_and_ping_comes_after_them():
    async def answer(words):
        await settle_down()
        return b"+%b\r\n" % words[0]

    protocol, transport = answering(answer)
    protocol.data_received(command(b"A") + command(b"B") + command(b"PING", b"end"))
    while not transport.written.endswith(b"end\r\n"):
        await settle_down()
    assert transport.written == b"+A\r\n+B\r\n$3\r\nend\r\n"


async def test_a_command_that_fails_ends_the_link():
    async def answer(_words):
        raise ZeroDivisionError

    protocol, transport = answering(answer)
    protocol.data_received(command(b"A") + command(b"PING", b"end"))
    await settle_down()
    assert (transport.written, transport.is_closing()) == (b"", True)


async def test_an_order_that_is_none_is_an_error_and_no_confirmation(tmp_path):
    async with fleet_in(tmp_path) as fleet:
        spreading = fleet.members[0].shard.spreading
        assert (await spreading.obey([b"NONE", b"orders"])).startswith(b"-ERR an unknown order")
