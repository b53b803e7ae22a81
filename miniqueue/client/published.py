"""What a publish gives: ids, which say besides whether they are those of messages that were there before."""

from collections.abc import Iterable
from typing import Self


class PublishedId(str):
    """The id of a message, `<partition>-<seq>`: a str like any other.

    Attributes:
      is_duplicate: whether a message with the same dedup id or unique key was there; then nothing was stored, and the
        id is that of the other message.
    """

    is_duplicate: bool

    def __new__(cls, message_id: str, *, is_duplicate: bool = False) -> Self:
        """Return the id."""
        made = super().__new__(cls, message_id)
        made.is_duplicate = is_duplicate
        return made


class PublishedIds(list[str]):
    """The ids of messages that were published together, in order: a list like any other.

    Attributes:
      is_duplicate: whether messages with the same dedup id were there; then none was stored, and the ids are those of
        the others.
    """

    def __init__(self, ids: Iterable[str] = (), *, is_duplicate: bool = False) -> None:
        super().__init__(ids)
        self.is_duplicate = is_duplicate
