"""Authentication, and the cost of guessing."""

import asyncio
import itertools

import pytest
import structlog.testing

from miniqueue.access.hashing import NOBODY, hash_password
from miniqueue.access.users import User, Users
from miniqueue.errors import TooManyAttemptsError, WrongSecretError
from miniqueue.server.security import authentication
from miniqueue.server.security.authentication import BLOCK_SECONDS, FAILURE_SECONDS, MAX_NETWORK_FAILURES, Authenticator
from tests.server.access import Clock, Naps, token_of, user

ADA = User("ada", hash_password(b"correct horse"))
ROBOT = user("robot")
CERTIFIED = User("certified", certificate="CN=certified")
DEFAULT = User("default", hash_password(b"of default"))


class World:
    """A sign-in with its clock and its naps."""

    def __init__(self) -> None:
        self.clock, self.naps = Clock(), Naps()
        self.numbers = itertools.count()
        self.sign_in = Authenticator(Users([ADA, ROBOT, CERTIFIED, DEFAULT]), monotonic=self.clock, sleep=self.naps)

    async def is_wrong(self, name: str | None, secret: bytes, address: str = "10.0.0.1") -> bool:
        try:
            await self.sign_in.identify(name, secret, address)
        except WrongSecretError:
            return True
        return False

    async def fail(self, times: int, address: str = "10.0.0.1") -> None:
        for _ in range(times):
            assert await self.is_wrong("robot", b"wrong %d" % next(self.numbers), address)


async def test_a_password_a_token_and_a_token_alone_are_known():
    identify = World().sign_in.identify
    assert await identify("ada", b"correct horse", "a") is ADA
    assert await identify("robot", token_of("robot"), "a") is ROBOT
    assert await identify(None, token_of("robot"), "a") is ROBOT
    assert await identify("default", token_of("robot"), "a") is ROBOT
    assert await identify(None, b"of default", "a") is DEFAULT
    assert await identify("default", b"of default", "a") is DEFAULT


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("ada", b"correct hors"),
        ("ada", b""),
        ("Ada", b"correct horse"),
        ("robot", b"wrong"),
        ("ada", token_of("robot")),
        ("eve", b"correct horse"),
        ("certified", b""),
        ("certified", b"x"),
        (None, b"correct horse"),
        (None, b""),
    ],
)
async def test_everything_else_is_wrong_and_told_after_the_same_time(name, secret):
    world = World()
    assert await world.is_wrong(name, secret)
    assert world.naps.seconds == [FAILURE_SECONDS]


async def test_a_wrong_token_is_looked_at_as_long_as_a_wrong_password(monkeypatch):
    looks = []
    monkeypatch.setattr(authentication, "matches", lambda stored, secret: looks.append(stored) or stored == NOBODY)
    for name in ("robot", "eve", None):
        assert await World().is_wrong(name, b"wrong")
    assert [stored for stored in looks if stored.startswith("$argon2id$")] == [NOBODY, NOBODY, DEFAULT.secret]


async def test_too_many_failures_block_the_address_also_for_the_right_password():
    world = World()
    await world.fail(MAX_NETWORK_FAILURES)
    for secret in (b"correct horse", b"wrong"):
        with pytest.raises(TooManyAttemptsError):
            await world.sign_in.identify("ada", secret, "10.0.0.1")
    with pytest.raises(TooManyAttemptsError):
        await world.sign_in.identify("robot", b"wrong", "10.0.0.1")
    assert await world.sign_in.identify("ada", b"correct horse", "10.0.0.2") is ADA
    world.clock.now_seconds += BLOCK_SECONDS
    assert await world.sign_in.identify("ada", b"correct horse", "10.0.0.1") is ADA


async def test_a_right_token_gets_in_past_a_neighbour_who_is_wrong_all_the_time():
    world = World()
    await world.fail(MAX_NETWORK_FAILURES)
    assert await world.sign_in.identify("robot", token_of("robot"), "10.0.0.1") is ROBOT
    assert await world.sign_in.identify(None, token_of("robot"), "10.0.0.1") is ROBOT


