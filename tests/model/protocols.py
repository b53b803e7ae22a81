"""The way through both protocols at once: RESP connections and HTTP requests on one broker, without sockets."""

import asyncio
import base64
from collections import deque
from collections.abc import Sequence

import hiredis
import orjson

from miniqueue.core.options.consume import StreamOptions
from miniqueue.errors import DrainingError, OutcomeUnknownError, ReadOnlyError
from miniqueue.server.http.app import HttpApp
from miniqueue.server.resp.server import RespServer
from tests.fakes import FakeTransport
from tests.model.drivers import Answers, Delivery, Driver, Peer, reason_of

#: The words for what HTTP says with a text.
WORDS = {str(error()): error.code for error in (OutcomeUnknownError, ReadOnlyError, DrainingError)}


# --- RESP -----------------------------------------------------------------------------------------------------


class RespWire:
    """One connection, as bytes."""

    transport_class = FakeTransport

    def __init__(self, server: RespServer) -> None:
        self.connection = server()
        self.transport = self.transport_class(self.connection)
        self.connection.connection_made(self.transport)
        self._reader = hiredis.Reader()

    def send(self, *commands: Sequence[bytes]) -> None:
        """Send commands in one read."""
        self.connection.data_received(b"".join(map(_command, commands)))

    def replies(self) -> list[object]:
        """Return what came since the last call."""
        return self.parse(self.transport.take())

    def parse(self, data: bytes) -> list[object]:
        """Return the replies that are whole with `data`."""
        self._reader.feed(data)
        replies = []
        while (reply := self._reader.gets()) is not False:
            replies.append(reply)
        return replies


