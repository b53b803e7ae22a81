"""What goes wrong between a broker and a job, beside what the client already has words for."""

from typing import Final

from miniqueue.errors import ClientError

#: The option of the source, and what users of `miniqueue pipeline` know.
_WITHOUT: Final = "failOnDataLoss=false (as a flag: -fail-on-data-loss false)"


class LostMessagesError(ClientError):
    """Messages were gone before they were read."""

    def __init__(self, topic: str, partition: str, offset: int, count: int) -> None:
        super().__init__(
            f"{count} messages of {topic}, partition {partition}, from offset {offset} on are gone; a topic keeps "
            f"them with the setting retention, and {_WITHOUT} goes on without them"
        )


class TopicRestartedError(ClientError):
    """A topic has fewer messages than a stream has read of it."""

    def __init__(self, topic: str, partition: str, read_to: int, end: int) -> None:
        super().__init__(
            f"{topic}, partition {partition}, was read to offset {read_to} and ends at {end}: the topic was deleted "
            f"meanwhile, or the checkpoint is that of another broker; {_WITHOUT} reads from its beginning"
        )


class NotWrittenError(ClientError):
    """Rows could not be written."""


class JobFailedError(ClientError):
    """A job broke off; the text names the file, the row and the cause, as far as they are known."""
