"""What the settings of a topic promise, as far as a ledger holds the broker to it."""


class Rules:
    """What the settings of a topic promise; the defaults are those of a plain topic.

    Attributes:
      ttl_ms: the time to live of messages without one; `drops_expired`: whether expired messages are dropped.
      max_deliveries: then it is a dead letter.
      is_ordered: whether delivery is ordered by key.
      max_held: messages at a time.
      max_messages: it gives the oldest up; `drops_oldest` whether these are gone then.
      has_dead: whether messages may become dead letters.
      handover_seconds: after which a member may lose what it holds.
      partitions: the initial number of partitions.
      keeps_ms, keeps_bytes, keeps_count: how long, and how much, it keeps of what is finished; 0 for no such limit.
      drops_unread: these limits are for all messages.
      is_in_order: what comes first of a partition is what was published first.
      is_formed: what is published is a JSON string.
    """

    def __init__(
        self,
        *,
        ttl_ms: int = 0,
        drops_expired: bool = True,
        max_deliveries: int = 0,
        is_ordered: bool = False,
        max_held: int = 0,
        max_messages: int = 0,
        drops_oldest: bool = False,
        has_dead: bool = True,
        handover_seconds: float = float("inf"),
        partitions: int = 1,
        keeps_ms: int = 0,
        keeps_bytes: int = 0,
        keeps_count: int = 0,
        drops_unread: bool = False,
        is_in_order: bool = False,
        is_formed: bool = False,
    ) -> None:
        self.ttl_ms = ttl_ms
        self.drops_expired = drops_expired
        self.max_deliveries = max_deliveries
        self.is_ordered = is_ordered
        self.max_held = max_held
        self.max_messages = max_messages
        self.drops_oldest = drops_oldest
        self.has_dead = has_dead
        self.handover_seconds = handover_seconds
        self.partitions = partitions
        self.keeps_ms = keeps_ms
        self.keeps_bytes = keeps_bytes
        self.keeps_count = keeps_count
        self.drops_unread = drops_unread
        self.is_in_order = is_in_order
        self.is_formed = is_formed
