"""Live views: what is sent, when nothing is, who shares the work, and what bounds it."""

import asyncio

import pytest

from miniqueue.access.users import Users
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.server.dashboard import live
from miniqueue.server.dashboard.live import TOTALS_SECONDS
from miniqueue.server.dashboard.sessions import IDLE_SECONDS
from tests.fakes import settle_down
from tests.server.access import EVERYBODY, sign_in_for, token_of, user
from tests.server.dashboard.support import dashboard


async def test_the_first_events_come_at_once():
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        tab = await world.look("topics")
        assert tab.reply.headers[b"content-type"] == b"text/event-stream"
        (kind, view), (other, totals) = tab.take()
        assert (kind, other) == ("view", "totals")
        assert [row["topic"] for row in view["topics"]] == ["orders"]
        assert view["nowMs"] == totals["nowMs"] == world.clock.now_ms()
        assert (totals["topics"], totals["ready"], totals["dead"], totals["refused"]) == (1, 1, 0, None)
        assert view == await world.data("topics") | {"nowMs": view["nowMs"], "sortedAtMs": view["sortedAtMs"]}
        await tab.close()


async def test_what_has_not_changed_is_not_sent():
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        tab = await world.look("topics")
        tab.take()
        await world.refresh()
        assert tab.take() == []
        await world.publish(b"orders", b"y")
        await world.refresh()
        assert [(kind, told.get("ready")) for kind, told in tab.take()] == [("view", None), ("totals", 2)]
        await tab.close()


async def test_the_totals_show_that_the_broker_lives():
    async with dashboard() as world:
        tab = await world.look("")
        assert [kind for kind, _ in tab.take()] == ["totals"]
        await world.refresh(TOTALS_SECONDS - 1)
        assert tab.take() == []
        await world.refresh(1)
        assert [kind for kind, _ in tab.take()] == ["totals"]
        await tab.close()


async def test_rows_keep_their_order_while_a_view_is_open():
    async with dashboard() as world:
        await world.publish(b"a", *[b"x"] * 3)
        await world.publish(b"b", b"x")
        tab = await world.look("topics%3Fsort%3D-ready")
        tab.take()
        await world.publish(b"b", *[b"x"] * 9)
        await world.publish(b"new", *[b"x"] * 20)
        await world.broker.delete_topic(b"a")
        await world.refresh()
        view = dict(tab.take())["view"]
        assert [(row["topic"], row["ready"]) for row in view["topics"]] == [("b", 10), ("new", 20)]
        again = await world.look("topics%3Fsort%3D-ready%26sorted%3D2")
        assert [row["topic"] for row in dict(again.take())["view"]["topics"]] == ["new", "b"]
        await tab.close()
        await again.close()


async def test_a_list_that_was_opened_before_its_topics_existed_shows_them():
    async with dashboard() as world:
        tab = await world.look("topics")
        assert dict(tab.take())["view"]["topics"] == []
        await world.publish(b"orders", b"x")
        await world.refresh()
        assert [row["topic"] for row in dict(tab.take())["view"]["topics"]] == ["orders"]
        await tab.close()


async def test_a_full_page_gets_a_new_topic_when_one_of_its_own_is_deleted():
    async with dashboard() as world:
        for name in (b"a", b"b", b"c"):
            await world.publish(name, b"x")
        first, second = [await world.look(f"topics%3Fsort%3Dtopic%26count%3D2%26page%3D{page}") for page in (1, 2)]
        await world.publish(b"aa", b"x")
        await world.refresh()
        names = [[row["topic"] for row in dict(tab.take())["view"]["topics"]] for tab in (first, second)]
        assert names == [["a", "b"], ["c"]]
        await world.broker.delete_topic(b"b")
        await world.refresh()
        assert [row["topic"] for row in dict(first.take())["view"]["topics"]] == ["a", "aa"]
        await first.close()
        await second.close()


async def test_viewers_of_equal_views_share_what_is_made(monkeypatch):
    async with dashboard(sign_in_for()) as world:
        cookies = [await world.sign_in_as(name) for name in ("admin-of-all", "admin-of-all", "monitor-of-all")]
        tabs = [await world.look("overview", cookie) for cookie in cookies]
        assert len(world.app.live._channels) == 2  # these users have two sets of rights
        assert [kind for kind, _ in tabs[1].take()] == ["view", "totals"]  # what was made for the first one
        for tab in tabs:
            await tab.close()
        assert world.app.live._channels == {}


async def test_users_with_equal_roles_for_parts_see_views_of_their_own():
    async with dashboard(sign_in_for(user("ada", monitor=("orders",)), user("bob", monitor=("orders",)))) as world:
        tabs = [await world.look("overview", await world.sign_in_as(name)) for name in ("ada", "bob")]
        assert len(world.app.live._channels) == 2
        for tab in tabs:
            await tab.close()


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        ("nothing", (404, "NOTFOUND")),
        ("topics%3Fwhat%3D1", (400, "ERR")),
        ("topics%3Fsort%3Dwhat", (400, "ERR")),
        ("messages%3Ftopic%3Dorders%26contains%3D" + "x" * live.MAX_VIEW_BYTES, (400, "ERR")),
        ("topic", (400, "ERR")),
    ],
)
async def test_a_view_that_cannot_be_is_an_error(view, expected):
    async with dashboard() as world:
        assert (await world.get("/ui/live?view=" + view)).code == expected
        assert world.app.live.viewer_count == 0


