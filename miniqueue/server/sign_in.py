"""Who somebody is: a name and a secret in, a user out; the same for every protocol.

    token     ──▶ compared at once ─ right ─▶ user
                        │ wrong                 ▲ right
    password  ──────────┴─▶ blocked? ─ no ─▶ on a thread, one at a time ─ wrong ─▶ counted, a pause, refused

A token that is right gets in also from where too many wrong secrets came: nobody guesses one, and a neighbour who is
wrong all the time must not lock out the others behind the same address.

A wrong secret is told as late as `FAILURE_SECONDS` after it came, whatever was wrong with it: a name that does not
exist takes as long as a wrong password. One password is looked at at a time, so guesses take one core and 19 MiB,
whoever makes them; who has guessed too often is refused before. Nothing here logs a name or a secret: people type their
password where the name belongs.

Clients repeat what was refused, up to eleven times in a row: the same wrong secret for the same user, from the same
network, counts once a minute, and is not looked at again. Whoever sends it learns nothing from that: it was told that
the pair is wrong, and is told so again, as late as before. What is remembered is a digest with a key of this process,
until the failures are forgotten or the users replaced.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import structlog

from miniqueue.access.hashing import NOBODY, hash_token, is_slow, matches
from miniqueue.access.throttle import Throttle, network_of
from miniqueue.access.users import User, Users
from miniqueue.errors import TooManyAttemptsError, WrongSecretError
from miniqueue.server.repeats import RepeatLimit

log = structlog.get_logger()

FAILURE_SECONDS = 0.25
#: As many within a minute block an address, or a connection, for a minute.
MAX_NETWORK_FAILURES = 20
MAX_CONNECTION_FAILURES = 5
BLOCK_SECONDS = 60.0
#: Whom a secret without a name is for, unless it is a token: as in Redis, where the name may stand there or not.
DEFAULT_NAME = "default"


class SignIn:
    """Knows the users, and keeps count of those who are not.

    Args:
      users: as of now; see `replace`.
      monotonic: the clock, in seconds.
      sleep: waits for as many seconds.
    """

    def __init__(
        self,
        users: Users,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._users = users
        self.monotonic = monotonic
        self._sleep = sleep
        self._by_network = Throttle(MAX_NETWORK_FAILURES, BLOCK_SECONDS, monotonic)
        self._by_connection = Throttle(MAX_CONNECTION_FAILURES, BLOCK_SECONDS, monotonic)
        self._log_limit = RepeatLimit(BLOCK_SECONDS, monotonic)
        self._key = secrets.token_bytes(32)  # of the digests of attempts
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "passwords")  # one: also when a task is cancelled, its guess goes on

    async def identify(self, name: str | None, secret: bytes, address: str, connection: str = "") -> User:
        """Return the user to whom a secret belongs.

        Args:
          name: of the user; None, as well as `DEFAULT_NAME`, for whoever owns the token, or the user of that name.
          secret: a password or a token.
          address: of the peer, without its port.
          connection: that of the peer, if its failures are to be limited here.

        Raises:
          WrongSecretError: there is no such user, or the secret is another.
          TooManyAttemptsError: there were too many wrong ones from there.
        """
        begun_at, users = self.monotonic(), self._users
        peer = _Peer(network_of(address), connection, self._attempt(name, secret))
        user = self._candidate(name, secret)
        is_right = await self._is_right(user.secret if user and user.secret else NOBODY, secret, peer)
        if user is not None and is_right and self.is_current(user):
            return user
        self._refuse_blocked(peer)
        self._note_failure(peer if users is self._users else peer._replace(attempt=b""))
        await self._sleep(FAILURE_SECONDS - (self.monotonic() - begun_at))
        raise WrongSecretError

    def with_certificate(self, subject: str) -> User | None:
        """Return the user for whom a client certificate stands."""
        return self._users.with_certificate(subject)

    def is_current(self, user: User) -> bool:
        """Tell whether a user is still there, and still the same."""
        return self._users.named(user.name) is user

    def replace(self, users: Users) -> None:
        """Know other users from now on; those who are the same stay current."""
        self._users = users.succeeding(self._users)
        self._by_network.forget_attempts()

    def _candidate(self, name: str | None, secret: bytes) -> User | None:
        if name in (None, DEFAULT_NAME):
            return self._users.with_token(hash_token(secret)) or self._users.named(DEFAULT_NAME)
        return self._users.named(name)

    def _attempt(self, name: str | None, secret: bytes) -> bytes:
        """Return what stands for a name and a secret, from which neither can be found."""
        digest = hashlib.blake2b(key=self._key, digest_size=16)
        encoded = (DEFAULT_NAME if name is None else name).encode("utf-8", "surrogateescape")
        digest.update(len(encoded).to_bytes(8) + encoded + secret)
        return digest.digest()

    async def _is_right(self, stored: str, secret: bytes, peer: "_Peer") -> bool:
        """Tell whether a secret is right; a wrong token takes as long as a wrong password."""
        if not is_slow(stored):
            if matches(stored, secret):
                return True
            stored = NOBODY
        self._refuse_blocked(peer)
        if self._by_network.has_failed(peer.network, peer.attempt):
            return False
        async with self._turn:
            self._refuse_blocked(peer)  # others from there may have failed meanwhile
            if self._by_network.has_failed(peer.network, peer.attempt):
                return False
            is_match = await asyncio.get_running_loop().run_in_executor(self._thread, matches, stored, secret)
        return is_match and stored != NOBODY

    def _refuse_blocked(self, peer: "_Peer") -> None:
        if self._by_network.is_blocked(peer.network) or self._by_connection.is_blocked(peer.connection):
            raise TooManyAttemptsError

    def _note_failure(self, peer: "_Peer") -> None:
        self._by_network.failed(peer.network, peer.attempt)
        if peer.connection:
            self._by_connection.failed(peer.connection)
        held_back = self._log_limit.admit(peer.network)
        if held_back is not None:
            log.warning("a wrong user or secret was refused", address=peer.network, held_back=held_back)


class _Peer(NamedTuple):
    """What failures are counted under, and what was tried."""

    network: str
    connection: str
    attempt: bytes
