"""The first line on a link: for which client the process at the other end acts. One JSON object.

    {"kind":"resp","client":["127.0.0.1",50000],"id":7,"user":"ada","protocol":3,"name":"","library":"redis-py", …}
    {"kind":"http", …}       a request follows, which has a client and credentials of its own
    {"kind":"ping", …}       whether the process answers
    {"kind":"transfers", …}  messages follow that move to topics of this shard, from the shard whose number is the name
    {"kind":"spread", …}     orders about spread topics follow; `shard` lists all kinds

Only processes of this broker can connect to the socket, which is in a private directory. So the user is believed: the
door has authenticated the client, and the owner checks its rights for every command, as its own door does.
"""

from typing import Final, NamedTuple

import orjson

from miniqueue.errors import ProtocolError

MAX_LINE_BYTES: Final = 4096


class Introduction(NamedTuple):
    """A client of another process.

    Attributes:
      kind: the kind of the link.
      client: the address of the client.
      id: the id of its connection.
      user: the user as which it has authenticated; None: none, or there are no users.
      protocol: the version of RESP that it has selected.
      name: what it has called itself.
      library: the library that it has named.
      secret: the first word of what the door itself orders (`link`); random, so that no client sends it.
    """

    kind: str
    client: tuple[str, int] = ("?", 0)
    id: int = 0
    user: str | None = None
    protocol: int = 2
    name: str = ""
    library: str = ""
    secret: str = ""

    def encode(self) -> bytes:
        """Return the line."""
        return orjson.dumps(self._asdict()) + b"\n"


def parse_introduction(line: bytes) -> Introduction:
    """Return what a line says; raises ProtocolError."""
    try:
        fields = orjson.loads(line)
        host, port = fields.pop("client")
        return Introduction(client=(str(host), int(port)), **fields)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise ProtocolError("a link that began without an introduction") from exc
