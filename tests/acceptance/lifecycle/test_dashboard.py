"""The dashboard of a real broker: where it is served, how it is left, and what a stop does to open pages."""

import gzip
import json
import signal
import ssl
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from urllib.error import HTTPError

import pytest

from tests.acceptance.process import BrokerProcess
from tests.acceptance.telnet import publish
from tests.acceptance.tools import MAX_SECONDS
from tests.acceptance.users import UsersFile

pytestmark = pytest.mark.acceptance

EVERYWHERE = ("-monitor-host", "0.0.0.0")


def connect(broker: BrokerProcess, ca: str | None = None) -> HTTPConnection:
    if ca is None:
        return HTTPConnection("localhost", broker.monitor_port, timeout=MAX_SECONDS)
    context = ssl.create_default_context(cafile=ca)
    return HTTPSConnection("localhost", broker.monitor_port, timeout=MAX_SECONDS, context=context)


def next_event(stream: HTTPResponse) -> tuple[str, dict[str, object]]:
    """Return the next event of a live view: its kind, and its data."""
    kind = ""
    while line := stream.readline().decode().rstrip("\n"):
        pass  # what is left of the event before
    while not (line := stream.readline().decode()).startswith("data: "):
        assert line, "the stream has ended"
        if line.startswith("event: "):
            kind = line.removeprefix("event: ").strip()
    return kind, json.loads(line.removeprefix("data: "))


def test_a_plain_broker_serves_the_page_and_a_stop_ends_its_streams(start_broker):
    broker = start_broker("data")
    publish(broker.resp_port, "orders", "hello")
    with closing(connect(broker)) as connection, closing(connect(broker)) as looking:
        connection.request("GET", "/")
        with connection.getresponse() as reply:
            reply.read()
        assert (reply.status, reply.getheader("Location")) == (303, "/ui/")
        connection.request("GET", "/ui/", headers={"Accept-Encoding": "gzip"})
        with connection.getresponse() as reply:
            page = gzip.decompress(reply.read())
        assert b"/ui/assets/app.js" in page
        looking.request("GET", "/ui/live?view=topics")
        with looking.getresponse() as stream:
            kind, view = next_event(stream)
            assert kind == "view"
            while [row["topic"] for row in view["topics"]] != ["orders"]:  # the survey can be older than the topic
                _, view = next_event(stream)
            broker.stop()
            stream.read()  # up to its end


def test_it_can_be_switched_off(start_broker):
    broker = start_broker("data", "-dashboard=false")
    for path in ("/", "/ui/", "/ui/data/topics"):
        with pytest.raises(HTTPError, match="404"):
            broker.monitor(path)
    broker.stop()


def test_elsewhere_it_is_off_unless_it_is_asked_for(start_broker, trust, tmp_path):
    users = UsersFile(tmp_path)
    users.add("boss", "-admin", "*")
    broker = start_broker("data", "-users", str(users.path), *EVERYWHERE)
    with closing(connect(broker, trust.ca)) as connection:
        connection.request("GET", "/ui/")
        assert connection.getresponse().status == 404
    broker.stop()


def test_elsewhere_people_sign_in_over_tls_and_a_removed_user_is_shown_nothing_more(start_broker, trust, tmp_path):
    users = UsersFile(tmp_path)
    token = users.add("boss", "-admin", "*")
    broker = start_broker("data", "-users", str(users.path), *EVERYWHERE, "-dashboard")
    origin = f"https://localhost:{broker.monitor_port}"
    with closing(connect(broker, trust.ca)) as connection, closing(connect(broker, trust.ca)) as looking:

        def ask(method: str, path: str, body: str = "", **headers: str) -> HTTPResponse:
            connection.request(method, path, body, headers)
            with connection.getresponse() as reply:
                reply.read()
            return reply

        secret = json.dumps({"user": "boss", "password": token})
        assert ask("POST", "/ui/session", secret, Origin="https://evil.example").status == 403
        signed_in = ask("POST", "/ui/session", secret, Origin=origin)
        cookie, *attributes = str(signed_in.getheader("Set-Cookie")).split("; ")
        assert attributes == ["Path=/ui", "HttpOnly", "SameSite=Strict", "Secure"]
        assert ask("POST", "/ui/api/publish/orders", "hello", Origin=origin, Cookie=cookie).status == 201
        act = broker.wait_for_event("an act of the dashboard")
        assert (act["user"], act["act"], act["path"]) == ("boss", "POST", "/publish/orders")
        looking.request("GET", "/ui/live?view=overview", headers={"Cookie": cookie})
        with looking.getresponse() as stream:
            assert next_event(stream)[0] == "view"
            users.run("remove", "boss")
            broker.process.send_signal(signal.SIGHUP)
            broker.wait_for_event("users read again")
            assert b'"code":"NOAUTH"' in stream.read()
        assert ask("GET", "/ui/session", Cookie=cookie).status == 401
    broker.stop()
