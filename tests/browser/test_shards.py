"""The page of a broker with shards shows all of them, and goes on while one is away."""

import os
import signal
from collections.abc import Iterator

import pytest

from tests.acceptance.shards.conftest import SHARDS, ShardedBroker, topic_in
from tests.acceptance.users import PASSWORD, UsersFile
from tests.browser.browsing import address_of, client_of

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = pytest.mark.acceptance

TOPICS = [topic_in(shard, "page-") for shard in range(SHARDS)]


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    directory = tmp_path_factory.mktemp("sharded")
    users = UsersFile(directory)
    users.add_with_password("ann", "-admin", "*")
    broker = ShardedBroker(directory, "-users", str(users.path))
    try:
        broker.wait_until_ready()
        with client_of(broker, username="ann", password=PASSWORD) as client:
            for topic in TOPICS:
                client.publish(topic, "hello")
        yield broker
        broker.stop()
    finally:
        broker.end()


def sign_in(page):
    page.get_by_label("User").fill("ann")
    page.get_by_label("Password or token").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_all_shards_are_on_one_page_and_one_that_is_killed_comes_back(open_page, sharded):
    page = open_page(address_of(sharded), "/ui/topics")
    sign_in(page)
    for topic in TOPICS:
        expect(page.get_by_role("link", name=topic)).to_be_visible()
    killed = SHARDS - 1
    with sharded.stopped(killed):
        # A browser of its own: its connections are to processes that accept some.
        other = open_page(address_of(sharded), "/ui/broker")
        sign_in(other)
        states = other.get_by_role("table", name="Shards of the broker").locator(".pill")
        expect(states).to_have_text([*["Ready"] * killed, "Does not answer"])
        other.goto("/ui/")
        expect(other.get_by_text(f"shard {killed} does not answer")).to_be_visible()
        os.kill(sharded.shard(killed), signal.SIGKILL)
    other.goto("/ui/broker")
    expect(states).to_have_text(["Ready"] * SHARDS)
    other.goto(f"/ui/topics/{TOPICS[killed]}")
    expect(other.locator(".strip .v").first).to_have_text("1")


def test_an_act_reaches_the_shard_of_the_topic(open_page, sharded):
    page = open_page(address_of(sharded), "/ui/")
    sign_in(page)
    for topic in TOPICS:
        page.goto(f"/ui/topics/{topic}")
        page.get_by_role("button", name="Pause…").click()
        page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        with client_of(sharded, username="ann", password=PASSWORD) as client:
            assert client.execute_command("TOPIC", "GET", topic)["paused_out_until_ms"]
            client.execute_command("RESUME", topic)
