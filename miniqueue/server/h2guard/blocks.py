"""Blocks of headers: one that was taken apart, or put together, before is known again, and not made once more.

    block ─▶ the same as one before, and the table is as it was ─▶ the same fields
          └▶ any other ─▶ hpack, field by field ─▶ did it change the table? ─ no ─▶ known from now on
                                                                            └ yes ─▶ nothing is known any more

Who publishes one message after the other sends the same few bytes each time: hpack takes a sixth of what such a request
costs to make the same fields of them. Replies are the same fields for a second, until their date is another: to make
the same bytes of these took an eleventh. A field that must never be indexed is a secret, as RFC 7541, 7.1.3 has it:
what has one is not kept. Knows hpack; does not know what the fields mean.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from hpack import Decoder, Encoder, HeaderTuple, HPACKDecodingError, NeverIndexedHeaderTuple
from hpack.table import HeaderTable

#: So many blocks of at most so many bytes and fields are kept for each way of a connection: a few KB of memory, and at
#: most 40. One byte can be a field.
MAX_BLOCKS: Final = 8
MAX_BLOCK_BYTES: Final = 256
MAX_BLOCK_FIELDS: Final = 32
#: So many times a block may give the table another size. Twice is enough for what RFC 7541, 4.2 wants to be told; each
#: costs a byte, and is no field, of which there may be so many bytes.
MAX_RESIZES: Final = 16

_Field: TypeAlias = HeaderTuple | tuple[bytes, bytes]
#: Of a table: what was added last, how many entries there are, how many bytes there may be.
_State: TypeAlias = tuple[object, int, int]


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
        before = _state(self.header_table)
        fields = list(super().decode(data, raw))
        if not _is_same(before, _state(self.header_table)):
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


class RememberingEncoder(Encoder):
    """hpack's encoder."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[_Field, ...], bytes] = {}

    def encode(self, headers: Iterable[_Field], huffman: bool = True) -> bytes:  # type: ignore[override] # as h2 calls it
        """Return the block of some fields."""
        fields = tuple(headers)
        if not huffman or self.header_table.resized or NeverIndexedHeaderTuple in map(type, fields):
            self._known.clear()
            return super().encode(fields, huffman)
        return self._known.get(fields) or self._encode_anew(fields)

    def _encode_anew(self, fields: tuple[_Field, ...]) -> bytes:
        before = _state(self.header_table)
        block = super().encode(fields)
        if not _is_same(before, _state(self.header_table)):
            self._known.clear()
        elif len(block) <= MAX_BLOCK_BYTES and len(fields) <= MAX_BLOCK_FIELDS:
            if len(self._known) == MAX_BLOCKS:
                self._known.clear()
            self._known[fields] = block
        return block


def _state(table: HeaderTable) -> _State:
    entries = table.dynamic_entries
    return entries[0] if entries else None, len(entries), table.maxsize


def _is_same(one: _State, other: _State) -> bool:
    """Tell whether nothing was added to a table, which makes a new object of it, and it has not become smaller."""
    return one[0] is other[0] and one[1:] == other[1:]


def _has_secret(fields: list[HeaderTuple]) -> bool:
    return any(isinstance(field, NeverIndexedHeaderTuple) for field in fields)
