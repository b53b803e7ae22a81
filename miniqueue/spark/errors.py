"""Errors of reads, writes and jobs, in addition to those of the client."""

from typing import Final

from miniqueue.errors import ClientError

#: The option of the source, and its flag in `miniqueue pipeline`.
_WITHOUT: Final = "failOnDataLoss=false (as a flag: -fail-on-data-loss false)"


class LostMessagesError(ClientError):
    """Messages were deleted before they were read."""

    def __init__(self, topic: str, partition: str, offset: int, count: int) -> None:
        super().__init__(
            f"{count} messages of {topic}, partition {partition}, from offset {offset} on no longer exist; "
            f"a topic keeps them with the setting retention, and {_WITHOUT} continues without them"
        )


class TopicRestartedError(ClientError):
    """A topic ends before the offset up to which a stream has read it."""

    def __init__(self, topic: str, partition: str, read_to: int, end: int) -> None:
        super().__init__(
            f"{topic}, partition {partition}, was read to offset {read_to} and ends at {end}: the topic was deleted "
            f"meanwhile, or the checkpoint is that of another broker; {_WITHOUT} reads from its beginning"
        )


class NotWrittenError(ClientError):
    """Rows could not be written."""


class JobFailedError(ClientError):
    """A job failed; the text names the file, the row and the cause, as far as they are known."""
