"""What the client of one RESP connection may do; there is none where a broker has no users.

    nobody ── AUTH, HELLO … AUTH, or a client certificate ──▶ a user ── RESET ──▶ nobody, or the certificate's user
       │ 10 s, 64 KiB, or 5 wrong secrets
       ▼
     closed

While a secret is looked at, the connection holds the commands behind it.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from miniqueue.access.rights import Right, command_needs
from miniqueue.access.users import User
from miniqueue.errors import MiniqueueError, NotAuthenticatedError, NotPermittedError
from miniqueue.server.client_certificates import subject_of
from miniqueue.server.resp_errors import shown
from miniqueue.server.resp_refusals import Reason
from miniqueue.server.sign_in import SignIn
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection

log = structlog.get_logger()

SIGN_IN_SECONDS = 10.0
#: With one read more, as much memory as somebody unknown gets.
MAX_UNKNOWN_BYTES = 64 << 10
MAX_FAILURES = 5


class Guard:
    """Checks every command of a connection.

    Args:
      connection: whose commands.
      sign_in: knows the users.
    """

    def __init__(self, connection: "RespConnection", sign_in: SignIn) -> None:
        self._connection = connection
        self._sign_in = sign_in
        self.user: User | None = None
        self._publishable: bytes | None = None  # a topic that the user may publish to
        self._failures = 0
        self._unknown_bytes = 0
        self._was_known = False  # at some time since the last read
        self._is_late = False
        self._deadline: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._subject = ""  # of the client's certificate
        self._become(None)

    @property
    def is_current(self) -> bool:
        """Whether the user, if the client is one, still is what it was."""
        return self.user is None or self._sign_in.is_current(self.user)

    def start(self, ssl_object: object) -> None:
        """Know the client by its certificate, or begin to wait for it to say who it is."""
        self._subject = subject_of(ssl_object)
        self.forget()

    def stop(self) -> None:
        """The connection is gone."""
        if self._deadline is not None:
            self._deadline.cancel()

    def note_read(self, size_bytes: int) -> None:
        """Count what somebody unknown has sent; too much ends the connection, for it may all be one command.

        What came in one piece with the RESET of a user is the user's.
        """
        if self.user is None and self._task is None and not self._was_known:
            self._unknown_bytes += size_bytes
            if self._unknown_bytes > MAX_UNKNOWN_BYTES:
                self._send_away(Reason.LONG_SIGN_IN, "it sent too much before it signed in")
        self._was_known = self.user is not None

    def check(self, command: Command) -> None:
        """Raise NotAuthenticatedError or NotPermittedError unless the user may do this.

        A command without the word that names its topic passes: it has too few words, and is refused for that.
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
        """Tell the same of a publish to `topic`; remembers the last one, for there is one for each read."""
        if topic == self._publishable:
            return True
        if self.user is None or not self.user.may(Right.PUBLISH, topic):
            return False
        self._publishable = topic
        return True

    def begin(self, name: bytes | None, secret: bytes, finish: Callable[[], bytes]) -> None:
        """Look at a secret; the connection is held until the reply, which `finish` makes if the secret is right."""
        self._connection.hold()
        self._task = asyncio.get_running_loop().create_task(self._identify(name, secret, finish))

    def forget(self) -> None:
        """Be as at the start, for RESET; who has signed in before has no more time than others to do so again."""
        self.stop()
        self._is_late = False
        self._become(self._sign_in.with_certificate(self._subject))
        if self.user is None:
            self._deadline = asyncio.get_running_loop().call_later(SIGN_IN_SECONDS, self._too_late)

    async def _identify(self, name: bytes | None, secret: bytes, finish: Callable[[], bytes]) -> None:
        text = None if name is None else name.decode("utf-8", "replace")
        try:
            user = await self._sign_in.identify(text, secret, self._connection.session.host)
        except MiniqueueError as exc:
            self._refuse(replies.error(exc.code, str(exc)))
        except Exception:  # of the system, as when it gives no thread: the connection must not be held for ever
            log.exception("AUTH failed")
            self._refuse(replies.error("ERR", "internal error, the broker's log has it"))
        else:
            self._task = None
            self._become(user)
            self._connection.release(finish())

    def _refuse(self, reply: bytes) -> None:
        self._task = None
        self._failures += 1
        self._connection.release(reply)
        if self._failures >= MAX_FAILURES or self._is_late:
            refusals = self._connection.server.refusals
            refusals.count(Reason.WRONG_SECRETS, self._connection.session, "its secrets are wrong")
            self._connection.close_when_sent()

    def _become(self, user: User | None) -> None:
        self.user = user
        self._publishable = None
        self._connection.session.become(user.name.encode() if user else b"")
        if user is not None:
            self._was_known = True
            self.stop()
            self._connection.trust()

    def _too_late(self) -> None:
        self._is_late = True
        if self._task is None and not self._connection.is_closing:  # else many wait for a turn, and it may be right
            self._send_away(Reason.LATE_SIGN_IN, "it did not sign in")

    def _send_away(self, reason: Reason, text: str) -> None:
        self._connection.server.refusals.count(reason, self._connection.session, text)
        self._connection.reply(replies.error("NOAUTH", text))
        self._connection.close_when_sent()
