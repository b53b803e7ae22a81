"""What other programs may import: a change here is a change of the interface, and has to be meant."""

import importlib.util
import inspect

import pytest

PUBLIC = {
    "miniqueue": {"__version__"},
    "miniqueue.broker": {"Accepted", "Broker", "Clock", "Commit", "Consumer", "Published", "SystemClock"},
    "miniqueue_client": {
        "AsyncClient",
        "AsyncWorker",
        "Bounds",
        "Client",
        "ClientError",
        "ConnectError",
        "Counts",
        "Delay",
        "Delivery",
        "DisconnectedError",
        "Event",
        "Found",
        "Group",
        "HeldMessage",
        "Http2Client",
        "LeaseHolder",
        "Message",
        "Origin",
        "Outgoing",
        "Page",
        "PublishedId",
        "PublishedIds",
        "Redriven",
        "RefusedError",
        "Reject",
        "Schedule",
        "Seek",
        "Selection",
        "ServerError",
        "Step",
        "Subscription",
        "Task",
        "Worker",
        "connect",
        "handling",
    },
}
if importlib.util.find_spec("pyspark") is not None:  # an extra
    PUBLIC["miniqueue.spark"] = {"register"}


@pytest.mark.parametrize("package", sorted(PUBLIC))
def test_a_package_exports_exactly_this(package):
    module = importlib.import_module(package)
    assert set(getattr(module, "__all__", {"__version__"})) == PUBLIC[package]


@pytest.mark.parametrize("package", sorted(PUBLIC))
def test_what_is_exported_is_there_and_documented(package):
    module = importlib.import_module(package)
    for name in PUBLIC[package]:
        exported = getattr(module, name)
        assert isinstance(exported, str) or inspect.getdoc(exported)