def _command(words: Sequence[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _word(reply: object) -> str:
    return str(reply).partition(" ")[0] if isinstance(reply, hiredis.ReplyError) else bytes(reply).decode()


class RespPeer:
    """A subscribed connection: plain, or with receipts."""

    confirms = True

    def __init__(self, server: RespServer, topic: bytes, options: StreamOptions) -> None:
        self.shown_causes = () if options.prefetch is None else None
        self.shows_failures = options.prefetch is not None
        self._has_receipts = options.prefetch is not None
        self._wire = RespWire(server)
        prefetch = [b"PREFETCH", b"%d" % options.prefetch] if options.prefetch else []
        lease = [b"LEASE", b"%g" % options.lease_seconds] if options.lease_seconds else []
        self._wire.send([b"SUBSCRIBE", topic, *prefetch, *lease])

    def hear(self) -> list[Delivery | str]:
        return [self._told(reply) for reply in self._wire.replies()]

    def _told(self, reply: object) -> Delivery | str:
        if isinstance(reply, list):
            receipt, payload, attributes = reply
            counts = dict(zip(attributes[::2], attributes[1::2], strict=True))
            failure = counts.pop(b"failure", b"")
            return Delivery(payload, int(receipt), {cause.decode(): count for cause, count in counts.items()}, failure)
        if reply == b"OK" or isinstance(reply, hiredis.ReplyError):
            return _word(reply)
        return Delivery(bytes(reply), None, {})

    def settle(self, act: str, receipts: Sequence[int] | None, seconds: float) -> None:
        words = [b"%d" % receipt for receipt in receipts or ()]
        later = [b"DELAY", b"%g" % seconds, b"REASON", reason_of(seconds)] if act == "nack later" else []
        word = act.removesuffix(" later").upper().encode()
        self._wire.send([word, *([b"%g" % seconds] if act == "dack" else []), *words, *later])

    def leave(self) -> None:
        self._wire.transport.lose()


class RespClient:
    """A connection that publishes, lists and deletes; replies come in the order of the commands."""

    def __init__(self, server: RespServer) -> None:
        self._wire = RespWire(server)
        self._asked: deque[tuple[Answers, int]] = deque()

    def ask(self, answers: Answers, *commands: Sequence[bytes], message_count: int = 1) -> Answers:
        """Send commands of `message_count` messages each."""
        self._asked += [(answers, message_count)] * len(commands)
        self._wire.send(*commands)
        return answers

    def listen(self) -> None:
        for reply in self._wire.replies():
            answers, message_count = self._asked.popleft()
            if isinstance(reply, list):
                answers.words += [word.decode() for word in reply]
            else:
                answers.words += [_word(reply)] * message_count


# --- HTTP -----------------------------------------------------------------------------------------------------


class HttpRequest:
    """One request: parts of a body in, messages of ASGI out."""

    def __init__(
        self, app: HttpApp, method: str, path: bytes, query: bytes = b"", content_type: bytes = b"", token: bytes = b""
    ) -> None:
        self._body: asyncio.Queue[dict[str, object]] = asyncio.Queue()
        self.status = 0
        self.received = b""
        self.is_over = False
        scope = {
            "type": "http",
            "method": method,
            "path": path.decode(),
            "raw_path": path,
            "query_string": query,
            "headers": [(b"content-type", content_type)] if content_type else [],
        }
        if token:
            scope["headers"] = [(b"authorization", b"Bearer " + token)]
        self._task = asyncio.get_running_loop().create_task(app(scope, self._body.get, self._send))

    def send(self, body: bytes, *, is_last: bool = False) -> None:
        self._body.put_nowait({"type": "http.request", "body": body, "more_body": not is_last})

    def disconnect(self) -> None:
        self._body.put_nowait({"type": "http.disconnect"})

    def take(self) -> bytes:
        """Return what came since the last call."""
        received, self.received = self.received, b""
        return received

    async def _send(self, message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            self.status = int(str(message["status"]))
        else:
            self.received += bytes(message.get("body", b""))
            self.is_over = not message.get("more_body", False)


class HttpPeer:
    """A duplex stream."""

    shown_causes = ("dacks",)
    shows_failures = True
    confirms = False

    def __init__(self, app: HttpApp, topic: bytes, options: StreamOptions) -> None:
        prefetch = [b"prefetch=%d" % options.prefetch] if options.prefetch else []
        lease = [b"lease=%g" % options.lease_seconds] if options.lease_seconds else []
        self._request = HttpRequest(app, "POST", b"/subscribe/" + topic, b"&".join(prefetch + lease))
        self._request.send(b'"INIT"\n')

    def hear(self) -> list[Delivery | str]:
        return [self._told(orjson.loads(line)) for line in self._request.take().splitlines()]

    def _told(self, line: dict[str, str | int]) -> Delivery | str:
        if "error" in line:
            text = str(line["error"])
            return "NOLEASE" if text == "no message is outstanding" or "receipts belong to no" in text else text
        receipt = int(line["receipt"]) if "receipt" in line else None
        count = int(line.get("dackCount", 0))
        failure = str(line.get("failure", "")).encode()
        return Delivery(base64.b64decode(str(line.get("msg", ""))), receipt, {"dacks": count} if count else {}, failure)

    def settle(self, act: str, receipts: Sequence[int] | None, seconds: float) -> None:
        words = [
            act.removesuffix(" later").upper(),
            *([f"{seconds:g}"] if act == "dack" else []),
            *map(str, receipts or ()),
        ]
        later = ["DELAY", f"{seconds:g}", "REASON", reason_of(seconds).decode()] if act == "nack later" else []
        self._request.send(orjson.dumps(" ".join(words + later)))

    def leave(self) -> None:
        self._request.disconnect()


class HttpAnswers:
    """Reads the answers to some requests of one message or of many lines."""

    def __init__(self, answers: Answers, requests: list[HttpRequest], count: int) -> None:
        self._answers = answers
        self._requests = requests
        self._count = count  # messages in each request
        self.is_over = False

    def listen(self) -> None:
        while self._requests and self._requests[0].is_over:
            request = self._requests.pop(0)
            lines = [orjson.loads(line) for line in request.received.splitlines()]
            if request.status in (200, 201) and not lines:
                self._answers.words += ["OK"] * self._count
            elif request.status == 200:
                self._answers.words += [line.get("id") or WORDS[line["error"]] for line in lines]
            else:
                self._answers.words += [WORDS[lines[0]["error"]]] * self._count
        self.is_over = not self._requests


# --- both -----------------------------------------------------------------------------------------------------


class ProtocolDriver(Driver):
    """Speaks to the broker as clients do."""

    KINDS = ("resp", "http")
    WAYS = ("PUBLISH", "MPUBLISH", "POST", "NDJSON")

    async def _start(self) -> None:
        await super()._start()
        self._resp = RespServer(self.broker, {})
        self._app = HttpApp(self.broker)
        self._client = RespClient(self._resp)
        self._http_answers: list[HttpAnswers] = []

    def connect(self, kind: str, topic: bytes, options: StreamOptions) -> Peer:
        return RespPeer(self._resp, topic, options) if kind == "resp" else HttpPeer(self._app, topic, options)

    def publish(self, way: str, topic: bytes, payloads: list[bytes]) -> Answers:
        match way:
            case "PUBLISH":
                return self._client.ask(Answers(), *([b"PUBLISH", topic, payload] for payload in payloads))
            case "MPUBLISH":
                command = [b"MPUBLISH", topic, *payloads]
                return self._client.ask(Answers(has_ids=True), command, message_count=len(payloads))
            case "POST":
                return self._post(Answers(), b"/publish/" + topic, payloads)
            case _:
                lines = b"".join(orjson.dumps(payload.decode()) + b"\n" for payload in payloads)
                request = HttpRequest(self._app, "POST", b"/publish/" + topic, content_type=b"application/x-ndjson")
                request.send(lines[:7])
                request.send(lines[7:], is_last=True)
                return self._await(Answers(has_ids=True), [request], len(payloads))

    def _post(self, answers: Answers, path: bytes, payloads: list[bytes]) -> Answers:
        requests = [HttpRequest(self._app, "POST", path) for _ in payloads]
        for request, payload in zip(requests, payloads, strict=True):
            request.send(payload, is_last=True)
        return self._await(answers, requests, 1)

    def delete(self, way: str, topic: bytes) -> Answers:
        if way in ("PUBLISH", "MPUBLISH"):
            return self._client.ask(Answers(), [b"TOPIC", b"DELETE", topic])
        request = HttpRequest(self._app, "DELETE", b"/" + topic)
        request.send(b"", is_last=True)
        return self._await(Answers(), [request], 1)

    def _await(self, answers: Answers, requests: list[HttpRequest], count: int) -> Answers:
        self._http_answers.append(HttpAnswers(answers, requests, count))
        return answers

    def listen(self) -> None:
        self._client.listen()
        for answers in self._http_answers:
            answers.listen()
        self._http_answers = [answers for answers in self._http_answers if not answers.is_over]
