"""The API of the queue under the page: as every client sees it, as the user of the session; acts are logged."""

import orjson
import pytest
import structlog.testing

from miniqueue.core.message.ids import format_message_id
from tests.server.access import sign_in_for
from tests.server.dashboard.support import dashboard


async def test_the_api_is_that_of_the_queue():
    async with dashboard() as world:
        assert (await world.act("POST", "/ui/api/publish/orders", body=b"hello")).status == 201
        messages = (await world.get("/ui/api/topics/orders/messages?state=ready&count=5")).json["messages"]
        assert [message["msg"] for message in messages] == ["aGVsbG8="]
        assert (await world.get("/ui/api/topics/nothing")).code == (404, "NOTOPIC")
        assert (await world.get("/ui/api/nothing/at/all")).code == (404, "NOTFOUND")
        assert (await world.act("DELETE", "/ui/api/topics/orders")).status == 200
        assert world.broker.topics() == []


async def test_a_path_can_be_a_parameter_for_names_that_browsers_change():
    async with dashboard() as world:
        topics = world.broker._engine.topics
        topics.by_name[b".."] = topics.topic(b"..")  # earlier versions made topics with such names
        for name in ("a/b", "%2F", "h%C3%A9", "a%3Fb"):
            await world.act("POST", f"/ui/api/publish/{name}")
        reply = await world.get("/ui/api?path=%2Ftopics%2F..%2Fmessages%3Fstate%3Dready%26count%3D3")
        assert reply.code == (404, "NOTOPIC")
        await world.publish("hé".encode(), b"x")
        for path in ("%2Ftopics%2Fh%C3%A9", "%2Ftopics%2Fh%25C3%25A9"):
            assert (await world.get("/ui/api?path=" + path)).json["topic"] == "hé"
        await world.publish(b"a?b", b"x")
        assert (await world.get("/ui/api?path=%2Ftopics%2Fa%253Fb%2Fmessages%3Fcount%3D1")).json["messages"]


@pytest.mark.parametrize("query", ["", "?path=", "?path=topics", "?what=1", "?path=%2F&path=%2F"])
async def test_a_path_that_is_missing_is_an_error(query):
    async with dashboard() as world:
        assert (await world.get("/ui/api" + query)).status == 400


async def test_command_streams_are_not_offered():
    async with dashboard() as world:
        targets = "/subscribe/orders", "/%73ubscribe/orders", "/sub%73cribe/orders", "%2fsubscribe/orders"
        queries = "%2Fsubscribe%2Forders", "%2F%2573ubscribe%2Forders"
        for target in (*("/ui/api" + path for path in targets), *("/ui/api?path=" + path for path in queries)):
            assert (await world.act("POST", target)).code == (404, "NOTFOUND")


async def test_streams_of_events_which_would_outlast_the_session_are_not_offered():
    async with dashboard(sign_in_for()) as world:
        admin = await world.sign_in_as("admin-of-all")
        for target in ("/events", "/%65vents", "/events?types=paused", "?path=%2Fevents", "?path=%2F%2565vents"):
            assert (await world.get("/ui/api" + target, admin)).code == (404, "NOTFOUND")
        await world.publish(b"events", b"x")
        assert (await world.act("DELETE", "/ui/api/events", admin)).status == 200  # a topic of this name
        assert world.broker.topics() == []


async def test_the_user_of_the_session_has_the_same_rights_as_everywhere():
    async with dashboard(sign_in_for()) as world:
        await world.publish(b"orders", b"x")
        await world.publish(b"other", b"x")
        monitor, admin = await world.sign_in_as("monitor"), await world.sign_in_as("admin")
        assert (await world.get("/ui/api/topics/orders")).code == (401, "NOAUTH")
        assert (await world.get("/ui/api/topics/orders", monitor)).status == 200
        assert (await world.get("/ui/api/topics/other", monitor)).code == (403, "NOPERM")
        assert (await world.act("POST", "/ui/api/topics/orders/purge", monitor)).code == (403, "NOPERM")
        assert (await world.act("POST", "/ui/api/topics/orders/purge", admin)).json == {"removed": 1}
        listed = (await world.get("/ui/api/topics", monitor)).json["topics"]
        assert [each["topic"] for each in listed] == ["orders"]


async def test_acts_are_logged_with_the_name_of_the_user():
    async with dashboard(sign_in_for()) as world:
        await world.publish(b"orders", b"x")
        admin, monitor = await world.sign_in_as("admin"), await world.sign_in_as("monitor")
        with structlog.testing.capture_logs() as logged:
            await world.get("/ui/api/topics/orders", admin)
            await world.act("POST", "/ui/api/topics/orders/purge?state=ready", monitor)
            await world.act("POST", "/ui/api/topics/orders/purge?state=ready", admin)
        assert logged == [
            {
                "event": "an act of the dashboard",
                "log_level": "info",
                "user": "admin",
                "client": "127.0.0.1",
                "act": "POST",
                "path": "/topics/orders/purge",
                "query": "state=ready",
                "status": 200,
            }
        ]


async def test_an_act_by_id_is_done_for_the_page():
    async with dashboard() as world:
        published = world.broker.publish(b"orders", [b"x"])
        await published.commit.wait()
        message_id = format_message_id(published.partition, published.first_seq).decode()
        assert (await world.act("DELETE", f"/ui/api/topics/orders/messages/{message_id}")).status == 200
        assert orjson.loads((await world.get("/ui/api/topics/orders")).body)["ready"] == 0