async def test_a_view_without_the_right_is_an_error():
    async with dashboard(sign_in_for()) as world:
        cookie = await world.sign_in_as("monitor")
        assert (await world.get("/ui/live?view=topic%3Ftopic%3Dother", cookie)).code == (403, "NOPERM")


async def test_a_view_that_becomes_impossible_says_so_and_comes_back():
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        tab = await world.look("topic%3Ftopic%3Dorders")
        assert [kind for kind, _ in tab.take()] == ["view", "totals"]
        await world.broker.delete_topic(b"orders")
        await world.refresh()
        events = dict(tab.take())
        assert (events["error"]["code"], events["error"]["status"]) == ("NOTOPIC", 404)
        await world.refresh()
        assert tab.take() == []
        await world.publish(b"orders", b"x")
        await world.refresh()
        assert "view" in dict(tab.take())
        await tab.close()


async def test_the_stream_of_a_user_who_is_removed_ends():
    async with dashboard(sign_in_for()) as world:
        tab = await world.look("overview", await world.sign_in_as("monitor"))
        tab.take()
        world.sign_in.replace(Users([each for each in EVERYBODY if each.name != "monitor"]))
        await world.refresh()
        assert [(kind, told["code"]) for kind, told in tab.take() if kind == "error"] == [("error", "NOAUTH")]
        assert tab.reply.is_complete
        await tab.task


async def test_signing_out_ends_the_streams_of_all_tabs():
    async with dashboard(sign_in_for()) as world:
        cookie, other = await world.sign_in_as("monitor"), await world.sign_in_as("monitor")
        tabs = [await world.look("overview", each) for each in (cookie, cookie, other)]
        await world.refresh()
        await world.act("DELETE", "/ui/session", cookie)
        for tab in tabs:
            tab.take()
        await world.refresh()
        codes = [[told["code"] for kind, told in tab.take() if kind == "error"] for tab in tabs]
        assert codes == [["NOAUTH"], ["NOAUTH"], []]
        assert [tab.reply.is_complete for tab in tabs] == [True, True, False]
        await tabs[2].close()


async def test_an_open_page_keeps_its_session():
    async with dashboard(sign_in_for()) as world:
        cookie, idle = await world.sign_in_as("monitor"), await world.sign_in_as("monitor")
        tab = await world.look("overview", cookie)
        for _ in range(3):
            await world.refresh(IDLE_SECONDS / 2)
        assert (await world.get("/ui/session", cookie)).status == 200
        assert (await world.get("/ui/session", idle)).code == (401, "NOAUTH")
        await tab.close()


async def test_the_stream_of_an_authorization_header_needs_no_session():
    async with dashboard(sign_in_for()) as world:
        tab = await world.look("overview", (b"authorization", b"Bearer " + token_of("monitor")))
        tab.take()
        await world.refresh()
        assert not tab.reply.is_complete
        world.sign_in.replace(Users([each for each in EVERYBODY if each.name != "monitor"]))
        await world.refresh()
        assert [(kind, told["code"]) for kind, told in tab.take() if kind == "error"] == [("error", "NOAUTH")]
        await tab.task


async def test_a_viewer_that_does_not_read_holds_one_event_of_each_kind():
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        tab, other = await world.look("topics"), await world.look("topics")
        tab.may_read.clear()
        before = world.broker.memory.amounts().get(Purpose.OUTPUT, 0)
        for _ in range(50):
            await world.publish(b"orders", b"x")
            await world.refresh()
        held = world.broker.memory.amounts()[Purpose.OUTPUT] - before
        assert 0 < held < 3000
        assert len(other.take()) == 2 * 51
        tab.take()
        tab.may_read.set()
        await settle_down()
        ready = [told["ready"] for kind, told in tab.take() if kind == "totals"]
        assert ready == [2, 51]  # the one that was being sent, and the last one
        await tab.close()
        await other.close()
        assert world.broker.memory.amounts().get(Purpose.OUTPUT, 0) == 0


async def test_what_is_kept_of_a_view_is_charged_once_to_the_user_who_opened_it():
    async with dashboard(sign_in_for()) as world:
        for number in range(20):
            await world.publish(b"topic-%d" % number, b"x")
        cookie, memory = await world.sign_in_as("monitor-of-all"), world.broker.memory
        tabs = [await world.look("topics", cookie) for _ in range(2)]
        sent_bytes = len(tabs[0].reply.body)
        kept_bytes = memory.users["monitor-of-all"].amounts()[Purpose.OUTPUT]
        assert 0.9 * sent_bytes < kept_bytes - live.KEPT_BYTES < sent_bytes > 20 * 100
        await world.broker.delete_topic(b"topic-0")
        await world.refresh()
        assert memory.users["monitor-of-all"].amounts()[Purpose.OUTPUT] < kept_bytes
        await tabs[0].close()
        assert memory.users["monitor-of-all"].amounts()[Purpose.OUTPUT] > 0
        await tabs[1].close()
        assert memory.amounts().get(Purpose.OUTPUT, 0) == 0


