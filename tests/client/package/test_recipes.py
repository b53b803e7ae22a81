"""The recipes of docs/client.md for web frameworks work as they are shown there."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from miniqueue.testing import MemoryBroker
from miniqueue_client import Client
from tests.acceptance.process import python_path
from tests.meta.modules import ROOT

PAGE = (ROOT / "docs/client.md").read_text()
MODELS = """
from django.db import models

class Order(models.Model):
    item = models.TextField()
    shipped = models.BooleanField(default=False)
"""
SETTINGS = """
import os
SECRET_KEY = "for tests"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3", "OPTIONS": {"timeout": 60}}}
MINIQUEUE_URL = os.environ["MINIQUEUE_URL"]
USE_TZ = True
"""
PLACE = """
import sys
import django
django.setup()
from django.test import RequestFactory
from shop.views import place_order
for item in sys.argv[1:]:
    print(place_order(RequestFactory().post("/orders", {"item": item})).content.decode())
"""
SHOW = """
import django
django.setup()
from shop.models import Order
print(*Order.objects.order_by("pk").values_list("item", "shipped"))
"""


def write_blocks(heading: str, directory: Path) -> None:
    """Write the blocks of a section to the files that their first lines name."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for name, block in re.findall(r"^```python\n# (\S+\.py)(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(f"#{block}")


async def request(app: Any, method: str, path: str, body: bytes) -> tuple[int, Any]:
    """Return the status and the JSON of a reply of an ASGI application."""
    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b"", "app": app}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    await app({**scope, "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}, receive, send)
    return sent[0]["status"], json.loads(b"".join(event.get("body", b"") for event in sent[1:]))


async def test_fastapi(tmp_path, monkeypatch, capsys):
    write_blocks("FastAPI", tmp_path)
    (tmp_path / "broker").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with MemoryBroker(tmp_path / "broker") as broker, Client(broker.url) as client:
        monkeypatch.setenv("MINIQUEUE_URL", broker.url)
        app = importlib.import_module("app").app
        before = signal.getsignal(signal.SIGTERM)
        async with app.router.lifespan_context(app):
            assert signal.getsignal(signal.SIGTERM) is before
            status, reply = await request(app, "POST", "/orders", b'{"id": 17}')
            assert (status, reply["message"].partition("-")[0]) == (202, "0")
        assert client.length("orders") == (0 if "shipping 17" in capsys.readouterr().out else 1)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with the application of the recipe, and its database."""
    write_blocks("Django", tmp_path)
    for package in ("shop", "shop/management", "shop/management/commands"):
        (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / "shop/models.py").write_text(MODELS)
    (tmp_path / "project_settings.py").write_text(SETTINGS)
    (tmp_path / "broker").mkdir()
    return tmp_path


def test_django(shop):
    with MemoryBroker(shop / "broker") as broker, Client(broker.url) as client:
        environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "project_settings",
            "MINIQUEUE_URL": broker.url,
            "PYTHONPATH": python_path(shop),
        }

        def run(*words: str) -> str:
            done = subprocess.run(
                [sys.executable, *words], cwd=shop, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        run("-m", "django", "migrate", "--run-syncdb")
        assert run("-c", PLACE, "book", "pen") == '{"id": 1}\n{"id": 2}\n'
        assert client.length("orders") == 2
        worker = subprocess.Popen([sys.executable, "-m", "django", "ship_orders"], cwd=shop, env=environment)
        try:
            events = iter(lambda: client.length("orders"), 0)
            for _ in events:
                assert client.receive("orders.nothing", wait_seconds=0.2) == []
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
        finally:
            worker.kill()
            worker.wait()
        assert run("-c", SHOW) == "('book', True) ('pen', True)\n"
