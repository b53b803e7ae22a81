"""Authenticates the client of one RESP connection, and checks what it may do, if the broker has users.

    unauthenticated ── AUTH, HELLO … AUTH, or a client certificate ──▶ a user ── RESET ──▶ unauthenticated, or the
       │ 10 s, 64 KiB, or 5 wrong secrets                                                  certificate's user
       ▼
     closed

While a secret is being checked, the commands after it wait. Knows the connection as four functions.
"""

import asyncio
from collections.abc import Callable

import structlog

from miniqueue.access.rights import Right, command_needs
from miniqueue.access.users import User
from miniqueue.errors import MiniqueueError, NotAuthenticatedError, NotPermittedError, ShareLimitError
from miniqueue.server.resp.commands.context import INTERNAL_ERROR
from miniqueue.server.resp.commands.session import Session
from miniqueue.server.resp.refusals import Reason
from miniqueue.server.security.authentication import Authenticator
from miniqueue.server.security.certificate_reading import subject_of
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import shown
from miniqueue.wire.resp_parser import Command

log = structlog.get_logger()

#: How long a client may take to authenticate.
SIGN_IN_SECONDS = 10.0
#: Maximum size of what an unauthenticated client sends; with one read more, this is the memory that it gets.
MAX_UNKNOWN_BYTES = 64 << 10
#: Wrong secrets until the connection is closed.
MAX_FAILURES = 5


