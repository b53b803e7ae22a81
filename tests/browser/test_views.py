"""Each view of the page shows what is in a real broker, and its state is in the URL."""

import json
import re

import pytest

from tests.browser.browsing import address_of, client_of, make_dead_letters, wait_until_surveyed

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = pytest.mark.acceptance
#: Names that break paths, selectors, or lines; and one that is as long as a name can be.
HARD_NAMES = ["?", "#", "%", "%2e", "a&b=c", "<b>bold", "مرحبا", "n" * 255, "'\"", "…"]


@pytest.fixture(scope="module")
def client(broker):
    client = client_of(broker)
    yield client
    client.close()


@pytest.fixture(scope="module", autouse=True)
def _topics(broker, client):
    execute = client.execute_command
    execute("TOPIC", "CREATE", "orders", "partitions", 2, "max_deliveries", 2, "trace", "true")
    for number in range(5):
        payload = json.dumps({"order": number, "ledger": 248480010225057793, "items": [{"sku": "LP"}]})
        execute("PUB", "orders", payload, "KEY", f"A-{number}", "HEADER", "source", "checkout")
    execute("PUB", "orders", "later", "DELAY", 600)
    execute("PUB", "binary", bytes(range(256)))
    make_dead_letters(client, "mails", {"no such address": 3, "<i>mailbox</i> full": 1})
    execute("SCHEDULE", "SET", "nightly", "CRON", "0 3 * * *", "TZ", "Europe/Berlin", "reports", "run")
    for number in range(1000):
        execute("PUB", f"tenant.{number:04}", "x")
    for name in HARD_NAMES:
        execute("PUB", name, f"hello from {name[:10]}")
    execute("TOPIC", "CREATE", "newest")
    wait_until_surveyed(broker, "newest")


def test_the_overview_says_what_needs_attention_and_how_much_there_is(page):
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    expect(page.get_by_role("link", name="mails").first).to_be_visible()
    expect(page.get_by_role("heading", name="Messages per second")).to_be_visible()
    expect(page).to_have_title("Overview · " + page.locator(".brand small").inner_text() + " · miniqueue")
    page.get_by_label("Time range").select_option("1h")
    expect(page).to_have_url(f"{page.url.split('/ui/')[0]}/ui/?range=1h")
    page.go_back()
    expect(page.get_by_label("Time range")).to_have_value("15m")


def test_a_thousand_topics_are_filtered_sorted_and_paged_by_the_broker(page):
    page.get_by_role("link", name="Topics", exact=False).first.click()
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Topic", exact=True).click()
    page.get_by_label("Filter by name").fill("tenant.0")
    expect(page.locator("tbody tr").first).to_contain_text("tenant.0000")
    expect(page.locator(".pager")).to_contain_text("1–50 of 1,000")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("tbody tr").first).to_contain_text("tenant.0050")
    assert "page=2" in page.url
    page.reload()
    expect(page.locator("tbody tr").first).to_contain_text("tenant.0050")
    page.get_by_label("Filter by name").fill("nothing like this")
    expect(page.get_by_text("No topic matches")).to_be_visible()


def test_a_topic_shows_its_figures_groups_and_changed_settings(page):
    page.goto("/ui/topics/orders")
    expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()
    expect(page.locator(".strip")).to_contain_text("Delayed1")
    expect(page.get_by_role("table", name="Groups")).to_contain_text("default")
    expect(page.locator("dl", has_text="max_deliveries")).to_contain_text("trace")
    for tab, text in {"Partitions": "End", "Consumers": "No consumer", "Settings": "lease_seconds"}.items():
        page.get_by_role("link", name=tab, exact=True).last.click()
        expect(page.locator("main")).to_contain_text(text)
    page.get_by_role("link", name="Groups", exact=True).click()
    page.get_by_role("link", name="default", exact=True).click()
    expect(page.get_by_role("heading", name="Group default")).to_be_visible()


