"""The certificate that the brokers of these tests use."""

from tests.acceptance.conftest import trust

__all__ = ["trust"]
