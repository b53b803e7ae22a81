"""Refusals as a person reads them: with the topic that does not exist, the role that is missing, or the flag to use.

NOTOPIC There is no such topic            ─▶ …: orders
NOPERM User ada has no permissions to …   ─▶ …; it requires the role publisher on orders
certificate verify failed                 ─▶ …; --ca-file names certificates to trust
"""

from miniqueue.access.rights import COMMANDS, ROLES, RequiredRight, Right
from miniqueue.errors import ServerError
from miniqueue.server.process.escaping import escape
from miniqueue_client import RefusedError
from miniqueue_client.calls.call import Word
from miniqueue_client.calls.errors import UntrustedError


def explained(refused: RefusedError, words: tuple[Word, ...]) -> ServerError:
    """Return a refusal of the command with these words as an error for a person, with its code."""
    if refused.code == "NOAUTH":  # its text, that of Redis, is about the protocol
        text = "the broker refused: NOAUTH it has users; use --token-file, or --user and --password-file, or a context"
    else:
        text = f"the broker refused: {escape(str(refused))}{details_of(refused, words)}"
    return ServerError(text, code=refused.code)


def trusting(untrusted: UntrustedError) -> UntrustedError:
    """Return the error for a certificate that is not trusted, with the flag that may help."""
    return UntrustedError(f"{untrusted}; --ca-file names certificates to trust, such as certs/ca.pem of the broker")


def details_of(refused: RefusedError, words: tuple[Word, ...]) -> str:
    """Return the missing topic, or the missing role and its topic, as the rest of a sentence; "" for other refusals."""
    names = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    required = COMMANDS.get(b" ".join(names[:2]).upper()) or COMMANDS.get(names[0].upper())
    if required is None or required.right in (Right.OPEN, Right.KNOWN):
        return ""
    topic = _topic_of(required, names)
    match refused.code:
        case "NOTOPIC":
            return "" if topic is None else f": {escape(topic)}"
        case "NOPERM":
            role = next(role for role, rights in ROLES.items() if required.right in rights)
            return f"; it requires the role {role} on {'*' if topic is None else escape(topic)}"
        case _:
            return ""


def _topic_of(required: RequiredRight, names: list[bytes]) -> str | None:
    """Return the topic of a command; None if it concerns the whole broker."""
    if required.topic_at is None or required.topic_at >= len(names):
        return None
    return names[required.topic_at].decode("utf-8", "replace")