def test_a_message_is_shown_as_json_with_its_own_numbers_as_text_and_in_hex(page, broker):
    page.goto("/ui/topics/orders/messages")
    expect(page.locator("tbody tr")).to_have_count(5)
    page.locator("tbody tr", has_text="A-0").get_by_role("link").click()
    expect(page.get_by_role("group", name="Payload as JSON")).to_contain_text('"ledger": 248480010225057793')
    page.get_by_text("Hex", exact=True).click()
    expect(page.get_by_role("group", name="Payload in hex")).to_contain_text("7b 22 6f 72 64 65 72 22")
    assert page.url.endswith("as=hex")
    expect(page.locator("main")).to_contain_text("checkout")
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    expect(page.locator(".time")).to_contain_text("Published to orders")
    commands = page.get_by_role("group", name="Commands")
    expect(commands).to_contain_text(f"redis-cli -p {broker.resp_port} TRACE orders")
    expect(commands).to_contain_text(re.compile(rf"trace orders \S+ --url redis://localhost:{broker.resp_port}\n"))


def test_bytes_that_are_not_text_are_shown_in_hex(page):
    page.goto("/ui/topics/binary/messages/0-0")
    expect(page.get_by_role("group", name="Payload in hex")).to_contain_text("f0 f1 f2 f3 f4 f5 f6 f7")
    expect(page.get_by_text("256 bytes, binary")).to_be_visible()


def test_dead_letters_are_shown_by_topic_and_by_reason(page):
    page.goto("/ui/dead")
    page.get_by_role("link", name="mails", exact=True).click()
    reasons = page.get_by_role("table", name="Reasons of dead letters")
    expect(reasons.locator("tbody tr")).to_have_count(2)
    reasons.get_by_role("link", name="“no such address”").click()
    expect(page.get_by_role("table", name="Dead letters messages").locator("tbody tr")).to_have_count(3)
    assert "reason=no+such+address" in page.url


def test_a_dead_letter_without_a_trace_names_the_topic_to_trace(page):
    page.goto("/ui/topics/mails/messages?state=dead")
    page.locator("tbody th.m a").first.click()
    history = page.get_by_role("region", name="History")
    expect(history).to_contain_text("From mails: “no such address”.")
    expect(history).to_contain_text("mails records no further history")
    expect(history.get_by_role("button", name="Switch on the trace…")).to_be_visible()


def test_a_topic_of_dead_letters_leads_to_the_topic_that_they_came_from(page):
    page.goto("/ui/topics/mails.dlq")
    note = page.get_by_text("This topic receives dead letters.")
    expect(note).to_have_text(
        "This topic receives dead letters. Those of mails are also shown there, by reason.", use_inner_text=True
    )
    note.get_by_role("link", name="there, by reason").click()
    expect(page.get_by_role("heading", name="Why they are dead letters")).to_be_visible()


def test_the_log_is_read_from_an_offset(page):
    page.goto("/ui/topics/orders/log?partition=0")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.get_by_label("Begin at").fill("tomorrow")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_text("invalid start")).to_be_visible()
    page.get_by_label("Begin at").fill("1")
    page.get_by_role("button", name="Go").click()
    expect(page.locator("tbody tr").first).to_contain_text("0-1")


def test_schedules_connections_and_the_broker(page):
    page.get_by_role("link", name="Schedules").first.click()
    expect(page.get_by_role("table", name="Schedules")).to_contain_text("0 3 * * * Europe/Berlin")
    page.get_by_role("link", name="Consumers").first.click()
    expect(page.get_by_role("table", name="Connections")).to_contain_text("127.0.0.1")
    page.get_by_role("link", name="Broker").first.click()
    expect(page.get_by_role("table", name="Limits of the broker")).to_contain_text("topics")
    expect(page.get_by_role("heading", name="Memory")).to_be_visible()


