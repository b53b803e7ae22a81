"""Ports that no other process gets: not even between the end of a process and its next start."""

import socket


def hold_port() -> socket.socket:
    """Return a socket on a port of loopback that the system assigns to no process while the socket is open.

    It does not listen. A server that binds this port by its number, with SO_REUSEADDR, can do so.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    port: int = held.getsockname()[1]
    return port
