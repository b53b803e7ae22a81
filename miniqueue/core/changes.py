"""What the next commit must write for one cursor."""

from miniqueue.core.lease import ChunkProgress, Range
from miniqueue.core.message import Record


class Changes:
    """Collects what a cursor has changed since the last commit.

    Attributes:
      records: what came back, by range and order; None: to be deleted.
      touched: chunks in which something was settled, by first sequence number.
      finished: chunks in which everything is.
      gaps: where gaps end by where they begin; None: to be deleted.
    """

    __slots__ = ("finished", "gaps", "records", "touched")

    def __init__(self) -> None:
        self.records: dict[tuple[Range, int], Record | None] = {}
        self.touched: dict[int, ChunkProgress] = {}
        self.finished: list[ChunkProgress] = []
        self.gaps: dict[int, int | None] = {}

    def __bool__(self) -> bool:
        return bool(self.records or self.touched or self.finished)
