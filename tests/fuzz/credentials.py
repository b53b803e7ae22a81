"""Credentials: the users file, the Authorization header, AUTH, and HELLO.

Documented: ConfigError for the file, one printable line each; NotAuthenticatedError for a header. What a header or a
command says comes to `SignIn.identify` as it was meant.
"""

import asyncio
import base64
from random import Random

from structlog.testing import capture_logs

from miniqueue.access.hashing import hash_token, is_stored_secret
from miniqueue.access.rights import ROLES
from miniqueue.access.users import User, Users
from miniqueue.access.users_text import parse_users, render_users
from miniqueue.errors import ConfigError, NotAuthenticatedError, WrongSecretError
from miniqueue.server.asgi.authorization import AuthMiddleware
from miniqueue.server.resp.server import RespServer
from miniqueue.storage.memory import MemoryStore
from miniqueue.wire.resp_limits import STRANGER
from tests.fakes import FakeTransport, ManualClock, broker_on, settle_down
from tests.fuzz.engine import Target, attempt, chance_of
from tests.fuzz.pieces import some, text
from tests.wire.test_resp_commands import bulks

_PATTERNS = ("orders", "orders.*", "*", "caf\u00e9")
_TOKENS = (
    *(b"[user.", b"]", b'secret = "', b"sha256:", b"$argon2id$v=19$m=19456,t=2,p=1$", b"certificate", b"[[user]]"),
    *(b"publisher", b"admin", b'["*"]', b"Basic ", b"basic ", b"Bearer ", b"Og==", b"=", b"'''", b"inf", b"1979-05-27"),
)


class _Asked:
    """Replaces `SignIn`: records its arguments, and knows no user."""

    def __init__(self) -> None:
        self.questions: list[tuple[str | None, bytes]] = []

    async def identify(self, name: str | None, secret: bytes, address: str, connection: str = "") -> User:
        self.questions.append((name, secret))
        raise WrongSecretError

    def with_certificate(self, subject: str) -> User | None:
        return None

    def is_current(self, user: User) -> bool:
        return True


def _make(chance: Random) -> bytes:
    match chance.randrange(3):
        case 0:
            return render_users(_users(chance)).encode()
        case 1:
            return b"Bearer " + text(chance).encode()
        case _:
            return b"Basic " + base64.b64encode(f"{text(chance)}:{text(chance)}".encode())


def _users(chance: Random) -> Users:
    return Users(_user(chance, number) for number in range(chance.randint(0, 3)))


def _user(chance: Random, number: int) -> User:
    roles = {role: tuple(some(chance, _PATTERNS, 2)) for role in sorted(set(some(chance, sorted(ROLES), 3)))}
    name = chance.choice(("ada", "a.b", "x@example", "default")) + str(number)
    certificate = chance.choice(("", f"CN={text(chance)}{number}"))
    return User(name, chance.choice(("", hash_token(chance.randbytes(4)))), certificate, roles)


def _check(content: bytes) -> None:
    _check_file(content)
    _check_round_trip(_users(chance_of(content)))
    _check_stored_secret(content.decode("utf-8", "surrogateescape"))
    with capture_logs():
        asyncio.run(_check_requests(content))


def _check_file(content: bytes) -> None:
    found = attempt(parse_users, content.decode("utf-8", "replace"), documented=(ConfigError,))
    if isinstance(found, ConfigError):
        assert found.problems
        assert all(problem.isprintable() for problem in found.problems), found.problems
    else:
        _check_round_trip(found)


def _check_round_trip(users: Users) -> None:
    assert list(parse_users(render_users(users))) == list(users)


def _check_stored_secret(text: str) -> None:
    assert not is_stored_secret(text) or text.isascii()


async def _check_requests(content: bytes) -> None:
    asked = _Asked()
    gate = AuthMiddleware(asked)
    await _ask(gate, content)
    asked.questions.clear()
    header = content.strip()
    await _ask(gate, b"Bearer " + header)
    assert asked.questions == [(None, header)]
    asked.questions.clear()
    name, _, secret = content.partition(b":")
    await _ask(gate, b"Basic " + base64.b64encode(name + b":" + secret))
    assert asked.questions == [(name.decode("utf-8", "replace"), secret)]
    asked.questions.clear()
    is_short = len(content) <= STRANGER.max_bulk_bytes  # more is refused before it is read
    if is_short and chance_of(content).random() < 1 / 4:  # takes longer than all the rest
        await _sign_in(asked, content)


async def _ask(gate: AuthMiddleware, header: bytes) -> None:
    scope = {"headers": [(b"authorization", header)], "client": ("127.0.0.1", 1)}
    try:
        await gate.user_of(scope)
    except (NotAuthenticatedError, WrongSecretError):
        return
    raise AssertionError("a stranger got in")


async def _sign_in(asked: _Asked, secret: bytes) -> None:
    """AUTH and HELLO on a connection that is never authenticated."""
    broker = broker_on(MemoryStore(), ManualClock())
    await broker.start()
    connection = RespServer(broker, {}, asked)()
    transport = FakeTransport(connection)
    connection.connection_made(transport)
    name = chance_of(secret).randbytes(3)
    connection.data_received(
        bulks(b"AUTH", name, secret) + bulks(b"AUTH", secret) + bulks(b"HELLO", b"3", b"AUTH", name, secret)
    )
    connection.data_received(bulks(b"PUBLISH", b"t", secret) + bulks(secret, b"t"))
    said = b""
    for _ in range(100):  # what has taken long, as on a busy machine, leaves as much time to others before it continues
        await settle_down()
        said += transport.take()
        if said.count(b"\r\n") >= 5:
            break
    assert not broker.topics()
    text = name.decode("utf-8", "replace")
    assert asked.questions == [(text, secret), (None, secret), (text, secret)]
    assert said.count(b"-WRONGPASS") == 3
    assert said.count(b"\r\n") == 5
    transport.lose()
    await broker.stop()


TARGET = Target("credentials", _make, _check, tokens=_TOKENS, quick_inputs=300)
