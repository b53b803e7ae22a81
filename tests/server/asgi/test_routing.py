import pytest

from miniqueue.server.asgi.replies import OK
from miniqueue.server.asgi.routing import Methods, finder_of_topic, message_id_of, route_below_topic


@pytest.mark.parametrize(
    ("route", "raw_path", "topic"),
    [
        ("/publish/{topic}", b"/publish/a%20b", b"a b"),
        ("/publish/{topic}", b"/publish%2Fa", b"publish/a"),
        ("/topics/{topic}", b"/topics/%ff", b"\xff"),
        ("/topics/{topic}/messages", b"/topics/a/messages", b"a"),
        ("/topics/{topic}/messages/{id}", b"/topics/%C3%A4/messages/0-1", "ä".encode()),
        ("/topics/{topic}/messages", b"/topics%2Fa%2Fmessages", b"topics/a/messages"),
        ("/topics/{topic}/messages", b"/topics/a%2Fmessages", b"a/messages"),
        ("/topics", b"/topics", b"topics"),
    ],
)
def test_the_topic_of_a_request(route, raw_path, topic):
    assert finder_of_topic(route)({"raw_path": raw_path}) == topic


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/topics/a/messages", "/topics/{topic}/messages"),
        ("/topics/a/messages/0-17", "/topics/{topic}/messages/{id}"),
        ("/topics/a/messages/0-17/x", "/topics/{topic}/messages/{id}/x"),
        ("/publish/a/b", "/publish/{topic}/b"),
    ],
)
def test_the_route_of_a_path_that_goes_on_behind_the_topic(path, route):
    assert route_below_topic(path) == route


def test_the_message_of_a_request():
    assert message_id_of({"raw_path": b"/topics/a/messages/0%2D1"}) == b"0-1"


async def test_a_path_answers_each_of_its_methods_and_names_them_to_others():
    async def ask(method):
        sent = []

        async def send(message):
            sent.append(message)

        await Methods({"PUT": OK, "GET": OK})({"method": method}, None, send)
        return sent[0]["status"], dict(sent[0]["headers"]).get(b"allow")

    assert await ask("GET") == (200, None)
    assert await ask("PUT") == (200, None)
    assert await ask("POST") == (405, b"GET, PUT")
