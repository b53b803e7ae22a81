from tests.broker.support import World, run
from tests.fakes import FakeConsumer, FaultyStore, settle_down

from miniqueue.core.publish_options import Priority, PublishOptions
