r"""A broker on which nothing happens by chance, and the clients of a section.

Time stands still except at `! pass`, on the wall and in the loop; random names are counted; what would be done by a
thread is done at once. Each line of a section runs until nothing is left to do. Lines that no client says:

    ! with users           first of all: the users of `tests/server/access.py`; or `exposed`, a limit and its value
    ! pass 1.5             seconds; then a tick
    ! raw a "PING\r\n"     bytes from a client
    ! together a X | Y     commands of one read
    ! eof a, ! lose a      a client closes its side, or is gone
    ! fail-write           the next write fails
    ! no-store, ! store    the store cannot be opened from now on, or can
    ! no-scans             what reads the store waits from now on
    ! full, ! room         what a look at the disk finds
    ! websocket /path      a request that is none
    ! rest 5, ! drain      the beginning of a stop, with seconds for what is held; its end
    ! restart              a stop and a start on the same store
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest import mock

import structlog.testing

from miniqueue.broker import Broker
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import StorageError
from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.dashboard.app import DashboardApp
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.http.app import HttpApp
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.process.metric_rows import RowCollector
from miniqueue.server.process.stopping import settle_before_stop
from miniqueue.server.resp.refusals import REFUSAL_ROWS
from miniqueue.server.resp.server import RespServer
from miniqueue.server.resp.turns import LoopShare
from miniqueue.storage.port import Room
from tests.fakes import FakeTransport, FaultyStore, ManualClock
from tests.model.virtual_loop import VirtualLoop
from tests.server.access import sign_in_for
from tests.server.resp.clients import PARAMETERS, command
from tests.transcripts.masks import masked
from tests.transcripts.script import Section, escaped, words_of

_RECEIPT = re.compile(rb"[0-9a-f]{16}-[0-9]+")
_HTTP = re.compile(r"(?P<monitor>monitor )?(?:(?P<name>[a-z]+): )?(?P<rest>[A-Za-z]+ /.*)")
_PART = re.compile(r"(?P<name>[a-z]+)<(?: (?P<body>.*))?")
_RESP = re.compile(r"(?:(?P<name>[a-z]+): )?(?P<words>.*)", re.DOTALL)
#: A reply that is longer begins a new line of the record where an array or a map begins.
_LONG_REPLY_BYTES = 1000
_POLICY = "policy"
FACTS = Facts(name="here", monitor_port=8081, resp_port=6379)


class StillLoop(VirtualLoop):
    """A loop of which threads do their work at once."""

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as exc:
            future.set_exception(exc)
        return future


@contextmanager
def counted_randomness() -> Iterator[None]:
    """Replace random names by counters, so that each run makes the same names."""
    numbers = count(1)
    with mock.patch.object(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}"):
        yield


class HttpRequest:
    """One request, without a socket."""

    def __init__(self, app: Any, words: list[bytes], *, is_open: bool) -> None:
        self._parts: asyncio.Queue[dict[str, object]] = asyncio.Queue()
        self._sent: list[str] = []
        self._body = b""
        self._is_text = False
        self._is_open = is_open
        method, target, *options = words
        pairs = list(zip(options[::2], options[1::2], strict=True))
        headers = [tuple(value.split(b":", 1)) for option, value in pairs if option == b"-h"]
        path, _, query = target.partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "2",
            "scheme": "https",
            "method": method.decode(),
            "path": re.sub(b"%(..)", lambda found: bytes.fromhex(found[1].decode()), path).decode("utf-8", "replace"),
            "raw_path": path,
            "root_path": "",
            "query_string": query,
            "headers": [(b"host", b"localhost"), *headers],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 443),
            "extensions": {},
            "state": {},
        }
        self.task = asyncio.get_running_loop().create_task(app(scope, self._parts.get, self._send))
        if not is_open:
            self.say(b"".join(value for option, value in pairs if option == b"-d"), is_last=True)

    def say(self, body: bytes, *, is_last: bool = False) -> None:
        self._parts.put_nowait({"type": "http.request", "body": body, "more_body": not is_last})

    def leave(self) -> None:
        self._parts.put_nowait({"type": "http.disconnect"})

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = "; ".join(f"{name.decode()}: {value.decode()}" for name, value in message.get("headers", []))
            self._sent.append(f"{message['status']} {headers}".rstrip())
            self._is_text = "text/plain" in headers
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            self._flush()
            self._sent += ["end"] if self._is_open else []

    def _flush(self) -> None:
        plain, self._body = self._body, b""
        body = masked(plain)
        if body != plain:
            self._sent = [re.sub("(?<=content-length: )[0-9]+", "<length>", text) for text in self._sent]
        parts = body.splitlines(keepends=True) if self._is_text else [body]
        self._sent += [escaped(part) for part in parts if part]

    def take(self) -> list[str]:
        """Return what was sent since the last call."""
        self._flush()
        sent, self._sent = self._sent, []
        return sent


class RespClient:
    """One connection, without a socket."""

    def __init__(self, server: RespServer, port: int) -> None:
        self.connection = server()
        self.transport = FakeTransport(self.connection)
        self.transport.extra["peername"] = ("127.0.0.1", port)
        self.connection.connection_made(self.transport)
        self._is_told_closed = False

    def take(self) -> list[str]:
        """Return what was sent since the last call."""
        data = masked(self.transport.take())
        pieces = re.split(rb"(?<=\r\n)(?=[*%~])", data) if len(data) > _LONG_REPLY_BYTES else [data]
        sent = [escaped(piece) for piece in pieces if piece]
        if self.transport.is_closed and not self._is_told_closed:
            self._is_told_closed = True
            sent.append("closed")
        return sent


class Stage:
    """Plays one section, and keeps what came of it.

    Args:
      section: what is said.
      protocol: 2 or 3; with 3 clients of RESP begin with HELLO 3.
      store: on which the broker runs; one in memory, which can fail, if it is not named.

    Attributes:
      record: the lines that were said, each with what was heard after it.
    """

    def __init__(self, section: Section, *, protocol: int = 2, store: Any = None) -> None:
        self.record = [f"== {section.title}"]
        self.store: Any = FaultyStore() if store is None else store
        self.clock = ManualClock()
        self._section = section
        self._protocol = protocol
        self._options: dict[str, object] = {}
        self._limits: dict[str, Any] = {}
        self._sign_in: Any = None
        self._is_exposed = False
        self._is_store_lost = False
        self._resting: asyncio.Task[None] | None = None
        self._clients: dict[str, RespClient] = {}
        self._requests: dict[str, HttpRequest] = {}
        self._receipts: list[bytes] = []
        self.loop = StillLoop(lambda: getattr(self.store, "busy_count", 0) > 0)

    def play(self) -> list[str]:
        """Play the section; return the record."""
        lines = list(self._section.lines)
        with counted_randomness(), structlog.testing.capture_logs():
            while lines and lines[0].startswith("! with "):
                self._prepare(*lines[0].split()[2:])
                self.record.append(lines.pop(0))
            self.loop.run(self._start())
            try:
                for line in lines:
                    self._play_line(line)
            finally:
                self._end()
        return self.record

    # --- the broker -------------------------------------------------------------------------------------------

    def _prepare(self, name: str, value: str = "") -> None:
        if name == "users":
            self._sign_in = sign_in_for()
            self._limits["has_users"] = True
        elif name == "exposed":
            self._is_exposed = True
        elif name == "clock":
            self.clock.time_ms += 1000 * int(value)
        elif name == "max_message_bytes":
            self._options[name] = int(value)
        else:
            self._limits[name] = LimitPolicy(value) if name == _POLICY else int(value)

    async def _start(self) -> None:
        limits = BrokerLimits(**self._limits)
        self.broker = Broker(self._open, clock=self.clock, period_seconds=1e6, limits=limits, **self._options)
        await self.broker.start()
        self._resp = RespServer(self.broker, PARAMETERS, self._sign_in)
        self._resp.shared.turns = LoopShare(clock=lambda: 0.0)
        self._http = HttpApp(self.broker, self._sign_in)
        collectors = [RowCollector(REFUSAL_ROWS, self._resp.refusals)]
        refusals = Refusals(self.clock.monotonic)
        monitor = MonitorApp(self.broker, self._sign_in, refusals, collectors, is_exposed=self._is_exposed)
        self._monitor = DashboardApp(monitor, self._http, self.broker, self._sign_in, FACTS)

    async def _open(self) -> Any:
        if self._is_store_lost:
            raise StorageError("the store cannot be opened")
        return self.store

    def _end(self) -> None:
        self.loop.run(self.broker.stop())
        self.loop.abandon()
        self.loop.close()

    # --- lines ------------------------------------------------------------------------------------------------

    def _play_line(self, line: str) -> None:
        self.record.append(line)
        if line.startswith("! "):
            self._direct(line)
        elif part := _PART.fullmatch(line):
            body = self._with_receipts(b"".join(words_of(part["body"] or "")))
            self._act(self._requests[part["name"]].say, body, is_last=not body)
        elif asked := _HTTP.fullmatch(line):
            self._ask(asked)
        else:
            said = _RESP.fullmatch(line)
            words = [self._with_receipts(word) for word in words_of(said["words"])]
            self._act(self._client(said["name"] or "a").connection.data_received, command(*words))
        self._note()

    def _direct(self, line: str) -> None:
        _, act, *words = words_of(line)
        name = words[0].decode() if words else ""
        match act:
            case b"pass":
                self._pass_time(float(name))
            case b"raw":
                self._act(self._client(name).connection.data_received, b"".join(words[1:]))
            case b"together":
                commands = b" ".join(words[1:]).split(b" | ")
                pipeline = b"".join(command(*one.split()) for one in commands)
                self._act(self._client(name).connection.data_received, pipeline)
            case b"eof":
                self._act(self._clients[name].connection.eof_received)
            case b"lose":
                self._act(self._lose, name)
            case b"websocket":
                self._ask_websocket(name)
            case b"restart":
                self._restart()
            case b"rest":
                resting = settle_before_stop(self.broker, float(name), self._resp, self._http)
                self._resting = self._act(lambda: asyncio.create_task(resting))
            case b"drain":
                self._act(self._resp.drain)
                self._act(self._http.drain)
            case _:
                self._direct_store(act)

    def _direct_store(self, act: bytes) -> None:
        match act:
            case b"fail-write":
                self.store.fail_writes = {self.store.write_count + 1}
            case b"full" | b"room":
                self.store.room_now = Room(is_enough=act == b"room")
            case b"no-scans":
                self.store.may_scan.clear()
            case b"no-store" | b"store":
                self._is_store_lost = act == b"no-store"
            case _:
                raise ValueError(act)

    def _ask_websocket(self, path: str) -> None:
        async def send(message: Any) -> None:
            self.record.append(f"  =  {message}")

        for app in (self._http, self._monitor):
            scope = {"type": "websocket", "path": path, "headers": [], "extensions": {"websocket.http.response": {}}}
            self.loop.run(app(scope, asyncio.Queue().get, send))

    def _restart(self) -> None:
        for name in list(self._clients):
            self._act(self._lose, name)
        self.loop.run(self.broker.stop())
        self._clients, self._requests = {}, {}
        self.loop.run(self._start())

    def _lose(self, name: str) -> None:
        if name in self._requests:
            self._requests.pop(name).leave()
        else:
            self._clients.pop(name).transport.lose()

    def disconnect_all(self) -> None:
        """Disconnect the clients of all requests that are still open."""
        for name in list(self._requests):
            self._act(self._lose, name)

    def _pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.loop.pass_time(seconds)
        self._act(self.broker.tick)

    def _client(self, name: str) -> RespClient:
        if name not in self._clients:
            self._act(self._connect, name)
            if self._protocol == 3:
                self._act(self._clients[name].connection.data_received, command(b"HELLO", b"3"))
                self._clients[name].take()
        return self._clients[name]

    def _connect(self, name: str) -> None:
        self._clients[name] = RespClient(self._resp, 50_000 + ord(name[0]))

    def _ask(self, asked: "re.Match[str]") -> None:
        app = self._monitor if asked["monitor"] else self._http
        words = [self._with_receipts(word) for word in words_of(asked["rest"])]
        name = asked["name"]
        self._requests[name or "="] = self._act(lambda: HttpRequest(app, words, is_open=bool(name)))

    def _act(self, act: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        async def call() -> Any:
            return act(*arguments, **named)

        return self.loop.run(call())

    def _with_receipts(self, word: bytes) -> bytes:
        def receipt(found: re.Match[bytes]) -> bytes:
            number = int(found[1])
            index = number - 1 if number > 0 else len(self._receipts) + number
            return self._receipts[index] if 0 <= index < len(self._receipts) else found[0]

        return re.sub(rb"\$(-?[0-9]+)", receipt, word)

    def _note(self) -> None:
        """Note what was heard."""
        for name, peer in [*sorted(self._clients.items()), *sorted(self._requests.items())]:
            for text in peer.take():
                self.record.append(f"  {name}  {text}")
                found = _RECEIPT.findall(text.encode())
                self._receipts += [receipt for receipt in dict.fromkeys(found) if receipt not in self._receipts]
        for name, request in list(self._requests.items()):
            if request.task.done():
                request.task.result()
                del self._requests[name]
