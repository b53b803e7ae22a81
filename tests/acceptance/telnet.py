"""A plain socket to the RESP port, as people with telnet and hostile peers use it."""

import socket
from types import TracebackType

from tests.acceptance.tools import MAX_SECONDS


def command(line: bytes) -> bytes:
    """Return the words of a line as a RESP array."""
    words = line.split()
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class Telnet:
    """A connection that sends lines, and reads up to given bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=MAX_SECONDS)
        self._unread = b""

    def __enter__(self) -> "Telnet":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def say(self, *lines: bytes) -> None:
        """Send commands, each a line of words without spaces in them."""
        self.socket.sendall(b"".join(map(command, lines)))

    def read_until(self, end: bytes) -> bytes:
        """Return what comes up to and with `end`; fails when the connection ends before."""
        while end not in self._unread:
            chunk = self.socket.recv(65536)
            assert chunk, f"closed after {self._unread!r}"
            self._unread += chunk
        found, _, self._unread = self._unread.partition(end)
        return found + end

    def read_to_close(self) -> bytes:
        """Return all that comes until the peer closes."""
        while chunk := self._recv_or_reset():
            self._unread += chunk
        return self._unread

    def _recv_or_reset(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:  # it closed while we were still sending
            return b""


def publish(port: int, topic: str, *messages: str) -> None:
    """Publish messages without spaces, one after the other."""
    with Telnet(port) as telnet:
        for message in messages:
            telnet.say(f"PUBLISH {topic} {message}".encode())
            assert telnet.read_until(b"\r\n") == b"+OK\r\n"
