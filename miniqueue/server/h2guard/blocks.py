"""A client's blocks of headers: one that was taken apart before is known again, and not taken apart once more.

    block ─▶ the same as one before, and the table is as it was ─▶ the same fields
          └▶ any other ─▶ hpack, field by field ─▶ did it change the table? ─ no ─▶ known from now on
                                                                            └ yes ─▶ nothing is known any more

Who publishes one message after the other sends the same few bytes each time: hpack takes a sixth of what such a request
costs to make the same fields of them. A field that must never be indexed is a secret, as RFC 7541, 7.1.3 has it: a
block with one is not kept. Knows hpack; does not know what the fields mean.
"""

from collections.abc import Iterable
from typing import Final

from hpack import Decoder, HeaderTuple, HPACKDecodingError, NeverIndexedHeaderTuple

#: So many blocks of at most so many bytes and fields are kept for a connection: a few KB of memory, and at most 40. One
#: byte can be a field.
MAX_BLOCKS: Final = 8
MAX_BLOCK_BYTES: Final = 256
MAX_BLOCK_FIELDS: Final = 32
#: So many times a block may give the table another size. Twice is enough for what RFC 7541, 4.2 wants to be told; each
#: costs a byte, and is no field, of which there may be so many bytes.
MAX_RESIZES: Final = 16


class RememberingDecoder(Decoder):
    """hpack's decoder; raises what that raises, and is of no use then."""

    def __init__(self, max_header_list_size: int) -> None:
        super().__init__(max_header_list_size)
        self._known: dict[bytes, list[HeaderTuple]] = {}
        self._resize_count = 0  # in this block

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        """Return the fields of a block, as bytes with `raw`."""
        known = self._known.get(data) if raw else None
        if known is None:
            return self._decode_anew(data, raw)
        self._assert_valid_table_size()
        return known.copy()

    def _decode_anew(self, data: bytes, raw: bool) -> Iterable[HeaderTuple]:
        self._resize_count = 0
        newest, size = self._newest_entry(), self._table_size()
        fields = list(super().decode(data, raw))
        if self._newest_entry() is not newest or self._table_size() != size:
            self._known.clear()
        elif raw and len(data) <= MAX_BLOCK_BYTES and len(fields) <= MAX_BLOCK_FIELDS and not _has_secret(fields):
            if len(self._known) == MAX_BLOCKS:
                self._known.clear()
            self._known[data] = fields.copy()
        return fields

    def _update_encoding_context(self, data: bytes | memoryview) -> int:
        self._resize_count += 1
        if self._resize_count > MAX_RESIZES:
            raise HPACKDecodingError("the block sets the size of the table over and over")
        return super()._update_encoding_context(data)

    def _newest_entry(self) -> object:
        """Return what was added to the table last: another object whenever something was."""
        entries = self.header_table.dynamic_entries
        return entries[0] if entries else None

    def _table_size(self) -> tuple[int, int]:
        """Return how many entries there are, and how many bytes there may be: what changes otherwise."""
        return len(self.header_table.dynamic_entries), self.header_table.maxsize


def _has_secret(fields: list[HeaderTuple]) -> bool:
    return any(isinstance(field, NeverIndexedHeaderTuple) for field in fields)
