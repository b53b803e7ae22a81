"""A proxy for a broker that loses replies: it forwards commands, and disconnects the client instead of replying."""

import contextlib
import select
import socket
import threading


class LossyProxy:
    """Listens on loopback; each connection is passed on to `port`.

    `losses` is how many replies are lost from now on. Those to the words with which a connection begins, and to none of
    `only`, are not counted: they come through.
    """

    def __init__(self, port: int, only: bytes) -> None:
        self._port = port
        self._only = only
        self.losses = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def end(self) -> None:
        """Listen no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass_on, args=[client], daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        """Pass on each piece that arrives: some replies to a transaction come before its commit, the last after it."""
        is_to_be_lost = False
        with client, socket.create_connection(("127.0.0.1", self._port)) as broker:
            while True:
                readable, _, _ = select.select([broker, client], [], [])
                source, sink = (broker, client) if broker in readable else (client, broker)
                data = source.recv(1 << 20)
                if not data:
                    return
                if source is client:
                    is_to_be_lost = self.losses > 0 and self._only in data
                elif is_to_be_lost:
                    self.losses -= 1
                    return
                sink.sendall(data)
