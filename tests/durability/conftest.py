"""The fixtures of the acceptance tests: real brokers, and the certificate that all of them use."""

from tests.acceptance.conftest import start_broker, topic, trust

__all__ = ["start_broker", "topic", "trust"]
