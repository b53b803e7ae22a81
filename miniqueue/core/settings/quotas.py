"""The quotas of a user: names, valid values, and what each limits.

    row of Quotas ─▶ the users file, the flags of `miniqueue user quota`, errors, the table in docs/security.md

None means that the operator has set no quota; then only the share of each pool applies (`broker.model.shares`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple

from miniqueue.core.settings.fields import MAX_HELD, Field, whole

#: A connection alone may cost 64 KiB; with less than this, a user could do nothing.
MIN_MEMORY_BYTES: Final = 1 << 20


class Quotas(NamedTuple):
    """The quotas of one user: a row for each, with its valid values and what it limits."""

    max_topics: Annotated[int | None, whole(1, MAX_HELD, "topics that the user owns")] = None
    max_bytes: Annotated[int | None, whole(1, MAX_HELD, "bytes that these topics hold")] = None
    max_messages_per_second: Annotated[int | None, whole(1, MAX_HELD, "messages that the user publishes a second")] = (
        None
    )
    max_connections: Annotated[int | None, whole(1, MAX_HELD, "connections of the user")] = None
    max_memory_bytes: Annotated[
        int | None, whole(MIN_MEMORY_BYTES, MAX_HELD, "memory that the user makes the broker use")
    ] = None

    def members(self) -> dict[str, int]:
        """Return the quotas that are set, by name."""
        return {name: value for name, value in self._asdict().items() if value is not None}


#: The row of each quota, by name.
FIELDS: Final[Mapping[str, Field]] = MappingProxyType(
    {name: row.__metadata__[0] for name, row in Quotas.__annotations__.items()}
)
#: The quotas of a user for whom the operator has set none.
NO_QUOTAS: Final = Quotas()
