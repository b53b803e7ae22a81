"""Who may say where dead letters go, and where they are moved to: it takes the right to publish there.

They are messages there; else an admin of one topic could fill any other. The topic's own `.dlq` goes with it, and where
dead letters came from goes with them.
"""

from collections.abc import Mapping

from miniqueue.access.rights import Right
from miniqueue.access.users import User
from miniqueue.errors import NotPermittedError


def check_dead_letters(user: User | None, settings: Mapping[str, object]) -> None:
    """Raise NotPermittedError if `settings` name a topic that the user may not publish to; None may everything."""
    target = settings.get("dead_letter_topic")
    if user is not None and isinstance(target, str) and not user.may(Right.PUBLISH, target.encode()):
        raise NotPermittedError("PUBLISH on the dead_letter_topic")


def check_target(user: User | None, target: bytes | None) -> None:
    """Raise NotPermittedError if `target` is a topic that the user may not publish to."""
    if user is not None and target is not None and not user.may(Right.PUBLISH, target):
        raise NotPermittedError("PUBLISH on the topic to move to")
