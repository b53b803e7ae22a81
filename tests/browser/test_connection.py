"""An open page survives a restart of its broker, and says so."""

import pytest

from tests.acceptance.ports import hold_port, port_of
from tests.acceptance.process import BrokerProcess
from tests.browser.browsing import address_of, client_of

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = pytest.mark.acceptance


def test_a_page_says_that_the_broker_is_gone_and_continues_when_it_is_back(open_page, tmp_path):
    with hold_port() as monitor:
        ports = ("-port", "0", "-resp-port", "0", "-monitor-port", str(port_of(monitor)))
        flags = ["-db", "data", "-period", "50ms"]
        first = BrokerProcess([*ports, *flags], cwd=tmp_path)
        second = None
        try:
            first.wait_until_ready()
            with client_of(first) as client:
                client.execute_command("MPUBLISH", "orders", "a", "b")
            page = open_page(address_of(first), "/ui/topics/orders")
            ready = page.locator(".strip .v").first
            expect(ready).to_have_text("2")
            first.stop()
            expect(page.get_by_role("alert")).to_contain_text("No connection to the broker since")
            expect(ready).to_have_text("2")  # the figures stay
            second = BrokerProcess([*ports, *flags], cwd=tmp_path)
            second.wait_until_ready()
            page.get_by_role("button", name="Try now").click()
            expect(page.get_by_role("alert")).to_have_count(0)
            expect(page.locator(".toast")).to_contain_text("The broker was restarted")
            with client_of(second) as client:
                client.execute_command("PUB", "orders", "c")
            expect(ready).to_have_text("3")
            second.stop()
        finally:
            first.end()
            if second is not None:
                second.end()
