"""Refusals as a person reads them: with what does not exist, the role that is missing, or the flag to use.

NOTOPIC There is no such topic            ─▶ …: orders
NOGROUP The topic has no such group       ─▶ …: audit
NOSCHEDULE There is no such schedule      ─▶ …: nightly
NOMESSAGE There is no such message: …     ─▶ …; the id was 0-17
NOPERM User ada has no permissions to …   ─▶ …; it requires the role publisher on orders
certificate verify failed                 ─▶ …; --ca-file names certificates to trust
"""

from typing import Final

from miniqueue.access.rights import COMMANDS, ROLES, RequiredRight, Right
from miniqueue.errors import ServerError
from miniqueue.server.process.escaping import escape
from miniqueue_client import RefusedError
from miniqueue_client.calls.call import Word
from miniqueue_client.calls.errors import UntrustedError

#: The word with the topic in a command `GROUP`, also if its right is one on the whole broker.
_TOPIC_OF_GROUP_AT: Final = 2
#: The word with the name in a command `SCHEDULE`.
_NAME_OF_SCHEDULE_AT: Final = 2


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
    """Return what is missing, or the missing role and its topic, as the rest of a sentence; "" if it is not known."""
    names = [word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in words]
    required = _required(" ".join(names[:2])) or _required(names[0])
    if required is None or required.right in (Right.OPEN, Right.KNOWN):
        return ""
    is_of_group = names[0] == "GROUP"
    topic_at = _TOPIC_OF_GROUP_AT if is_of_group else len(names) if required.topic_at is None else required.topic_at
    topic, rest = "".join(names[topic_at : topic_at + 1]), names[topic_at + 1 :]
    missing = {"NOTOPIC": topic, "NOSCHEDULE": "".join(names[_NAME_OF_SCHEDULE_AT : _NAME_OF_SCHEDULE_AT + 1])}
    match refused.code:
        case "NOTOPIC" | "NOSCHEDULE" as code if missing[code]:
            return f": {escape(missing[code])}"
        case "NOGROUP" if not str(refused).startswith("NOGROUP group "):  # such a text names it with the setting
            group = rest[0] if is_of_group else _after("GROUP", rest)
            return f": {escape(group)}" if group else ""
        case "NOMESSAGE":
            message_id = _after("ID", rest) or _after("AFTER", rest) or "".join(rest[:1])
            return f"; the id was {escape(message_id)}" if message_id else ""
        case "NOPERM":
            role = next(role for role, rights in ROLES.items() if required.right in rights)
            return f"; it requires the role {role} on {escape(topic) if required.topic_at and topic else '*'}"
        case _:
            return ""


def _required(name: str) -> RequiredRight | None:
    return COMMANDS.get(name.upper().encode("utf-8", "replace"))


def _after(option: str, words: list[str]) -> str | None:
    """Return the value of an option; None if the command does not have it."""
    return words[words.index(option) + 1] if option in words[:-1] else None
