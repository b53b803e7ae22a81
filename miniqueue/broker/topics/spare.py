"""Keeps spare partitions, so that topics are created without a wait that have many partitions by default.

    tick ─▶ as many as the widest default has? ─▶ yes, or they are few
                                              └─▶ no: they are made in turns

Whoever publishes waits for partitions, if two topics are created within a second; a dead letter does not.
"""

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.new_partitions import PartitionsDueError
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.core.log.partition import DEFAULT_GROUP


class SparePartitions:
    """Makes partitions for the next topic that is created.

    Args:
      engine: has the defaults of new topics, and makes partitions.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._making = SingleTask(engine.spawn)

    def tick(self) -> None:
        """Begin to make partitions if some are missing."""
        topics = self._engine.topics
        if not topics.defaults or self._making.is_running:
            return
        try:
            topics.spare.check(range(1, topics.defaults.most_partitions), {DEFAULT_GROUP})
        except PartitionsDueError as due:
            self._making.start(self._engine.maker.make_spare(due))
