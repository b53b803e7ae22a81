"""Clients that leave right after their last command, and a broker that stops, over real connections."""

import asyncio
import socket
import ssl

import pytest
import uvloop

from miniqueue.server.resp.server import RespServer
from miniqueue.server.security.tls import ServerTls
from tests.fakes import FaultyStore, ManualClock, broker_on
from tests.server.resp.clients import PARAMETERS, command
from tests.serving import PATIENCE_SECONDS, eventually

SENT = [command(b"PUBLISH", b"q", b"a"), command(b"LEN", b"q"), command(b"PUBLISH", b"q", b"b")]
REPLIES = b"+OK\r\n:1\r\n+OK\r\n"


def connect(port: int, *, is_tls: bool) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", port))
    if not is_tls:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # in 1.3, unread tickets turn a close into a reset
    return context.wrap_socket(plain)


def say_goodbye(client: socket.socket) -> None:
    """Send the close_notify of TLS, without waiting for that of the broker, and close."""
    assert isinstance(client, ssl.SSLSocket)
    client.setblocking(False)
    with pytest.raises(ssl.SSLWantReadError):
        client.unwrap()
    client.close()


def send_two_and_leave(certificates, *, is_tls, leave, reply=b""):
    """Send two messages with a LEN between them, which waits for the commit of the first, and leave."""

    async def main():
        store = FaultyStore()
        broker = broker_on(store, ManualClock())
        await broker.start()
        server = RespServer(broker, PARAMETERS)
        context = ServerTls(certificates.cert, certificates.key).context(()) if is_tls else None
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, ssl=context)
        store.may_write.clear()
        port = listener.sockets[0].getsockname()[1]
        client = await asyncio.to_thread(connect, port, is_tls=is_tls)
        client.sendall(b"".join(SENT[:2]))
        await eventually(lambda: server.commands_processed == 2)
        client.sendall(SENT[2])  # read, though LEN holds the connection: a reset would take it from the kernel
        leave(client)
        await eventually(lambda: all(connection._incoming.is_behind for connection in server.all_connections()))
        store.may_write.set()
        await eventually(lambda: not server.connections)
        assert server.commands_processed == 3
        assert broker.stats()[b"q"].ready == 2
        if reply:
            assert await asyncio.to_thread(client.recv, 1000) == reply
        client.close()
        listener.close()
        await broker.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("leave", [say_goodbye, socket.socket.close], ids=["close_notify", "FIN only"])
def test_both_messages_stay_when_a_client_leaves_over_tls(certificates, leave):
    send_two_and_leave(certificates, is_tls=True, leave=leave)


def test_both_messages_stay_when_a_client_closes(certificates):
    send_two_and_leave(certificates, is_tls=False, leave=socket.socket.close)


def test_a_client_that_closes_its_half_gets_all_replies(certificates):
    send_two_and_leave(certificates, is_tls=False, leave=lambda client: client.shutdown(socket.SHUT_WR), reply=REPLIES)


def test_replies_of_the_last_commit_reach_the_client_before_the_process_ends():
    async def main():
        store = FaultyStore()
        broker = broker_on(store, ManualClock())
        await broker.start()
        server = RespServer(broker, PARAMETERS)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        store.may_write.clear()
        client = await asyncio.to_thread(connect, listener.sockets[0].getsockname()[1], is_tls=False)
        client.sendall(SENT[0] + command(b"PURGE", b"q"))
        await eventually(lambda: server.commands_processed == 2)
        listener.close()
        server.drain()
        stopping = asyncio.create_task(broker.stop())
        await asyncio.sleep(0)
        store.may_write.set()
        await stopping
        return client

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        client = runner.run(main())
    client.settimeout(PATIENCE_SECONDS)
    replies, received = b"+OK\r\n-DRAINING The broker is shutting down\r\n", b""
    while len(received) < len(replies) and (data := client.recv(1000)):
        received += data
    assert received == replies
    client.close()