async def test_the_names_on_a_page_are_charged_even_after_their_topics_were_deleted():
    async with dashboard() as world:
        names = [b"%d" % number * 100 for number in range(20, 90)]
        for name in names:
            await world.publish(name, b"x")
        tab = await world.look("topics%3Fcount%3D100")
        for name in names:
            await world.broker.delete_topic(name)
        await world.refresh()
        assert dict(tab.take())["view"]["topics"] == []
        assert world.broker.memory.amounts()[Purpose.OUTPUT] > sum(map(len, names))
        await tab.close()
        assert world.broker.memory.amounts().get(Purpose.OUTPUT, 0) == 0


async def test_a_view_that_is_left_while_it_is_made_is_charged_to_no_account():
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        tab = await world.look("topics")
        refreshing = asyncio.create_task(world.app.live.refresh())
        await asyncio.sleep(0)
        assert not refreshing.done()
        await tab.close()
        await refreshing
        assert world.broker.memory.amounts().get(Purpose.OUTPUT, 0) == 0


async def test_what_was_offered_to_a_stream_that_never_began_is_given_back(monkeypatch):
    async with dashboard() as world:

        async def fail():
            raise ZeroDivisionError

        monkeypatch.setattr(world.app.live, "_open", lambda *_: fail)
        with pytest.raises(ZeroDivisionError):
            await world.get("/ui/live?view=topics")
        assert world.broker.memory.amounts().get(Purpose.OUTPUT, 0) == 0
        assert world.app.live.viewer_count == 0


async def test_a_viewer_that_accepts_nothing_for_long_is_dropped(monkeypatch):
    monkeypatch.setattr(live, "SEND_SECONDS", 0)
    async with dashboard() as world:
        tab = await world.look("topics")
        tab.may_read.clear()
        await world.publish(b"orders", b"x")
        await world.refresh()
        async with asyncio.timeout(60):
            await tab.task
        assert world.app.live.viewer_count == 0
        assert world.broker.memory.amounts().get(Purpose.OUTPUT, 0) == 0


async def test_a_hundred_viewers_that_do_not_read_cost_a_bounded_amount_and_there_are_no_more():
    async with dashboard() as world:
        for number in range(200):
            await world.publish(b"topic-%d" % number, b"x")
        tabs = [await world.look("topics%3Fcount%3D100") for _ in range(live.MAX_VIEWERS)]
        for tab in tabs:
            tab.may_read.clear()
        for _ in range(20):
            await world.publish(b"topic-0", b"x")
            await world.refresh()
        assert (await world.get("/ui/live?view=topics")).code == (507, "LIMIT")
        event_bytes = 100 * 400
        assert world.broker.memory.amounts()[Purpose.OUTPUT] < 100 * 2 * event_bytes
        for tab in tabs:
            tab.may_read.set()
            await tab.close()
        assert world.broker.memory.amounts().get(Purpose.OUTPUT, 0) == 0


async def test_a_user_may_have_a_limited_number_of_pages(monkeypatch):
    monkeypatch.setattr(live, "MAX_VIEWERS_OF_USER", 2)
    async with dashboard(sign_in_for()) as world:
        monitor, admin = await world.sign_in_as("monitor"), await world.sign_in_as("admin")
        tabs = [await world.look("topics", monitor) for _ in range(2)]
        assert (await world.get("/ui/live?view=topics", monitor)).code == (507, "LIMIT")
        tabs.append(await world.look("topics", admin))
        assert tabs[-1].reply.status == 200
        for tab in tabs:
            await tab.close()


async def test_nothing_is_made_when_nobody_looks():
    async with dashboard() as world:
        tab = await world.look("overview")
        await tab.close()
        ticking = world.app.live._ticking
        assert world.app.live.viewer_count == 0
        async with asyncio.timeout(60):
            await ticking  # it ends by itself


async def test_a_stop_ends_all_streams_and_accepts_no_more():
    async with dashboard() as world:
        tab = await world.look("overview")
        world.app.drain()
        await tab.task
        assert tab.reply.is_complete
        assert (await world.get("/ui/live?view=overview")).code[0] == 503


async def test_a_bug_in_a_view_ends_its_streams_and_no_others(monkeypatch):
    async with dashboard() as world:
        tab, other = await world.look("overview"), await world.look("topics")
        channel = next(each for each in world.app.live._channels.values() if each.view == b"overview")

        async def fail(*_):
            raise ZeroDivisionError

        monkeypatch.setattr(channel, "refresh", fail)
        await world.refresh()
        await tab.task
        assert not other.task.done()
        await other.close()
