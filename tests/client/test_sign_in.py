"""Both clients authenticate over TLS, and report why a broker refuses them."""

import pickle

import pytest

from miniqueue_client import AsyncClient, Client, ConnectError, RefusedError
from miniqueue_client.calls.errors import UntrustedError
from tests.acceptance.users import PASSWORD, UsersFile
from tests.client.broker import RespBroker

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("users")


@pytest.fixture(scope="module")
def tokens(directory):
    users = UsersFile(directory)
    users.add_with_password("ada", "-publisher", "orders")
    return {"worker": users.add("worker", "-subscriber", "orders")}


@pytest.fixture(scope="module")
def url(directory, tokens):
    broker = RespBroker(directory, "-resp-tls", "-users", "users.toml")
    yield broker.url.replace("redis://127.0.0.1", "rediss://localhost")
    broker.end()


@pytest.fixture
def trust(url, directory):
    return {"ssl_ca_certs": str(directory / "certs" / "ca.pem")}


def test_each_does_what_its_role_lets_it(url, trust, tokens):
    with (
        Client(url, username="ada", password=PASSWORD, **trust) as ada,
        Client(url, username="worker", password=tokens["worker"], **trust) as worker,
    ):
        ada.publish("orders", "x")
        [message] = worker.receive("orders")
        assert worker.ack("orders", message) == [True]
        with pytest.raises(RefusedError) as caught:
            ada.receive("orders")
        assert caught.value.code == "NOPERM"
        assert pickle.loads(pickle.dumps(worker)).receive("orders") == []


async def test_the_user_may_stand_in_the_address(url, trust, tokens):
    address = url.replace("rediss://", f"rediss://worker:{tokens['worker']}@")
    async with AsyncClient(address, **trust) as client:
        assert await client.receive("orders") == []


def test_a_wrong_secret_is_refused_at_once_and_not_tried_again(url, trust):
    with Client(url, username="ada", password="wrong", **trust) as client, pytest.raises(RefusedError) as caught:
        client.topics()
    assert caught.value.code == "WRONGPASS"
    assert "wrong" not in str(caught.value).replace("wrong secret", "")


def test_who_says_nothing_is_refused(url, trust):
    with Client(url, **trust) as client, pytest.raises(RefusedError) as caught:
        client.topics()
    assert caught.value.code == "NOAUTH"


async def test_a_broker_whose_certificate_is_not_trusted_is_no_broker(url):
    with Client(url, retries=0) as client, pytest.raises(UntrustedError, match="certificate"):
        client.ping()
    async with AsyncClient(url, retries=0) as client:
        with pytest.raises(ConnectError, match="certificate") as caught:
            await client.ping()
        assert caught.type is UntrustedError


async def test_a_url_without_tls_for_a_port_with_tls_is_said_to_be_wrong(url):
    plain = url.replace("rediss://", "redis://")
    with Client(plain, retries=0) as client, pytest.raises(ConnectError, match=r"uses TLS, .* begin with rediss://$"):
        client.ping()
    async with AsyncClient(plain, retries=0) as client:
        with pytest.raises(ConnectError, match=r"uses TLS, the URL must begin with rediss://$"):
            await client.ping()


async def test_a_url_with_tls_for_a_port_without_tls_is_said_to_be_wrong(resp_broker):
    encrypted = resp_broker.url.replace("redis://", "rediss://")
    with (
        Client(encrypted, retries=0) as client,
        pytest.raises(ConnectError, match=r"no.* TLS, .* begin with redis://$"),
    ):
        client.ping()
    async with AsyncClient(encrypted, retries=0) as client:
        with pytest.raises(ConnectError, match=r"does not use TLS, the URL must begin with redis://$"):
            await client.ping()


async def test_a_port_on_which_nothing_listens_has_no_hint_about_tls():
    with Client("redis://127.0.0.1:1", retries=0) as client, pytest.raises(ConnectError, match=r"Connection refused$"):
        client.ping()
