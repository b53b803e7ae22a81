"""Ports that are free, and stay so for who is told of them: also between the end of a process and its next start."""

import socket


def hold_port() -> socket.socket:
    """Return a socket on a port of loopback that nobody is given while it is open.

    It does not listen. Who asks for this port by its number, as servers do, with SO_REUSEADDR, can.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    port: int = held.getsockname()[1]
    return port