class Guard:
    """Checks every command of a connection.

    Args:
      session: describes the client; the guard sets its user.
      sign_in: authenticates users.
      admit: raises ShareLimitError if a user, by name, may not have this connection, too.
      trust: permits the client larger commands, once it has authenticated.
      hold: makes the connection carry out nothing more until `release`.
      release: sends a reply and carries out the next commands.
      reject: counts a reason, sends a reply unless it is empty, and closes the connection.
    """

    def __init__(
        self,
        session: Session,
        sign_in: Authenticator,
        *,
        admit: Callable[[str], None],
        trust: Callable[[], None],
        hold: Callable[[], None],
        release: Callable[[bytes], None],
        reject: Callable[[Reason, str, bytes], None],
    ) -> None:
        self._session = session
        self._sign_in = sign_in
        self._admit = admit
        self._trust = trust
        self._hold = hold
        self._release = release
        self._reject = reject
        self.user: User | None = None
        self._publishable: bytes | None = None  # the topic that the user was last permitted to publish to
        self._failures = 0
        self._unknown_bytes = 0
        self._was_known = False  # whether the client was a user at any time since the last read
        self._is_late = False
        self._deadline: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._subject = ""  # the subject of the client's certificate
        self._become(None)

    @property
    def is_current(self) -> bool:
        """Whether the user, if the client has authenticated, still exists unchanged."""
        return self.user is None or self._sign_in.is_current(self.user)

    def start(self, ssl_object: object) -> None:
        """Authenticate the client by its certificate, or start the time that it has to authenticate."""
        self._subject = subject_of(ssl_object)
        self.forget()

    def introduce(self, user: User | None) -> None:
        """Accept the user as which another process of this broker has authenticated the client."""
        self._become(user)

    def stop(self) -> None:
        """Stop the timer: the connection has ended, or the client has authenticated."""
        if self._deadline is not None:
            self._deadline.cancel()

    def close(self) -> None:
        """Stop the timer, and let go of the connection, which has ended."""
        self.stop()
        self._admit = self._trust = self._hold = _nothing
        self._release = self._reject = _nothing

    def note_read(self, size_bytes: int) -> None:
        """Count what an unauthenticated client sends; close the connection if it is too much, even for one command.

        Bytes that came in one read with the RESET of a user count as the user's.
        """
        if self.user is None and self._task is None and not self._was_known:
            self._unknown_bytes += size_bytes
            if self._unknown_bytes > MAX_UNKNOWN_BYTES:
                self._send_away(Reason.LONG_SIGN_IN, "too many bytes before authentication; send AUTH first")
        self._was_known = self.user is not None

    def check(self, command: Command) -> None:
        """Raise NotAuthenticatedError or NotPermittedError unless the user may send this command.

        A command that lacks the argument that names its topic passes: it is refused for its number of arguments.
        """
        needs = command_needs(command)
        if needs.right is Right.OPEN:
            return
        if self.user is None:
            raise NotAuthenticatedError
        if needs.topic_at is not None and len(command) <= needs.topic_at:
            return
        topic = None if needs.topic_at is None else command[needs.topic_at]
        if not self.user.may(needs.right, topic):
            raise NotPermittedError(f"the '{shown(command[0]).lower()}' command")

    def check_everything(self, right: Right, command: Command) -> None:
        """Raise NotPermittedError unless the user has a right on the broker as a whole."""
        if self.user is None or not self.user.may(right):
            raise NotPermittedError(f"the '{shown(command[0]).lower()}' command")

    def lets_publish(self, topic: bytes) -> bool:
        """Return whether the user may publish to a topic; cache the last one, as every read asks."""
        if topic == self._publishable:
            return True
        if self.user is None or not self.user.may(Right.PUBLISH, topic):
            return False
        self._publishable = topic
        return True

    def begin(self, name: bytes | None, secret: bytes, finish: Callable[[], bytes]) -> None:
        """Check a secret and hold the connection meanwhile; `finish` makes the reply if the secret is right."""
        self._hold()
        self._task = asyncio.get_running_loop().create_task(self._identify(name, secret, finish))

    def forget(self) -> None:
        """Return to the state at the start of the connection, for RESET; the time to authenticate starts again."""
        self.stop()
        self._is_late = False
        user = self._sign_in.with_certificate(self._subject)
        try:
            if user is not None:
                self._admit(user.name)
        except ShareLimitError as exc:
            self._reject(Reason.SHARE, str(exc), replies.error(exc.code, str(exc)))
            return
        self._become(user)
        if user is None:
            self._deadline = asyncio.get_running_loop().call_later(SIGN_IN_SECONDS, self._too_late)

    async def _identify(self, name: bytes | None, secret: bytes, finish: Callable[[], bytes]) -> None:
        text = None if name is None else name.decode("utf-8", "replace")
        try:
            user = await self._sign_in.identify(text, secret, self._session.host)
            self._admit(user.name)
        except ShareLimitError as exc:
            self._task = None
            self._release(replies.error(exc.code, str(exc)))
            self._reject(Reason.SHARE, str(exc), b"")
        except MiniqueueError as exc:
            self._refuse(replies.error(exc.code, str(exc)))
        except Exception:  # a fault of the system, such as no thread, must not leave the connection held forever
            log.exception("AUTH failed")
            self._refuse(replies.error("ERR", INTERNAL_ERROR))
        else:
            self._task = None
            self._become(user)
            self._release(finish())

    def _refuse(self, reply: bytes) -> None:
        self._task = None
        self._failures += 1
        self._release(reply)
        if self._failures >= MAX_FAILURES or self._is_late:
            self._reject(Reason.WRONG_SECRETS, "too many wrong secrets", b"")

    def _become(self, user: User | None) -> None:
        self.user = user
        self._publishable = None
        self._session.become(user.name.encode() if user else b"")
        if user is not None:
            self._was_known = True
            self.stop()
            self._trust()

    def _too_late(self) -> None:
        self._is_late = True
        if self._task is None:  # while a secret waits to be checked, it can still be right
            self._send_away(Reason.LATE_SIGN_IN, "not authenticated in time; send AUTH first")

    def _send_away(self, reason: Reason, text: str) -> None:
        self._reject(reason, text, replies.error("NOAUTH", text))


def _nothing(*_: object) -> None:
    """Do nothing: the connection has ended."""
