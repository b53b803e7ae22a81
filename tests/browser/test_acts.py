"""Each act of the page changes a real broker, asks first, and says what happened."""

import json
import re

import pytest

from tests.browser.browsing import choose, client_of, make_dead_letters

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def client(broker):
    client = client_of(broker)
    yield client
    client.close()


@pytest.fixture
def topic(request):
    return request.node.name.removeprefix("test_").replace("_", "-")[:40]


def count(client, topic, state):
    return client.execute_command("STATS", topic)[state]


def setting(client, topic, name):
    return client.execute_command("TOPIC", "GET", topic)[name]


def confirm(page, verb, typed=None):
    dialog = page.get_by_role("dialog")
    if typed is not None:
        expect(dialog.get_by_role("button", name=verb)).to_be_disabled()
        dialog.get_by_label("Type the name").fill(typed)
    dialog.get_by_role("button", name=verb).click()


def show_dead_letters(page, topic, number):
    """Show the dead letters of a topic, and wait until all are counted: figures are up to a second old."""
    page.goto(f"/ui/topics/{topic}/messages?state=dead")
    expect(number_of_dead_letters(page)).to_have_text(str(number))


def number_of_dead_letters(page):
    """Find the number of dead letters of the topic; the sidebar has another one, of all topics."""
    states = page.get_by_role("group", name="State of the messages")
    return states.get_by_role("link", name=re.compile("Dead letters")).locator(".n")


def said(page):
    return page.locator(".toast").last


def test_publish(page, client, topic):
    client.execute_command("TOPIC", "CREATE", topic)
    page.goto(f"/ui/topics/{topic}")
    page.get_by_role("button", name="Publish…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Payload", exact=True).fill('{"a": "é"}')
    dialog.get_by_label("Key").fill("k1")
    dialog.get_by_role("button", name="Delay, expiry").click()
    dialog.get_by_label("Headers").fill("source: page\nx: a: b")
    confirm(page, "Publish")
    expect(said(page)).to_contain_text(f"A message was published to {topic} as 0-0")
    [[_, payload, attributes]] = client.execute_command("PEEK", topic)
    assert payload == '{"a": "é"}'
    assert attributes["key"] == "k1"
    assert attributes["headers"] == [["source", "page"], ["x", "a: b"]]
    said(page).get_by_role("button", name="Show it").click()
    expect(page.get_by_role("heading", name="Message 0-0")).to_be_visible()


def test_cancel_changes_nothing_and_the_focus_returns(page, client, topic):
    client.execute_command("PUB", topic, "x")
    page.goto(f"/ui/topics/{topic}")
    button = page.get_by_role("button", name="Pause…")
    button.click()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    assert setting(client, topic, "paused_out_until_ms") == "0"


def test_pause_and_resume(page, client, topic):
    client.execute_command("PUB", topic, "x")
    page.goto(f"/ui/topics/{topic}")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("dialog").get_by_label("For, in minutes").fill("5")
    confirm(page, "Pause")
    expect(said(page)).to_contain_text("delivers nothing for 5 minutes")
    assert client.execute_command("RECEIVE", topic) == []
    page.locator(".top").get_by_role("button", name="Resume").click()
    expect(said(page)).to_contain_text("was resumed")
    assert len(client.execute_command("RECEIVE", topic)) == 1


def test_purge(page, client, topic):
    client.execute_command("MPUBLISH", topic, "a", "b", "c")
    page.goto(f"/ui/topics/{topic}")
    choose(page, "More acts on the topic", "Purge…")
    confirm(page, "Purge", topic)
    expect(said(page)).to_contain_text("3 messages")
    assert count(client, topic, "ready") == 0


def test_delete_a_topic(page, client, topic):
    client.execute_command("PUB", topic, "x")
    page.goto(f"/ui/topics/{topic}")
    choose(page, "More acts on the topic", "Delete…")
    confirm(page, "Delete topic", topic)
    expect(said(page)).to_contain_text(f"{topic} was deleted")
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
    assert topic not in client.execute_command("TOPICS")


