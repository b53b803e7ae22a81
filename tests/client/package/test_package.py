"""The package of the client: what its import loads, its former name, and what an extra adds."""

import importlib
import logging
import subprocess
import sys

import pytest

import miniqueue
import miniqueue.client
import miniqueue.errors
import miniqueue_client
import miniqueue_client.errors

#: What a program of an earlier version may have imported, each in a process of its own.
FORMER_IMPORTS = {
    "from miniqueue.client import Client, Worker, message_calls": "Client.__module__",
    "import miniqueue.client.calls.messages as calls": "calls.publish.__module__",
    "from miniqueue.client.calls import messages": "messages.publish.__module__",
    "from miniqueue.errors import ClientError": "ClientError.__module__",
}


def output_of(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def loaded_after(statement: str) -> set[str]:
    return set(output_of(f"import sys; {statement}; print(*sys.modules)").split())


def test_the_import_loads_neither_redis_py_nor_anything_of_its_own():
    loaded = loaded_after("import miniqueue_client")
    assert {name for name in loaded if name.startswith("miniqueue")} == {"miniqueue_client"}
    assert not loaded & {"redis", "h2", "asyncio", "orjson"}


def test_a_name_loads_what_it_needs_only():
    loaded = loaded_after("from miniqueue_client import Message, ConnectError, Selection")
    assert not loaded & {"redis", "h2", "asyncio", "miniqueue"}
    assert not loaded_after("from miniqueue_client import connect") & {"redis", "miniqueue"}
    assert not loaded_after("from miniqueue_client import Client") & {"h2", "miniqueue"}


def test_a_broker_loads_only_the_errors_of_the_client():
    loaded = loaded_after("import miniqueue.cli, miniqueue.server.run")
    of_client = {name for name in loaded if name.startswith("miniqueue_client")}
    assert of_client == {"miniqueue_client", "miniqueue_client.errors"}
    assert not loaded & {"redis", "miniqueue.client"}


def test_both_distributions_have_the_same_version():
    assert miniqueue_client.__version__ == miniqueue.__version__


@pytest.mark.parametrize("name", ["ClientError", "ConfigError", "ConnectError", "MiniqueueError", "RequestError"])
def test_an_error_of_the_client_is_that_of_the_broker(name):
    assert getattr(miniqueue.errors, name) is getattr(miniqueue_client.errors, name)


def test_the_former_name_offers_the_same_objects():
    assert miniqueue.client.__all__ == miniqueue_client.__all__
    for name in miniqueue_client.__all__:
        assert getattr(miniqueue.client, name) is getattr(miniqueue_client, name)
    with pytest.raises(AttributeError):
        _ = miniqueue.client.Nothing


@pytest.mark.parametrize("statement", FORMER_IMPORTS)
def test_a_former_import_works(statement):
    assert output_of(f"{statement}; print({FORMER_IMPORTS[statement]})").startswith("miniqueue_client.")


def test_what_is_set_for_the_former_log_applies_under_the_former_name(caplog):
    former = logging.getLogger("miniqueue.client")
    former.setLevel(logging.ERROR)
    try:
        assert not logging.getLogger("miniqueue_client").isEnabledFor(logging.WARNING)
    finally:
        former.setLevel(logging.NOTSET)
    logging.getLogger("miniqueue_client").warning("a message failed")
    assert "a message failed" in caplog.text


def test_without_h2_it_is_said_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "h2"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("client", "connection"):
        monkeypatch.delitem(sys.modules, f"miniqueue_client.http2.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "h2", None)
    with pytest.raises(ImportError, match=r"connect needs h2: pip install 'miniqueue-client\[http2\]'"):
        miniqueue_client.__getattr__("connect")
    with pytest.raises(AttributeError):
        miniqueue_client.__getattr__("Nothing")


@pytest.mark.parametrize("name", miniqueue_client.__all__)
def test_a_name_is_where_the_table_says(name):
    exported = getattr(miniqueue_client, name)
    assert getattr(importlib.import_module(exported.__module__), name) is exported
