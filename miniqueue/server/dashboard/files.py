"""The files of the page: read at their first use, and kept, compressed too, for the browsers that come next.

Browsers ask again each time, with the tag of what they have; the answer is 304 unless the file is another one. So after
an upgrade of the broker, no browser shows the old page.
"""

import gzip
import hashlib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from starlette.types import Receive, Scope, Send

from miniqueue.server.asgi.replies import NOT_FOUND, Reply

#: The type of each file, by the end of its name; there are no other files.
_TYPES: Final = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "txt": b"text/plain; charset=utf-8",
    "woff2": b"font/woff2",
}
_SHELL: Final = "index.html"
#: No file has a longer name; file systems report one of more than 255 bytes as an error.
_MAX_NAME_CHARACTERS: Final = 60


class _Asset(NamedTuple):
    tag: bytes
    plain: Reply
    packed: Reply
    unchanged: Reply


class Assets:
    """Serves the files below a folder.

    Args:
      folder: the folder; None: the files of this package.
    """

    def __init__(self, folder: Traversable | None = None) -> None:
        self._folder = folder
        self._assets: dict[str, _Asset] = {}

    async def shell(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the page itself."""
        await self._send(_SHELL, scope, receive, send)

    async def file(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file that the path names after `/ui/assets/`."""
        await self._send(scope["path"].removeprefix("/ui/assets/"), scope, receive, send)

    async def _send(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        asset = self._assets.get(name) or self._read(name)
        if asset is None:
            await NOT_FOUND(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if headers.get(b"if-none-match") == asset.tag:
            reply = asset.unchanged
        else:
            reply = asset.packed if b"gzip" in headers.get(b"accept-encoding", b"") else asset.plain
        await reply(scope, receive, send)

    def _read(self, name: str) -> _Asset | None:
        """Read a file for the first time; None if there is no such file."""
        if len(name) > _MAX_NAME_CHARACTERS:
            return None
        content_type = _TYPES.get(name.rpartition(".")[2])
        segments = name.split("/")
        if content_type is None or any(segment in ("", ".", "..") or "\0" in segment for segment in segments):
            return None
        file = resources.files(__package__).joinpath("assets") if self._folder is None else self._folder
        for segment in segments:
            file = file.joinpath(segment)
        if not file.is_file():
            return None
        asset = self._assets[name] = _asset(file.read_bytes(), content_type)
        return asset


def _asset(content: bytes, content_type: bytes) -> _Asset:
    tag = b'"%b"' % hashlib.blake2b(content, digest_size=12).hexdigest().encode()
    headers = [(b"etag", tag), (b"cache-control", b"no-cache"), (b"vary", b"accept-encoding")]
    packed = gzip.compress(content, 9, mtime=0)
    return _Asset(
        tag,
        Reply(200, content, content_type, headers),
        Reply(200, packed, content_type, [*headers, (b"content-encoding", b"gzip")]),
        Reply(304, b"", b"", headers),
    )
