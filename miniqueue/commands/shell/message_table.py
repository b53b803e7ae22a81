"""Messages as rows of a table; as JSON they have all attributes."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from miniqueue.commands.shell.columns import Column
from miniqueue.commands.shell.texts import json_message, shown_content, shown_payload, shown_time
from miniqueue_client import Message


def message_rows(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """Yield a row for each message."""
    return map(json_message, messages)


def _shown_time(at_ms: int | None) -> str:
    return shown_time(at_ms or 0)


def _payload_of(row: Mapping[str, Any]) -> str:
    return shown_payload(base64.b64decode(row["msg"]) if "msg" in row else row["text"].encode())


ID: Final = Column("id", "id")
PUBLISHED: Final = Column("published", "published_at_ms", _shown_time)
DUE: Final = Column("due", "due_at_ms", _shown_time)
DELIVERIES: Final = Column("deliveries", "deliveries", lambda count: str(count or 0), is_number=True)
KEY: Final = Column("key", "key", shown_content)
PAYLOAD: Final = Column("payload", "", _payload_of)
