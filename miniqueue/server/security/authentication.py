"""Authentication: returns the user to whom a name and a secret belong; used by every protocol.

    token     ──▶ compared at once ─ right ─▶ user
                        │ wrong                 ▲ right
    password  ──────────┴─▶ blocked? ─ no ─▶ on a thread, one at a time ─ wrong ─▶ counted, a delay, rejected

A correct token is accepted even from a network that is blocked for too many wrong secrets: tokens cannot be guessed,
and a neighbor that is always wrong must not lock out other clients with the same address.

A wrong secret is rejected `FAILURE_SECONDS` after it arrived, whatever was wrong: an unknown name takes as long as a
wrong password. Passwords are verified one at a time, so guesses use at most one core and 19 MiB, however many clients
guess; a client that has guessed too often is rejected without verification. This module logs no names and no secrets:
people type their password into the field for the name.

Clients repeat rejected attempts, up to eleven times in a row. So the same wrong secret for the same user, from the same
network, counts once a minute, and is not verified again. The sender learns nothing new from that: it gets the same
rejection as before, as late as before. Attempts are remembered as digests, with a key of this process, until the
failures expire or the users are replaced.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import structlog

from miniqueue.access.hashing import NOBODY, hash_token, is_slow, matches
from miniqueue.access.throttle import Throttle, network_of
from miniqueue.access.users import DEFAULT_NAME, User, Users
from miniqueue.core.settings.quotas import Quotas
from miniqueue.errors import TooManyAttemptsError, WrongSecretError
from miniqueue.server.process.repeats import LogRateLimit

log = structlog.get_logger()

#: Time from the arrival of a wrong secret to its rejection.
FAILURE_SECONDS = 0.25
#: Number of failures within a minute that blocks a network, or a connection, for a minute.
#: The limit of networks is higher because clients may share an address.
MAX_NETWORK_FAILURES = 20
MAX_CONNECTION_FAILURES = 5
BLOCK_SECONDS = 60.0


class Authenticator:
    """Authenticates users, and counts failures.

    Args:
      users: the users at startup; see `replace`.
      monotonic: the clock, in seconds.
      sleep: waits for a number of seconds.
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
        self._log_limit = LogRateLimit(BLOCK_SECONDS, monotonic)
        self._key = secrets.token_bytes(32)  # key of the digests of attempts
        self._password_lock = asyncio.Lock()
        # Only one thread: the verification for a cancelled task continues, and must not overlap with the next.
        self._thread = ThreadPoolExecutor(1, "passwords")

    @property
    def quotas(self) -> Mapping[str, Quotas]:
        """The quotas of every user, by name."""
        return self._users.quotas

    @property
    def users(self) -> Users:
        """All users, as they are now."""
        return self._users

    async def identify(self, name: str | None, secret: bytes, address: str, connection: str = "") -> User:
        """Return the user to whom a secret belongs.

        Args:
          name: name of the user; None and `DEFAULT_NAME` mean the owner of the token, else the user `DEFAULT_NAME`.
          secret: a password or a token.
          address: address of the client, without its port.
          connection: identifies the connection, if failures are to be limited by connection, too.

        Raises:
          WrongSecretError: there is no such user, or the secret is wrong.
          TooManyAttemptsError: there were too many failures on this network or connection.
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

    def named(self, name: str) -> User | None:
        """Return the user with a name, whom another process of this broker has authenticated; None if there is none."""
        return self._users.named(name)

    def with_certificate(self, subject: str) -> User | None:
        """Return the user to whom the subject of a client certificate belongs."""
        return self._users.with_certificate(subject)

    def is_current(self, user: User) -> bool:
        """Whether a user still exists, with the same secret and rights."""
        return self._users.named(user.name) is user

    def replace(self, users: Users) -> None:
        """Replace all users; users who have not changed stay current."""
        self._users = users.succeeding(self._users)
        self._by_network.forget_attempts()

    def _candidate(self, name: str | None, secret: bytes) -> User | None:
        if name in (None, DEFAULT_NAME):
            return self._users.with_token(hash_token(secret)) or self._users.named(DEFAULT_NAME)
        return self._users.named(name)

    def _attempt(self, name: str | None, secret: bytes) -> bytes:
        """Return a digest of a name and a secret, which reveals neither."""
        digest = hashlib.blake2b(key=self._key, digest_size=16)
        encoded = (DEFAULT_NAME if name is None else name).encode("utf-8", "surrogateescape")
        digest.update(len(encoded).to_bytes(8) + encoded + secret)
        return digest.digest()

    async def _is_right(self, stored: str, secret: bytes, peer: "_Peer") -> bool:
        """Return whether a secret is right; a wrong token takes as long as a wrong password."""
        if not is_slow(stored):
            if matches(stored, secret):
                return True
            stored = NOBODY
        self._refuse_blocked(peer)
        if self._by_network.has_failed(peer.network, peer.attempt):
            return False
        async with self._password_lock:
            self._refuse_blocked(peer)  # other attempts of this network may have failed meanwhile
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
    """The keys under which failures are counted, and a digest of the attempt."""

    network: str
    connection: str
    attempt: bytes
