"""What a cursor remembers across restarts."""

from typing import NamedTuple


class CursorState(NamedTuple):
    """The counts of one group in one partition; bitmaps, gaps and records are beside it.

    `head_seq`: no chunk below it is needed. `serial`: counts returns, so that their orders are never reused.
    `gone_bytes`: of payloads acknowledged or dropped; `log_bytes`: of all payloads up to the end of the log as it was
    then, or later. Both are None where an old store does not tell. `moved_count`: of those dropped, how many are in
    another topic now; `missed_count`: how many the group was too late for; `skipped_count`: how many lie
    in front of where it began.
    """

    acked_count: int = 0
    head_seq: int = 0
    serial: int = 0
    delayed_count: int = 0
    dropped_count: int = 0
    gone_bytes: int | None = 0
    log_bytes: int | None = 0
    moved_count: int = 0
    missed_count: int = 0
    skipped_count: int = 0
