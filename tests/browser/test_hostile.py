"""Markup in whatever clients choose stays text, other sites cannot act, and rights and sessions are obeyed."""

import json
import os
import signal

import pytest

from tests.acceptance.process import FREE_PORTS, BrokerProcess
from tests.acceptance.users import PASSWORD, UsersFile
from tests.browser.browsing import LIMIT_MS, address_of, client_of, make_dead_letters, wait_until_surveyed

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = pytest.mark.acceptance
#: Each would say something if it became markup; the watch of the page fails the test if a script speaks.
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>'\"`${alert(3)}"
#: Topics and groups have neither spaces nor slashes in their names.
NAME = "<b>'\"`${alert(4)}&lt;javascript:alert(5)"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A broker with users: ann may do everything, max may look at orders.* only, pia publishes there."""
    directory = tmp_path_factory.mktemp("guarded")
    users = UsersFile(directory)
    users.add_with_password("ann", "-admin", "*")
    users.add_with_password("max", "-monitor", "orders.*")
    users.add_with_password("pia", "-publisher", "orders.*")
    flags = ["-storage", "memory", "-period", "50ms", "-users", str(users.path)]
    process = BrokerProcess([*FREE_PORTS, *flags], cwd=directory)
    try:
        process.wait_until_ready()
        with client_of(process, username="ann", password=PASSWORD) as client:
            client.execute_command("PUB", "orders.eu", "hello")
            client.execute_command("PUB", "secret", "hidden")
        wait_until_surveyed(process, "secret", "ann", PASSWORD)
        process.users = users
        yield process
        process.stop()
    finally:
        process.end()


def sign_in(page, user, password=PASSWORD):
    page.get_by_label("User").fill(user)
    page.get_by_label("Password or token").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_markup_stays_text_wherever_clients_can_write_it(page, broker):
    client = client_of(broker, client_name="<script>alert(6)</script>")
    client.execute_command("TOPIC", "CREATE", NAME, "trace", "true")
    client.execute_command("GROUP", "CREATE", NAME, NAME)
    fields = ("KEY", MARKUP, "HEADER", "<img/src=x/onerror=alert(8)>", MARKUP)
    client.execute_command("PUB", NAME, MARKUP, *fields)
    client.execute_command("PUB", NAME, json.dumps({MARKUP: [MARKUP]}), *fields)
    make_dead_letters(client, NAME, {MARKUP: 1})
    client.execute_command("SCHEDULE", "SET", NAME, "EVERY", "1h", NAME, MARKUP)
    consumer = client_of(broker, client_name="<img/src=x/onerror=alert(7)>")
    [[receipt, *_]] = consumer.execute_command("RECEIVE", NAME)
    consumer.execute_command("NACK", NAME, receipt, "REASON", MARKUP)
    page.goto("/ui/topics")
    page.get_by_role("link", name=NAME, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
    for tab in ("Messages", "Groups", "Partitions", "Consumers", "Settings", "Log"):
        page.locator(".tabs").get_by_role("link", name=tab).click()
        expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    page.locator(".tabs").get_by_role("link", name="Messages").click()
    page.locator("tbody a").first.click()
    expect(page.get_by_role("heading", name="Payload")).to_be_visible()
    expect(page.locator("dl", has_text="Deliveries")).to_contain_text(MARKUP)
    url = page.url
    page.goto(f"{url.split('/messages')[0]}/messages?state=dead")
    expect(page.get_by_role("table", name="Reasons of dead letters")).to_contain_text(MARKUP)
    for view in ("Overview", "Dead letters", "Schedules", "Consumers", "Broker"):
        page.locator(".side nav").get_by_role("link", name=view).click()
        expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    assert page.evaluate("document.querySelectorAll('img, #app script, iframe').length") == 0
    consumer.close()
    client.close()


def test_a_link_of_a_message_is_no_link(page, broker):
    with client_of(broker) as client:
        client.execute_command("PUB", "links", "javascript:alert(1)", "HEADER", "href", "javascript:alert(1)")
    page.goto("/ui/topics/links/messages/0-0")
    expect(page.get_by_role("group", name="Payload as text")).to_have_text("javascript:alert(1)")
    assert page.locator("a[href^='javascript']").count() == 0


def test_another_site_cannot_act(chromium, broker):
    context = chromium.new_context()
    context.set_default_timeout(LIMIT_MS)
    page = context.new_page()
    page.route("http://other.test/", lambda route: route.fulfill(body="<p>other</p>", content_type="text/html"))
    page.goto("http://other.test/")
    base = address_of(broker)
    reached = page.evaluate(
        """async (base) => {
          const options = {method: "POST", mode: "no-cors", body: "x", credentials: "include"};
          const sent = ["/ui/api/publish/forged", "/ui/session"].map((path) => fetch(base + path, options));
          return (await Promise.allSettled(sent)).map(({status}) => status);
        }""",
        base,
    )
    assert len(reached) == 2
    with client_of(broker) as client:
        assert "forged" not in client.execute_command("TOPICS")
    page.set_content(
        f"<form method=post action='{base}/ui/api/publish/forged'><input name=a></form><iframe src='{base}/ui/'>"
    )
    page.locator("form").evaluate("(form) => form.submit()")
    page.wait_for_url(f"{base}/**")
    assert "BADORIGIN" in page.content()
    with client_of(broker) as client:
        assert "forged" not in client.execute_command("TOPICS")
    context.close()


def test_a_wrong_password_is_refused_and_the_right_one_leads_to_where_one_was_going(open_page, guarded):
    page = open_page(address_of(guarded), "/ui/topics/orders.eu/messages")
    sign_in(page, "ann", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("the password is wrong")
    sign_in(page, "ann")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.url.endswith("/ui/topics/orders.eu/messages")
    cookies = page.context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie").find(PASSWORD) == -1
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to miniqueue")).to_be_visible()


def test_a_user_sees_and_can_press_what_the_roles_allow(open_page, guarded):
    page = open_page(address_of(guarded), "/ui/topics")
    sign_in(page, "max")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Create a topic…")).to_have_count(0)
    page.get_by_role("link", name="orders.eu").click()
    expect(page.locator(".strip")).to_be_visible()
    for act in ("Publish…", "Pause…", "More acts on the topic"):
        expect(page.get_by_role("button", name=act)).to_have_count(0)
    page.goto("/ui/topics/secret")
    expect(page.get_by_text("You may not view this")).to_be_visible()
    expect(page.locator("main")).to_contain_text("You are max: monitor of orders.*")
    page.goto("/ui/topics/orders.eu/log")
    expect(page.get_by_text("This requires the role subscriber")).to_be_visible()
    page.goto("/ui/broker")
    expect(page.locator("main")).not_to_contain_text("ann")


def test_the_overview_shows_a_user_the_topics_of_the_roles(open_page, guarded):
    """The broker sends such a user nothing of itself; the page failed on that, and stayed empty."""
    page = open_page(address_of(guarded), "/ui/")
    sign_in(page, "max")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("orders.eu")
    expect(page.locator(".strip")).to_contain_text("0 consumers")
    expect(page.get_by_text("Needs attention")).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("secret")
    for part in ("Messages per second", "Backlog"):  # the history of the whole broker
        expect(page.get_by_role("heading", name=part)).to_have_count(0)
    expect(page.get_by_label("Time range")).to_have_count(0)


def test_a_user_who_may_view_no_topics_is_told_so(open_page, guarded):
    page = open_page(address_of(guarded), "/ui/")
    sign_in(page, "pia")
    for path in ("/ui/topics", "/ui/"):
        expect(page.get_by_text("No topics that you may view")).to_be_visible()
        expect(page.locator("main")).to_contain_text("You are pia: publisher of orders.*.")
        page.goto(path)


def test_a_session_that_ends_asks_to_sign_in_and_continues_where_one_was(open_page, guarded):
    page = open_page(address_of(guarded), "/ui/topics/orders.eu")
    sign_in(page, "ann")
    expect(page.locator(".strip")).to_be_visible()
    page.context.clear_cookies()
    page.get_by_role("link", name="Settings", exact=True).click()
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    sign_in(page, "ann")
    expect(page.get_by_text("lease_seconds")).to_be_visible()
    assert page.url.endswith("/ui/topics/orders.eu/settings")


def test_the_page_of_a_user_who_is_removed_shows_nothing_more(open_page, guarded):
    guarded.users.add_with_password("eve", "-admin", "*")
    os.kill(guarded.process.pid, signal.SIGHUP)
    guarded.wait_for_line('"users":4')
    page = open_page(address_of(guarded), "/ui/topics")
    sign_in(page, "eve")
    expect(page.locator("tbody tr").first).to_be_visible()
    guarded.users.run("remove", "eve")
    os.kill(guarded.process.pid, signal.SIGHUP)
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(0)
