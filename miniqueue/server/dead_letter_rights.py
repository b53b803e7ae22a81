"""Who may say where the dead letters of a topic go: they are messages there, so it takes the right to publish there.

Else an admin of one topic could fill any other. The topic's own `.dlq` goes with the topic.
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
