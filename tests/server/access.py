"""Users for tests: one for each role, with tokens, and a sign-in that does not wait."""

from miniqueue.access.hashing import hash_token
from miniqueue.access.rights import ROLES
from miniqueue.access.users import User, Users
from miniqueue.server.security.authentication import Authenticator

TOPIC = b"orders"


def token_of(name: str) -> bytes:
    return b"token of " + name.encode()


def user(name: str, **roles: tuple[str, ...]) -> User:
    return User(name, hash_token(token_of(name)), roles=roles)


#: Each role for one topic and for all of them, and a user without roles.
EVERYBODY = [
    user("stranger"),
    *(user(role, **{role: ("orders",)}) for role in ROLES),
    *(user(f"{role}-of-all", **{role: ("*",)}) for role in ROLES),
]


class Naps:
    """Stands for `asyncio.sleep`: keeps how long it was to wait, and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


class Clock:
    """A monotonic clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now_seconds = 1000.0

    def __call__(self) -> float:
        return self.now_seconds


def sign_in_for(*users: User) -> Authenticator:
    return Authenticator(Users(users or EVERYBODY), monotonic=Clock(), sleep=Naps())