async def test_guesses_made_at_once_are_not_all_looked_at():
    world = World()
    await world.fail(MAX_NETWORK_FAILURES - 1)
    guesses = [world.sign_in.identify("ada", b"wrong %d" % number, "10.0.0.1") for number in range(4)]
    outcomes = await asyncio.gather(*guesses, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [WrongSecretError] + [TooManyAttemptsError] * 3


async def test_many_who_are_right_at_once_are_all_let_in():
    world = World()
    await world.fail(MAX_NETWORK_FAILURES - 1)
    entries = [world.sign_in.identify("ada", b"correct horse", "10.0.0.1") for _ in range(4)]
    assert await asyncio.gather(*entries) == [ADA] * 4


async def test_who_is_revoked_while_the_password_is_looked_at_does_not_get_in():
    world = World()
    entering = asyncio.create_task(world.is_wrong("ada", b"correct horse"))
    await asyncio.sleep(0)
    world.sign_in.replace(Users([ROBOT]))
    assert await entering


def test_a_reload_keeps_those_who_are_the_same():
    world = World()
    changed = User("ada", ADA.secret, roles={"admin": ("*",)})
    world.sign_in.replace(Users([changed, user("robot")]))
    assert world.sign_in.is_current(ROBOT)
    assert world.sign_in.is_current(changed)
    assert not world.sign_in.is_current(ADA)
    assert not world.sign_in.is_current(DEFAULT)


async def test_the_log_has_the_address_once_a_minute_and_neither_name_nor_secret():
    world = World()
    with structlog.testing.capture_logs() as logged:
        await world.is_wrong("oops this is my password", b"hunter2")
        await world.is_wrong("eve", b"hunter2")
        world.clock.now_seconds += BLOCK_SECONDS
        await world.is_wrong("eve", b"hunter2")
    reports = [(entry["address"], entry["held_back"]) for entry in logged]
    assert reports == [("10.0.0.1", 0), ("10.0.0.1", 1)]
    assert "password" not in str(logged).replace("wrong user or secret", "")
    assert "hunter2" not in str(logged)


async def test_the_same_wrong_secret_counts_once_and_is_looked_at_once(monkeypatch):
    looks = []
    monkeypatch.setattr(
        authentication, "matches", lambda stored, secret: looks.append(secret) or secret == b"correct horse"
    )

    world = World()
    for _ in range(11):
        assert await world.is_wrong("ada", b"old password")
    assert looks == [b"old password"]
    assert world.naps.seconds == [FAILURE_SECONDS] * 11
    await world.fail(MAX_NETWORK_FAILURES - 2)
    assert await world.sign_in.identify("ada", b"correct horse", "10.0.0.1") is ADA
    await world.fail(1)
    with pytest.raises(TooManyAttemptsError):
        await world.sign_in.identify("ada", b"old password", "10.0.0.1")


async def test_the_same_wrong_secret_sent_at_once_counts_once():
    world = World()
    await world.fail(MAX_NETWORK_FAILURES - 2)
    assert all(await asyncio.gather(*(world.is_wrong("ada", b"old password") for _ in range(11))))
    assert await world.sign_in.identify("ada", b"correct horse", "10.0.0.1") is ADA


async def test_another_user_and_another_network_are_other_attempts(monkeypatch):
    looks = []
    monkeypatch.setattr(authentication, "matches", lambda stored, secret: looks.append(secret))
    world = World()
    for name, address in (("ada", "10.0.0.1"), ("default", "10.0.0.1"), ("ada", "10.0.0.2")):
        assert await world.is_wrong(name, b"old password", address)
    assert looks == [b"old password"] * 3


@pytest.mark.parametrize("is_meanwhile", [False, True])
async def test_a_secret_that_was_wrong_is_right_as_soon_as_the_users_say_so(is_meanwhile):
    ada = User("ada", hash_password(b"new password"))

    world = World()
    entering = asyncio.create_task(world.is_wrong("ada", b"new password"))
    if is_meanwhile:
        await asyncio.sleep(0)
    else:
        await entering
    world.sign_in.replace(Users([ada]))
    assert await entering
    assert await world.sign_in.identify("ada", b"new password", "10.0.0.1") is ada
