"""What goes wrong between a broker and a job, beside what the client already has words for."""

from miniqueue.errors import ClientError


class LostMessagesError(ClientError):
    """Messages were gone before they were read."""

    def __init__(self, topic: str, partition: str, offset: int, count: int) -> None:
        super().__init__(
            f"{count} messages of {topic}, partition {partition}, from offset {offset} on are gone; a topic keeps "
            "them with the setting retention, and failOnDataLoss=false goes on without them"
        )


class TopicRestartedError(ClientError):
    """A topic has fewer messages than a stream has read of it."""

    def __init__(self, topic: str, partition: str, read_to: int, end: int) -> None:
        super().__init__(
            f"{topic}, partition {partition}, was read to offset {read_to} and ends at {end}: the topic was deleted "
            "meanwhile, or the checkpoint is that of another broker; failOnDataLoss=false reads from its beginning"
        )


class NotWrittenError(ClientError):
    """Rows could not be written."""


class JobFailedError(ClientError):
    """A job broke off; the text names the file, the row and the cause, as far as they are known."""
