"""The shell blocks of the protocol are run, in the order of the page, on one broker; what they show must come out.

A refused command fails its block, even if the block hides its output: redis-cli and curl get options to exit with an
error then.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.acceptance.documents.test_readme import ROOT, Reader, Step, in_a_pipe, paste_all, steps
from tests.acceptance.tools import needs

PAGE = (ROOT / "docs/protocol.md").read_text()

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, needs("curl", "redis-cli", "make", "bash")]


class StrictReader(Reader):
    """Somebody who stops at the first command that is refused."""

    def _with_own_ports(self, text: str) -> str:
        return super()._with_own_ports(text).replace("redis-cli -p", "redis-cli -e -p")

    def _run(self, text: str) -> str:
        return super()._run(f"set -e; export CURL_HOME=$PWD\n{text}")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StrictReader]:
    directory: Path = tmp_path_factory.mktemp("protocol")
    (directory / ".curlrc").write_text("fail-with-body\nsilent\n")
    with ExitStack() as started:
        reader = StrictReader(directory, started, in_a_pipe)
        reader.paste(Step("make run\n", None))
        yield reader


def test_every_block_does_what_the_page_shows(reader):
    paste_all(reader, PAGE)


def test_a_command_that_is_refused_fails_its_block(reader):
    for command in ("redis-cli LEN 'no topic'", "curl -k https://localhost:8080/topics/none"):
        with pytest.raises(AssertionError, match="exit code"):
            reader.paste(Step(f"{command}\nredis-cli PING\n", None))


@pytest.mark.parametrize(
    "words",
    [
        *("NACK DELAY REASON", "PAUSE GROUP", "EPHEMERAL", "RECEIVEANY", "/events", "SEARCH", "MESSAGES", "MESSAGE"),
        *("TASK", "SCHEDULE UNTIL", "retention_messages", "DELAY 1h30m", "/transactions"),
    ],
)
def test_each_of_these_has_an_example_that_is_run(words):
    assert any(all(word in step.text for word in words.split(" ")) for step in steps(PAGE))
