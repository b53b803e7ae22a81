"""What the broker says about its topics."""

import json

from tests.acceptance.process import BrokerProcess


def counts(broker: BrokerProcess, topic: str) -> dict[str, int]:
    """Return the counts of one topic, as the monitoring port tells them."""
    found: dict[str, int] = json.loads(broker.monitor("/stats"))["topics"][topic]
    return found
