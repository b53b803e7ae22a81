"""What the tests of the page share: problems of a page, a client of the broker, its survey, and words of dialogs."""

import json
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.acceptance import patient
from tests.acceptance.process import BrokerProcess
from tests.acceptance.tools import MAX_SECONDS

#: The time that only ends what hangs.
LIMIT_MS = 60_000

#: Opens a page; arguments: the address of the broker, a path, options of the browser context.
OpenPage = Callable[..., Any]

#: Requests that fail are errors to a browser, and expected here: a topic that is missing, a sign-in that is refused.
_EXPECTED = ("Failed to load resource", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_REFUSED")

#: Makes some timers of the page take 200 times as long: 1.5 s forget the first key of two, and 4 s or more hide a
#: toast, or connect again. On a machine that stalls, that would happen before the test has looked.
PATIENCE = """
(() => {
  const { setTimeout } = window;
  const isLong = (ms) => ms === 1500 || ms >= 4000;
  window.setTimeout = (act, ms = 0, ...words) => setTimeout(act, isLong(ms) ? 200 * ms : ms, ...words);
})();
"""


class Watch:
    """Collects what goes wrong in a page: errors, violations of its policy, and dialogs that scripts open."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(f"{error}"))
        page.on("dialog", self._refuse)
        page.on("console", self._read)

    def _refuse(self, dialog: Any) -> None:
        self.problems.append(f"a script said: {dialog.message}")
        dialog.dismiss()

    def _read(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(word in message.text for word in _EXPECTED):
            self.problems.append(message.text)


def client_of(broker: BrokerProcess, **options: Any) -> Any:
    """Return a client of the broker."""
    return patient.Redis(port=broker.resp_port, decode_responses=True, **options)


def address_of(broker: BrokerProcess) -> str:
    """Return the address of the page."""
    return f"http://127.0.0.1:{broker.monitor_port}"


def wait_until_surveyed(broker: BrokerProcess, topic: str, user: str = "", password: str = "") -> None:
    """Wait until the broker's survey of all topics has a topic, and so all older ones.

    A survey is used for a second, and for longer if it took long. What a page reads once, it reads from there.
    """
    credentials = b64encode(f"{user}:{password}".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}"} if user else {}
    ends_at = time.monotonic() + MAX_SECONDS
    while True:
        listed = json.loads(broker.monitor(f"/ui/data/topics?q={quote(topic)}&count=100", headers))["topics"]
        if topic in [row["topic"] for row in listed]:
            return
        assert time.monotonic() < ends_at, listed
        time.sleep(0.02)


def make_dead_letters(client: Any, topic: str, reasons: dict[str, int]) -> None:
    """Publish messages to a topic, and reject them with these reasons."""
    for reason, count in reasons.items():
        client.execute_command("MPUBLISH", topic, *(f'{{"number": {number}}}' for number in range(count)))
        for receipt, *_ in client.execute_command("RECEIVE", topic, "COUNT", count):
            client.execute_command("REJECT", topic, receipt, reason)


def choose(page: Any, button: str, item: str) -> None:
    """Open a menu, and choose one of its acts."""
    page.get_by_role("button", name=button, exact=True).click()
    page.get_by_role("menuitem", name=item, exact=True).click()
