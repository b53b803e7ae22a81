"""Ports that no other process gets: not even between the end of a process and its next start."""

import socket


def hold_port() -> socket.socket:
    """Return a socket on a port of loopback that the system assigns to no process while the socket is open.

    It does not listen. A server that binds this port by its number, with SO_REUSEADDR, can do so.
    """
    return _hold(0)


def _hold(port: int) -> socket.socket:
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind(("127.0.0.1", port))
    except BaseException:
        held.close()
        raise
    return held


def hold_ports(count: int) -> list[socket.socket]:
    """Return sockets on ports that follow each other, as `hold_port` does."""
    for _ in range(1_000):
        held = [hold_port()]
        try:
            while len(held) < count:
                held.append(_hold(port_of(held[-1]) + 1))
        except (OSError, OverflowError):  # another process has it, or there are no more
            for each in held:
                each.close()
        else:
            return held
    raise AssertionError(f"no {count} free ports follow each other")


def port_of(held: socket.socket) -> int:
    port: int = held.getsockname()[1]
    return port
