"""What a release offered, the present code offers, unless docs/compatibility.md says that it was retired."""

import json
import re

import pytest

from tests.meta.modules import ROOT
from tests.releases.make import FOLDER
from tests.releases.names import names

VERSIONS = sorted(path.stem for path in FOLDER.glob("*.json"))
PAGE = (ROOT / "docs/compatibility.md").read_text()
#: Names in the table of what was retired; anything that begins with one of them is gone, too.
RETIRED = re.findall(r"^\| `([^`]+)` \|", PAGE.partition("\n## Retired\n")[2], re.MULTILINE)


def is_retired(name: str) -> bool:
    return any(name == retired or name.startswith(f"{retired} ") for retired in RETIRED)


def missing_names(offered: dict[str, list[str]], present: dict[str, list[str]]) -> list[str]:
    return [
        f"{kind}: {name}"
        for kind, expected in offered.items()
        for name in expected
        if name not in present.get(kind, []) and not is_retired(name)
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_that_a_release_offered_is_missing(version):
    assert missing_names(json.loads((FOLDER / f"{version}.json").read_text()), names()) == []


def test_each_kind_has_names_and_a_missing_one_is_noticed():
    present = names()
    for kind, expected in present.items():
        assert len(expected) >= 5
        assert missing_names(present, present | {kind: expected[1:]}) == [f"{kind}: {expected[0]}"]


def test_names_are_those_that_users_know():
    present = names()
    assert "-db" in present["flags"]
    assert {"MINIQUEUE_DB", "MINIQUEUE_PASSWORD"} <= set(present["variables"])
    assert {"backup", "backup -follow", "user -max-bytes", "pipeline -secret-file"} <= set(present["subcommands"])
    assert {"trace -url", "topic show", "dlq drop -yes", "sub -until-empty"} <= set(present["subcommands"])
    assert "PUB DELAY" in present["commands"]
    assert "POST /publish/{topic}" in present["routes"]
    assert "miniqueue_messages topic state" in present["metrics"]
    assert "Client.publish topic" in present["client"]
