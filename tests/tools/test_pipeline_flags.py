"""`miniqueue pipeline` before Spark comes into it: help, and what is asked for in the wrong way."""

import pytest

from miniqueue.cli import main
from miniqueue.tools import pipeline


@pytest.mark.parametrize("words", [["-h"], ["load", "-h"], ["archive", "-help"]])
def test_it_tells_how_it_is_used(words, capsys):
    assert main(["pipeline", *words], {}) == 0
    assert capsys.readouterr().out == pipeline.USAGE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "a job is one of load, archive, replay"),
        (["unload"], "a job is one of load, archive, replay"),
        (["load", "x.csv"], "flag -topic is missing"),
        (["archive", "-topic", "t", "a", "b"], "there must be one directory"),
        (["archive", "-topic", "t", "-key", "k", "a"], "no such flag"),
    ],
)
def test_mistakes_are_told_in_words(words, said, capsys):
    assert main(["pipeline", *words], {}) == 78
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("module", "command", "said"), [("pyspark", "", "Spark is missing"), ("", "java", "Java is")])
def test_what_is_not_installed_is_named(module, command, said, monkeypatch, capsys):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(pipeline, "find_spec", lambda name: None if name == module else object())
    monkeypatch.setattr(pipeline.shutil, "which", lambda name: None if name == command else "/usr/bin/" + name)
    assert main(["pipeline", "load", "-topic", "t", "x.csv"], {}) == 78
    assert said in capsys.readouterr().err


def test_a_secret_is_read_from_its_file_and_a_file_that_is_not_there_is_named(tmp_path):
    (tmp_path / "secret").write_text("word\n")
    flags = {"url": "redis://q:1", "secret-file": str(tmp_path / "secret")}
    assert pipeline._options(flags) == {"url": "redis://q:1", "secret": "word"}
    with pytest.raises(pipeline.ConfigError, match="flag -secret-file"):
        pipeline._options({"secret-file": str(tmp_path / "other")})
