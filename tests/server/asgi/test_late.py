"""An application that is imported when it is first asked."""

import asyncio
import sys

import pytest

from miniqueue.server.asgi.late import LateApp

MODULE = "tests.server.asgi.late_module"


class App:
    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, scope, receive, send):
        self.paths.append(scope.get("path", scope["type"]))


@pytest.fixture
def without_module():
    sys.modules.pop(MODULE, None)
    yield
    sys.modules.pop(MODULE, None)


async def ask(app, path, type_="http"):
    await app({"type": type_, "path": path}, None, None)


@pytest.mark.usefixtures("without_module")
async def test_it_is_imported_and_made_once_at_the_first_of_its_requests():
    other, late, made = App(), App(), []

    def make():
        assert MODULE in sys.modules
        made.append(late)
        return late

    app = LateApp(other, lambda path: path.startswith("/ui"), MODULE, make)
    await ask(app, "/livez")
    await ask(app, "/ui/", "websocket")
    assert (other.paths, made, MODULE in sys.modules) == (["/livez", "/ui/"], [], False)
    await asyncio.gather(*(ask(app, f"/ui/{number}") for number in range(3)))
    assert (len(late.paths), len(made)) == (3, 1)


async def test_what_cannot_be_imported_fails_its_requests_and_no_others():
    other = App()
    app = LateApp(other, lambda path: path == "/ui", "tests.server.asgi.there_is_none", App)
    with pytest.raises(ModuleNotFoundError):
        await ask(app, "/ui")
    await ask(app, "/livez")
    assert other.paths == ["/livez"]
