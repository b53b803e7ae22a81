"""Header blocks of HTTP/2: identical blocks are decoded, and encoded, only once.

    block ─▶ same as an earlier one, and the table is unchanged ─▶ the same fields
          └▶ any other ─▶ hpack, field by field ─▶ did it change the table? ─ no ─▶ it is remembered
                                                                            └ yes ─▶ all are forgotten

A client that publishes one message after the other sends the same few bytes each time; decoding them took a sixth of
the cost of such a request. Replies have the same fields for one second, until their date changes; encoding them took an
eleventh. A field that must never be indexed is a secret (RFC 7541, 7.1.3), so blocks with one are not remembered. Knows
hpack; does not know the meaning of the fields.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from hpack import Decoder, Encoder, HeaderTuple, HPACKDecodingError, NeverIndexedHeaderTuple
from hpack.table import HeaderTable

#: Maximum number of remembered blocks per direction of a connection, and of their bytes and fields: a few KB of memory,
#: at most 40. One byte can encode a field.
MAX_BLOCKS: Final = 8
MAX_BLOCK_BYTES: Final = 256
MAX_BLOCK_FIELDS: Final = 32
#: Maximum number of times that one block can resize the table. RFC 7541, 4.2 requires at most two; each is one byte,
#: and does not count as a field, so that the limit of header bytes does not apply.
MAX_RESIZES: Final = 16

_Field: TypeAlias = HeaderTuple | tuple[bytes, bytes]
#: State of a table: its newest entry, its number of entries, its maximum size.
_State: TypeAlias = tuple[object, int, int]


class RememberingDecoder(Decoder):
    """hpack's decoder with a memory; unusable after it has raised an error."""

    def __init__(self, max_header_list_size: int) -> None:
        super().__init__(max_header_list_size)
        self._remembered: dict[bytes, list[HeaderTuple]] = {}
        self._resize_count = 0  # number of resizes in the current block

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        """Return the fields of a block, as bytes with `raw`."""
        fields = self._remembered.get(data) if raw else None
        if fields is None:
            return self._decode_block(data, raw)
        self._assert_valid_table_size()
        return fields.copy()

    def _decode_block(self, data: bytes, raw: bool) -> Iterable[HeaderTuple]:
        self._resize_count = 0
        before = _state(self.header_table)
        fields = list(super().decode(data, raw))
        if not _is_same(before, _state(self.header_table)):
            self._remembered.clear()
        elif raw and len(data) <= MAX_BLOCK_BYTES and len(fields) <= MAX_BLOCK_FIELDS and not _has_secret(fields):
            if len(self._remembered) == MAX_BLOCKS:
                self._remembered.clear()
            self._remembered[data] = fields.copy()
        return fields

    def _update_encoding_context(self, data: bytes | memoryview) -> int:
        self._resize_count += 1
        if self._resize_count > MAX_RESIZES:
            raise HPACKDecodingError("the block resizes the table too often")
        return super()._update_encoding_context(data)


class RememberingEncoder(Encoder):
    """hpack's encoder with a memory."""

    def __init__(self) -> None:
        super().__init__()
        self._remembered: dict[tuple[_Field, ...], bytes] = {}

    def encode(self, headers: Iterable[_Field], huffman: bool = True) -> bytes:  # type: ignore[override] # as h2 calls it
        """Return the header block of some fields."""
        fields = tuple(headers)
        if not huffman or self.header_table.resized or NeverIndexedHeaderTuple in map(type, fields):
            self._remembered.clear()
            return super().encode(fields, huffman)
        return self._remembered.get(fields) or self._encode_block(fields)

    def _encode_block(self, fields: tuple[_Field, ...]) -> bytes:
        before = _state(self.header_table)
        block = super().encode(fields)
        if not _is_same(before, _state(self.header_table)):
            self._remembered.clear()
        elif len(block) <= MAX_BLOCK_BYTES and len(fields) <= MAX_BLOCK_FIELDS:
            if len(self._remembered) == MAX_BLOCKS:
                self._remembered.clear()
            self._remembered[fields] = block
        return block


def _state(table: HeaderTable) -> _State:
    entries = table.dynamic_entries
    return entries[0] if entries else None, len(entries), table.maxsize


def _is_same(before: _State, after: _State) -> bool:
    """Whether no entry was added to a table, which would be a new object, and it has not become smaller."""
    return before[0] is after[0] and before[1:] == after[1:]


def _has_secret(fields: list[HeaderTuple]) -> bool:
    return any(isinstance(field, NeverIndexedHeaderTuple) for field in fields)
