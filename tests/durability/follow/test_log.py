"""What the log of a copy that follows says when it cannot be made."""

from http.client import HTTPConnection
from io import BytesIO

import pytest
from structlog.testing import capture_logs

from miniqueue.errors import CorruptionError, ServerError
from miniqueue.tools.follow import Follower
from miniqueue.tools.following import Status
from miniqueue.wire.pair_stream import MAGIC, encode_end, encode_pairs
from tests.loops import LeapingLoop, on_loop


class Connection(HTTPConnection):
    """A connection to a broker that cannot be reached, or answers with one body."""

    def __init__(self, *, problem: str = "", body: bytes = b"") -> None:
        super().__init__("queue.example", 8081)
        self._problem = problem
        self._body = body

    def connect(self) -> None:
        if self._problem:
            raise OSError(self._problem)

    def request(self, *_words, **_options) -> None:
        pass

    def getresponse(self):
        return Response(self._body)


class Response:
    """A response with a position."""

    status = 200

    def __init__(self, body: bytes) -> None:
        self.headers = {"Miniqueue-Change": "7", "Miniqueue-Digest": "00" * 16}
        self._body = BytesIO(body)
        self.read1 = self._body.read1


@on_loop(LeapingLoop)
async def test_each_reason_why_no_broker_answers_is_logged_once(tmp_path):
    problems = ["refused", "refused", "no certificate", "refused"]

    def connect():
        if not problems:
            raise ServerError("it refuses for good", 403)
        return Connection(problem=problems.pop(0))

    with capture_logs() as logs, pytest.raises(ServerError):
        await Follower(tmp_path / "copy", connect, {}, Status(), 10.0).run()
    reasons = [entry["problem"].rpartition(": ")[2] for entry in logs if entry["log_level"] == "warning"]
    assert reasons == ["refused", "no certificate", "refused"]


async def test_a_broker_whose_store_has_problems_is_not_copied(tmp_path):
    body = MAGIC + encode_pairs([(b"\x03unknown", b"")]) + encode_end(1)
    follower = Follower(tmp_path / "copy", lambda: Connection(body=body), {}, Status(), 10.0)
    with (
        capture_logs() as logs,
        pytest.raises(CorruptionError, match=r"^the store of the broker has problems; no copy was made$"),
    ):
        await follower.run()
    (entry,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert "unknown" in str(entry["problems"])
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["miniqueue.lock"]