def test_create_a_topic_but_never_over_another(page, client, topic):
    page.goto("/ui/topics")
    for number in (3, 4):
        page.get_by_role("button", name="Create a topic…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill(topic)
        dialog.get_by_label("Partitions").fill(str(number))
        confirm(page, "Create")
        if number == 3:
            expect(said(page)).to_contain_text(f"{topic} was created")
            page.goto("/ui/topics")
    expect(page.get_by_role("dialog")).to_contain_text("the topic exists already")
    assert setting(client, topic, "partitions") == "3"


def test_change_a_setting_and_undo_it(page, client, topic):
    client.execute_command("TOPIC", "CREATE", topic)
    page.goto(f"/ui/topics/{topic}/settings")
    page.get_by_role("button", name="Change max_deliveries").click()
    page.get_by_role("dialog").get_by_label("Value").fill("-1")
    confirm(page, "Change")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("BADSETTING")
    page.get_by_role("dialog").get_by_label("Value").fill("7")
    confirm(page, "Change")
    expect(said(page)).to_contain_text("max_deliveries")
    assert setting(client, topic, "max_deliveries") == "7"
    said(page).get_by_role("button", name="Undo").click()
    expect(said(page)).to_contain_text("is as it was")
    assert setting(client, topic, "max_deliveries") == "0"


def test_redrive_all_dead_letters_of_one_reason(page, client, topic):
    make_dead_letters(client, topic, {"busy": 3, "broken": 2})
    show_dead_letters(page, topic, 5)
    choose(page, "Acts on dead letters: “busy”", "Redrive…")
    confirm(page, "Redrive 3")
    expect(said(page)).to_contain_text("3 dead letters were moved back")
    assert count(client, topic, "ready") == 3
    expect(page.get_by_role("table", name="Reasons of dead letters").locator("tbody tr")).to_have_count(1)


def test_redrive_some_with_a_rate_and_delete_the_rest(page, client, topic):
    make_dead_letters(client, topic, {"busy": 4})
    show_dead_letters(page, topic, 4)
    page.get_by_role("button", name="Redrive…", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("At most, in total").fill("2")
    dialog.get_by_label("At most, per second").fill("100")
    confirm(page, "Redrive 2")
    expect(said(page)).to_contain_text("2 dead letters were moved back")
    assert count(client, topic, "ready") == 2
    expect(page.get_by_role("table", name="Reasons of dead letters").locator("td").first).to_have_text("2")
    expect(number_of_dead_letters(page)).to_have_text("2")
    choose(page, "Acts on all dead letters", "Delete all…")
    confirm(page, "Delete 2", topic)
    expect(said(page)).to_contain_text(f"2 dead letters of {topic} were deleted")
    assert count(client, f"{topic}.dlq", "ready") == 0


def test_redrive_one_dead_letter(page, client, topic):
    make_dead_letters(client, topic, {"busy": 2})
    page.goto(f"/ui/topics/{topic}/messages?state=dead")
    page.get_by_role("link", name="0-0", exact=True).click()
    page.get_by_role("button", name="Redrive…").click()
    confirm(page, "Redrive")
    expect(said(page)).to_contain_text("0-0 was moved back")
    assert count(client, topic, "ready") == 1


def test_stop_a_redrive_that_takes_long(page, client, topic):
    make_dead_letters(client, topic, {"busy": 50})
    show_dead_letters(page, topic, 50)
    page.get_by_role("button", name="Redrive…", exact=True).click()
    page.get_by_role("dialog").get_by_label("At most, per second").fill("1")
    confirm(page, "Redrive 50")
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(page.get_by_role("dialog")).to_contain_text("stopped")
    assert count(client, f"{topic}.dlq", "ready") > 0


def test_move_a_message_to_the_front_and_delete_it(page, client, topic):
    client.execute_command("MPUBLISH", topic, "a", "b")
    page.goto(f"/ui/topics/{topic}/messages/0-1")
    page.get_by_role("button", name="Move to the front…").click()
    confirm(page, "Move to the front")
    expect(said(page)).to_contain_text("0-1 is at the front")
    assert client.execute_command("PEEK", topic)[0][0] == "0-1"
    choose(page, "More acts on the message", "Delete…")
    confirm(page, "Delete message")
    expect(said(page)).to_contain_text("0-1 was deleted")
    assert [message[0] for message in client.execute_command("PEEK", topic)] == ["0-0"]


def test_make_a_delayed_message_due(page, client, topic):
    client.execute_command("PUB", topic, "later", "DELAY", 600)
    page.goto(f"/ui/topics/{topic}/messages?state=delayed")
    page.locator("tbody a").click()
    page.get_by_role("button", name="Make due now…").click()
    confirm(page, "Make due now")
    expect(said(page)).to_contain_text("is due")
    assert client.execute_command("RECEIVE", topic, "WAIT", 60)[0][1] == "later"


def test_switch_on_the_trace_where_there_is_none(page, client, topic):
    message_id = client.execute_command("PUB", topic, "x")
    page.goto(f"/ui/topics/{topic}/messages/{message_id}")
    page.get_by_role("button", name="Switch on the trace…").click()
    confirm(page, "Switch on")
    expect(said(page)).to_contain_text(f"The trace of {topic} is on.")
    expect(page.get_by_role("region", name="History")).to_contain_text("Published to")
    assert setting(client, topic, "trace") == "true"
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Switch on the trace…")).to_be_visible()


def test_delete_a_delayed_message(page, client, topic):
    client.execute_command("PUB", topic, "later", "DELAY", 600)
    page.goto(f"/ui/topics/{topic}/messages?state=delayed")
    page.locator("tbody a").click()
    choose(page, "More acts on the message", "Delete…")
    confirm(page, "Delete message")
    expect(said(page)).to_contain_text("was deleted")
    assert count(client, topic, "delayed") == 0


def test_create_seek_and_delete_a_group(page, client, topic):
    client.execute_command("MPUBLISH", topic, "a", "b", "c")
    page.goto(f"/ui/topics/{topic}/groups")
    page.get_by_role("button", name="Create a group…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("audit")
    dialog.get_by_label("It begins at").select_option("latest")
    confirm(page, "Create")
    page.get_by_role("link", name="audit", exact=True).click()
    page.get_by_role("button", name="Seek…").click()
    expect(page.get_by_role("dialog")).to_contain_text("Dry run: 3 not acknowledged after the seek, 0 now")
    confirm(page, "Seek", "audit")
    expect(said(page)).to_contain_text("3 not acknowledged, 0 before")
    choose(page, "More acts on the group", "Delete…")
    confirm(page, "Delete group", "audit")
    expect(said(page)).to_contain_text(f"Group audit of {topic} was deleted")
    assert "audit" not in json.dumps(client.execute_command("GROUP", "LIST", topic))


def test_set_fire_and_delete_a_schedule(page, client, topic):
    page.goto("/ui/schedules")
    page.get_by_role("button", name="Set a schedule…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("beat")
    dialog.get_by_label("Topic").fill(topic)
    dialog.get_by_label("Rule").select_option("every")
    dialog.get_by_label("Interval").fill("1h")
    dialog.get_by_label("Payload").fill("tick")
    confirm(page, "Set")
    expect(page.get_by_role("table", name="Schedules")).to_contain_text("every 1 h")
    choose(page, "Acts on the schedule beat", "Fire now…")
    confirm(page, "Fire now")
    expect(said(page)).to_contain_text("Schedule beat published 0-0")
    assert client.execute_command("PEEK", topic)[0][1] == "tick"
    choose(page, "Acts on the schedule beat", "Delete…")
    confirm(page, "Delete schedule", "beat")
    expect(page.get_by_text("No schedules")).to_be_visible()
    assert client.execute_command("SCHEDULE", "LIST") == []


def test_download_a_payload_and_the_dead_letters(page, client, topic):
    make_dead_letters(client, topic, {"busy": 2})
    page.goto(f"/ui/topics/{topic}.dlq/messages/0-0")
    with page.expect_download() as payload:
        page.get_by_role("button", name="Download the payload").click()
    assert payload.value.path().read_bytes() == b'{"number": 0}'
    page.goto(f"/ui/topics/{topic}/messages?state=dead")
    with page.expect_download() as letters:
        page.get_by_role("button", name="Download", exact=True).click()
    lines = [json.loads(line) for line in letters.value.path().read_text().splitlines()]
    assert [line["origin"]["reason"] for line in lines] == ["busy", "busy"]
