"""How far a chunk of a log reaches: what is known of it without its messages."""

from typing import NamedTuple


class ChunkExtent(NamedTuple):
    """What a chunk says of itself.

    Attributes:
      first_seq: the sequence number of its first message; `end_seq` the one after its last.
      committed_at_ms: when its messages were committed, since 1970.
      content_bytes: of its payloads and attributes.
      log_bytes: of those of the whole log up to its end; 0 where an old store does not tell.
    """

    first_seq: int
    end_seq: int
    committed_at_ms: int
    content_bytes: int
    log_bytes: int
