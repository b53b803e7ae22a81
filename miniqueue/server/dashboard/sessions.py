"""Sessions: who has signed in with a browser, and still is.

    sign in ─▶ token, 256 bits, in a cookie ─▶ each request: its digest ─▶ the user, if still unchanged
                                                   └ `IDLE_SECONDS` without a request, signed out, too many: ended

Only digests of tokens are kept. A session ends when its user is removed or changed.
"""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from miniqueue.access.users import User
from miniqueue.broker.runtime.accounts import Memory, MemoryAccount, Purpose

IDLE_SECONDS: Final = 12 * 3600.0
#: Maximum number of sessions, and of one user; a new one ends the one that was unused for the longest time.
MAX_SESSIONS: Final = 1_000
MAX_SESSIONS_OF_USER: Final = 20
TOKEN_BYTES: Final = 32
#: The memory of a session, about.
SESSION_BYTES: Final = 1_000


@dataclass(slots=True)
class _Session:
    user: User
    account: MemoryAccount
    used_at: float


class Sessions:
    """The sessions of one port.

    Args:
      is_current: returns whether a user still exists, unchanged.
      memory: the accounts that the sessions are charged to.
      monotonic: the clock, in seconds.
      prefix: the beginning of the tokens.
    """

    def __init__(
        self, is_current: Callable[[User], bool], memory: Memory, monotonic: Callable[[], float], prefix: str = ""
    ) -> None:
        self._is_current = is_current
        self._memory = memory
        self._monotonic = monotonic
        self._prefix = prefix
        #: Sessions by the digest of their token; the one that was used last is the last.
        self._sessions: dict[bytes, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, user: User) -> str:
        """Begin a session of a user, who has just authenticated; return its token."""
        self._drop_ended()
        own = [digest for digest, session in self._sessions.items() if session.user.name == user.name]
        if len(own) >= MAX_SESSIONS_OF_USER:
            self._drop(own[0])
        elif len(self._sessions) >= MAX_SESSIONS:
            self._drop(next(iter(self._sessions)))
        token = self._prefix + secrets.token_hex(TOKEN_BYTES)
        account = self._memory.of_user(user.name)
        account.add(Purpose.CONNECTIONS, SESSION_BYTES)
        self._sessions[_digest(token)] = _Session(user, account, self._monotonic())
        return token

    def user_of(self, token: str) -> User | None:
        """Return the user of a session, which is used now; None if there is no such session any more."""
        digest = _digest(token)
        session = self._sessions.get(digest)
        if session is None:
            return None
        if self._is_ended(session):
            self._drop(digest)
            return None
        session.used_at = self._monotonic()
        self._sessions[digest] = self._sessions.pop(digest)
        return session.user

    def end(self, token: str) -> None:
        """End a session, if there is one."""
        digest = _digest(token)
        if digest in self._sessions:
            self._drop(digest)

    def _is_ended(self, session: _Session) -> bool:
        return self._monotonic() - session.used_at >= IDLE_SECONDS or not self._is_current(session.user)

    def _drop_ended(self) -> None:
        for digest in [digest for digest, session in self._sessions.items() if self._is_ended(session)]:
            self._drop(digest)

    def _drop(self, digest: bytes) -> None:
        self._sessions.pop(digest).account.add(Purpose.CONNECTIONS, -SESSION_BYTES)


def _digest(token: str) -> bytes:
    return hashlib.blake2b(token.encode("utf-8", "surrogateescape"), digest_size=32).digest()
