"""A link passes replies on, whatever they contain and however they arrive, and says what became of the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.server.shards.links import link as link_module
from miniqueue.server.shards.links.introduction import Introduction, parse_introduction
from miniqueue.server.shards.links.link import END_WAIT, Batch, Failure, Link, Tunneled, order
from miniqueue.wire.resp_replies import OK, bulk
from tests.fakes import FakeTransport

ADA = Introduction("resp", ("10.0.0.1", 50_000), 7, "ada", 3, "mailer", "redis-py")


class Outcome:
    """What comes of a batch."""

    def __init__(self, *, has_parts: bool = True, line_count: int = 0) -> None:
        self.parts: list[bytes] = []
        self.replies: bytes | None = None
        self.failure: Failure | None = None
        on_part = self.parts.append if has_parts else None
        self.batch = Batch(on_part, self._end, self._fail, line_count)

    def _end(self, replies: bytes) -> None:
        assert self.replies is None
        self.replies = replies

    def _fail(self, failure: Failure) -> None:
        self.failure = failure


class HalfClosed(FakeTransport):
    """A transport whose peer goes on sending after our half is closed."""

    is_half_closed = False

    def write_eof(self) -> None:
        self.is_half_closed = True


class Owner:
    """The other end: what it was sent, and what it answers."""

    def __init__(self) -> None:
        self.lost = 0
        self.introduced = b""
        self.link = Link(ADA, self._lose)
        self.transport = HalfClosed(self.link)

    def _lose(self, link: Link) -> None:
        assert link is self.link
        self.lost += 1

    def connect(self) -> None:
        self.link.connection_made(self.transport)
        self.introduced = self.transport.take()

    @staticmethod
    def nonce_of(asked: bytes) -> bytes:
        """Return the text of the PING at the end of what was sent."""
        return asked.rpartition(b"PING\r\n")[2]


@pytest.fixture
def owner() -> Owner:
    owner = Owner()
    owner.connect()
    return owner


def test_a_link_begins_with_the_client(owner):
    introduction = parse_introduction(owner.introduced.removesuffix(b"\n"))
    assert introduction._replace(secret="") == ADA
    assert len(introduction.secret) == 32


@given(
    st.lists(st.sampled_from([OK, b":1\r\n", b"$3\r\nabc\r\n", b"$0\r\n\r\n", b"+PONG\r\n"]), max_size=4),
    st.data(),
)
def test_replies_end_with_the_answer_to_the_ping_however_they_arrive(replies, data):
    owner, outcome = Owner(), Outcome()
    owner.connect()
    owner.link.send(b"commands", outcome.batch)
    answer = b"".join(replies) + owner.nonce_of(owner.transport.take())
    at = data.draw(st.integers(0, len(answer)))
    for piece in (answer[:at], answer[at:]):
        owner.link.data_received(piece)
    assert outcome.replies == b"".join(replies)


def test_batches_are_answered_in_their_order(owner):
    first, second = Outcome(), Outcome()
    nonces = []
    for outcome in (first, second):
        owner.link.send(b"x", outcome.batch)
        nonces.append(owner.nonce_of(owner.transport.take()))
    owner.link.data_received(OK + nonces[0] + b":1\r\n" + nonces[1])
    assert (first.replies, second.replies) == (OK, b":1\r\n")


@pytest.mark.parametrize("at", range(12))
def test_lines_are_counted_without_a_ping(owner, at):
    first, second = Outcome(has_parts=False, line_count=2), Outcome(has_parts=False, line_count=1)
    owner.link.send(b"two", first.batch)
    owner.link.send(b"one", second.batch)
    assert owner.transport.take() == b"twoone"
    answer = OK + b"-E\r\n" + OK
    owner.link.data_received(answer[:at])
    owner.link.data_received(answer[at:])
    assert (first.replies, second.replies) == (OK + b"-E\r\n", OK)


def test_a_long_reply_is_passed_on_in_parts(owner, monkeypatch):
    monkeypatch.setattr(link_module, "MAX_HELD_BYTES", 100)
    outcome = Outcome()
    owner.link.send(b"x", outcome.batch)
    reply = bulk(bytes(range(256)) * 10)
    answer = reply + owner.nonce_of(owner.transport.take())
    for start in range(0, len(answer), 70):
        owner.link.data_received(answer[start : start + 70])
    assert outcome.parts
    assert b"".join(outcome.parts) + (outcome.replies or b"") == reply


async def test_what_was_never_sent_is_known(owner):
    unsent, outcome = Owner(), Outcome()
    unsent.link.send(b"x", outcome.batch)
    unsent.link.fail()
    assert (outcome.failure, unsent.lost) == (Failure.UNSENT, 1)


async def test_what_was_not_answered_is_unknown_and_the_parts_of_a_reply_are_no_reply(owner, monkeypatch):
    monkeypatch.setattr(link_module, "MAX_HELD_BYTES", 100)
    first, second = Outcome(), Outcome()
    owner.link.send(b"x", first.batch)
    owner.link.send(b"y", second.batch)
    owner.link.data_received(b"$1000\r\n" + b"x" * 200)
    owner.link.connection_lost(None)
    assert (first.failure, second.failure) == (Failure.PARTLY, Failure.UNKNOWN)
    assert owner.lost == 1


async def test_a_link_that_is_ended_answers_what_was_sent_and_then_closes(owner):
    outcome = Outcome()
    owner.link.send(b"x", outcome.batch)
    nonce = owner.nonce_of(owner.transport.take())
    owner.link.close_when_answered()
    assert owner.link.is_lost
    assert not owner.transport.is_closed
    owner.link.data_received(OK + nonce)
    assert outcome.replies == OK
    assert owner.transport.is_closed


async def test_a_tunnel_passes_everything_on_and_ends_with_the_link(owner):
    came, ended = [], []
    owner.link.open_tunnel(Tunneled(came.append, lambda: ended.append(True)))
    owner.link.data_received(b"any")
    owner.link.data_received(b"thing")
    assert came == [b"any", b"thing"]
    owner.link.connection_lost(None)
    assert ended == [True]


async def test_a_link_that_failed_before_it_was_connected_is_closed_when_it_is():
    owner = Owner()
    owner.link.fail()
    owner.connect()
    assert owner.transport.is_closed


@pytest.mark.parametrize("is_connected", [True, False])
async def test_the_end_of_a_wait_reaches_the_owner_also_if_the_link_is_connected_later(is_connected):
    owner, outcome = Owner(), Outcome()
    if is_connected:
        owner.connect()
    owner.link.send(b"receive", outcome.batch)
    owner.link.end_wait()
    owner.link.close_when_answered()
    if not is_connected:
        owner.connect()
    introduced, _, rest = owner.introduced.partition(b"\n")
    sent, secret = rest + owner.transport.take(), parse_introduction(introduced).secret.encode()
    asked = order(secret, END_WAIT)
    assert sent.endswith(asked)
    assert not owner.transport.is_half_closed
    owner.link.data_received(b"*0\r\n" + owner.nonce_of(sent.removesuffix(asked)) + OK)
    assert outcome.replies == b"*0\r\n"
    assert owner.transport.is_closed


@pytest.mark.parametrize("is_connected", [True, False])
async def test_the_end_of_a_client_reaches_the_owner_also_if_the_link_is_connected_later(is_connected):
    owner = Owner()
    if is_connected:
        owner.connect()
    owner.link.write(b"last")
    owner.link.end()
    if not is_connected:
        owner.connect()
    assert (owner.introduced + owner.transport.take()).endswith(b"last")
    assert owner.transport.is_half_closed


async def test_a_link_says_when_its_owner_reads_again(owner):
    told = []
    assert owner.link.has_room(lambda: told.append("never"))
    owner.link.pause_writing()
    assert not owner.link.has_room(lambda: told.append("room"))
    owner.link.resume_writing()
    assert told == ["room"]
    assert owner.link.has_room(lambda: told.append("never"))
    owner.link.resume_writing()
    assert told == ["room"]
