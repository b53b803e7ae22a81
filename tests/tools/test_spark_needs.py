"""What Spark needs is looked for where Spark does, and what is missing is said in words."""

from pathlib import Path

import pytest

from miniqueue.tools.spark import needs
from miniqueue.tools.spark.needs import missing


@pytest.fixture(autouse=True)
def packages(monkeypatch):
    """Pretend that all packages are installed; return those that are."""
    found = {"pyspark", "pyarrow", "pandas"}
    monkeypatch.setattr(needs, "find_spec", lambda name: name if name in found else None)
    return found


def java(home: Path, said: str) -> Path:
    """Make a Java that says its version; return its directory."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)
    return program.parent


def test_nothing_is_missing_where_java_is_new_enough(tmp_path):
    path = java(tmp_path, 'openjdk version "17.0.15" 2025-04-15')
    assert missing({"PATH": str(path)}) == []
    assert missing({"JAVA_HOME": str(tmp_path), "PATH": ""}) == []


def test_java_that_is_not_there_is_missing(tmp_path):
    [said] = missing({"PATH": str(tmp_path)})
    assert "install Java 17, or set JAVA_HOME" in said


def test_java_home_without_java_is_named_although_there_is_one_on_the_path(tmp_path):
    path = java(tmp_path / "good", 'openjdk version "21" 2023-09-19')
    [said] = missing({"PATH": str(path), "JAVA_HOME": str(tmp_path / "bad")})
    assert said.startswith(f"JAVA_HOME is {tmp_path}/bad, but there Java cannot be run: ")


@pytest.mark.parametrize(("version", "number"), [("1.8.0_402", 8), ("11.0.2", 11), ("16", 16)])
def test_java_that_is_too_old_is_named(tmp_path, version, number):
    path = java(tmp_path, f'java version "{version}"')
    assert missing({"PATH": str(path)}) == [f"{path}/java is Java {number}; Spark requires Java 17 or newer"]


def test_java_that_says_nothing_is_named(tmp_path):
    path = java(tmp_path, "Segmentation fault")
    assert "does not report its version" in missing({"PATH": str(path)})[0]


def test_packages_that_are_missing_are_named(tmp_path, packages, monkeypatch, capsys):
    packages.discard("pyspark")
    path = java(tmp_path, 'openjdk version "17"')
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert needs.main() == 78
    assert capsys.readouterr().err == "Spark is missing (pyspark): pip install 'miniqueue[spark]'\n"
