"""The report on the machine, and on the programs that take part."""

import re
from importlib.metadata import version

from benchmarks import machine


def test_the_versions_of_what_takes_part_are_told(tmp_path):
    told = machine.described(tmp_path)
    assert f"redis {version('redis')}" in told["packages"].split(", ")
    assert re.search(r"\bpyspark (\d|not installed).*\bpyarrow (\d|not installed)", told["packages"])
    assert re.search(r"\bcurl \d.*\bJava (\d|not installed)", told["programs"])


def test_what_is_not_there_is_told_too(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "PACKAGES", ("no-such-package",))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    told = machine.described(tmp_path)
    assert told["packages"] == "no-such-package not installed"
    assert told["programs"].endswith("Java not installed")


def test_the_java_is_that_of_java_home(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.99\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert machine.described(tmp_path)["programs"].endswith("Java 17.0.99")
