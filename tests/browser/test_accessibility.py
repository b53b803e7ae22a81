"""axe-core finds nothing in any view, in both schemes, on a wide window and on a phone."""

from pathlib import Path

import pytest

from tests.browser.browsing import address_of, client_of, make_dead_letters

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = [pytest.mark.acceptance, pytest.mark.slow]
AXE = Path(__file__).parents[1] / "acceptance" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
VIEWS = (
    "",
    "topics",
    "topics/orders",
    "topics/orders/messages",
    "topics/orders/messages?state=dead",
    "topics/orders/messages/0-2",
    "topics/orders.dlq/messages/0-0",
    "topics/orders.dlq/messages/0-0?state=dead&from=orders",
    "topics/held/consumers",
    "topics/orders/groups?group=default",
    "topics/orders/partitions",
    "topics/orders/consumers",
    "topics/orders/settings",
    "topics/orders/log",
    "topics/missing",
    "dead",
    "schedules",
    "consumers",
    "broker",
    "nothing",
)


@pytest.fixture(scope="module")
def _messages(broker):
    with client_of(broker) as client:
        client.execute_command("TOPIC", "CREATE", "orders", "trace", "true", "max_deliveries", 5)
        make_dead_letters(client, "orders", {"busy": 2})
        client.execute_command("PUB", "orders", '{"number": [1, {"deep": true}]}', "HEADER", "source", "checkout")
        client.execute_command("PUB", "held", "x")
        client.execute_command("RECEIVE", "held", "LEASE", 600)
        client.execute_command("PUB", "paused", "x")
        client.execute_command("PAUSE", "paused", "out")
        client.execute_command("SCHEDULE", "SET", "beat", "EVERY", "1h", "orders", "tick")


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm --prefix tests/acceptance ci")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.usefixtures("_messages")
def test_axe_finds_nothing(open_page, broker, scheme, width):
    page = open_page(address_of(broker), color_scheme=scheme, viewport={"width": width, "height": 900})
    source = AXE.read_text()
    findings = []
    for view in VIEWS:
        page.goto(f"/ui/{view}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        findings += [f"{view}: {finding}" for finding in findings_of(page, source)]
    page.goto("/ui/topics/orders")
    page.get_by_role("button", name="Publish…").click()
    findings += [f"dialog: {finding}" for finding in findings_of(page, source)]
    assert findings == []


def findings_of(page, source):
    page.evaluate(source)
    result = page.evaluate("(rules) => axe.run(document, {runOnly: rules})", RULES)
    return [f"{rule['id']} {node['html'][:200]}" for rule in result["violations"] for node in rule["nodes"][:2]]