@pytest.mark.parametrize("name", HARD_NAMES, ids=lambda name: f"{name[:6]}…{len(name)}")
def test_every_name_has_a_page_that_can_be_reached_and_reloaded(page, name):
    page.goto("/ui/topics?sort=topic")
    page.get_by_label("Find a topic").fill(name)
    page.get_by_role("option", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_role("link", name="Messages", exact=True).click()
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody a").click()
    expect(page.get_by_role("group", name="Payload as text")).to_have_text(f"hello from {name[:10]}")


def test_messages_are_paged_in_both_directions(page, client):
    client.execute_command("MPUBLISH", "pages", *(f"message {number}" for number in range(120)))
    page.goto("/ui/topics/pages/messages")
    rows = page.locator("tbody tr")
    for first in (50, 100):
        page.get_by_role("button", name="Next").click()
        expect(rows.first).to_contain_text(f"message {first}")
    page.get_by_role("button", name="Previous").click()
    expect(rows.first).to_contain_text("message 50")
    page.get_by_label("The payload contains").fill("message 7")
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(11)
    page.get_by_role("link", name="All messages").click()
    expect(rows).to_have_count(50)


def test_a_message_leads_to_its_neighbors_in_the_list_also_beyond_the_page(page, client):
    client.execute_command("MPUBLISH", "neighbors", *(f"message {number}" for number in range(53)))
    page.goto("/ui/topics/neighbors/messages")
    page.get_by_role("link", name="0-49", exact=True).click()
    payload = page.get_by_role("group", name="Payload as text")
    following, previous = (page.get_by_role("button", name=f"{word} message") for word in ("Next", "Previous"))
    for button, shown in ((following, 50), (following, 51), (previous, 50), (previous, 49), (previous, 48)):
        button.click()
        expect(payload).to_have_text(f"message {shown}")
    page.reload()
    expect(following).to_be_enabled()  # its list has been read again
    page.keyboard.press("]")
    expect(payload).to_have_text("message 49")
    client.execute_command("PURGE", "neighbors")
    following.click()
    expect(page.get_by_text("The message does not wait in this topic")).to_be_visible()
    page.keyboard.press("u")
    expect(page).to_have_url(re.compile(r"/ui/topics/neighbors/messages\?after="))


def test_a_topic_that_does_not_exist_is_no_error(page):
    page.goto("/ui/topics/nothing-here")
    expect(page.get_by_text("There is no topic nothing-here")).to_be_visible()


def test_figures_are_live_until_they_are_frozen(page, client):
    page.goto("/ui/topics/live")
    client.execute_command("PUB", "live", "one")
    page.goto("/ui/topics/live")
    ready = page.locator(".strip .v").first
    expect(ready).to_have_text("1")
    client.execute_command("PUB", "live", "two")
    expect(ready).to_have_text("2")
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "false")
    client.execute_command("PUB", "live", "three")
    page.get_by_role("button", name="Live").click()
    expect(ready).to_have_text("3")


def test_the_oldest_message_of_all_leads_to_its_topic(page, client):
    page.goto("/ui/")
    oldest = page.locator(".strip .linked a").last
    expect(oldest).to_contain_text("oldest")
    topic = oldest.locator("bdi").inner_text()
    oldest.click()
    expect(page.get_by_role("heading", name=topic, exact=True, level=1)).to_be_visible()


def test_a_large_count_is_also_shown_exactly(page):
    shown = page.evaluate(
        """async () => {
          const { html, render } = await import("/ui/assets/lib/ui.js");
          const { Strip } = await import("/ui/assets/parts/strip.js");
          const place = document.createElement("div");
          render(html`<${Strip} label="x" tiles=${[{ label: "Ready", count: 12345678, fact: "wait" }]} />`, place);
          return place.textContent;
        }"""
    )
    assert shown == "Ready12.3 M12,345,678wait"


def test_a_clock_that_differs_is_named(page):
    assert page.get_by_text("The clock of this browser").count() == 0
    page.add_init_script("const { now } = Date; Date.now = () => now() - 185_000")
    page.reload()
    expect(page.get_by_text("The clock of this browser is 3 min")).to_contain_text("behind that of the broker")


def test_keys_lead_to_views_rows_and_tabs(page):
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Find a topic")).to_be_focused()
    page.keyboard.type("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders", level=1)).to_be_focused()
    page.keyboard.press("2")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Payload")).to_be_visible()
    page.keyboard.press("u")
    expect(page).to_have_url(f"{page.url.split('/ui/')[0]}/ui/topics/orders/messages")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("None of them acts on messages")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_on_a_phone_nothing_scrolls_sideways(open_page, broker):
    page = open_page(address_of(broker), viewport={"width": 320, "height": 700})
    for path in (
        "/ui/",
        "/ui/topics?q=n",
        "/ui/topics/orders",
        "/ui/topics/orders/messages",
        "/ui/topics/orders/settings",
        "/ui/dead",
        "/ui/schedules",
        "/ui/consumers",
        "/ui/broker",
        f"/ui/topics/{'n' * 255}",
    ):
        page.goto(path)
        expect(page.locator("main .card").first).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert (path, width) == (path, 0)
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("dialog").get_by_role("link", name="Schedules").click()
    expect(page.get_by_role("heading", name="Schedules", level=1)).to_be_visible()
