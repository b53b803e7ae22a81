"""`miniqueue pipeline` before Spark comes into it: help, and what is asked for in the wrong way."""

import pytest

from miniqueue.cli import main
from miniqueue.tools.spark import needs, pipeline, session


@pytest.mark.parametrize("words", [["-h"], ["load", "-h"], ["archive", "-help"]])
def test_it_tells_how_it_is_used(words, capsys):
    assert main(["pipeline", *words], {}) == 0
    assert capsys.readouterr().out == pipeline.USAGE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "unknown job: ''; must be load, archive, stats, replay"),
        (["unload"], "unknown job: 'unload'; must be load, archive, stats, replay"),
        (["load", "x.csv"], "flag -topic is missing"),
        (["archive", "-topic", "t", "a", "b"], "too many paths; must be one directory"),
        (["archive", "-topic", "t"], "no path after the flags"),
        (["archive", "-topic", "t", "-key", "k", "a"], "no such flag"),
    ],
)
def test_mistakes_are_told_in_words(words, said, capsys):
    assert main(["pipeline", *words], {}) == 78
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("job", ["load", "archive", "stats", "replay"])
@pytest.mark.parametrize("topic", [",", " , "])
def test_topics_that_are_none_are_a_wrong_flag(job, topic, capsys):
    assert main(["pipeline", job, "-topic", topic, "x.csv"], {}) == 78
    assert f"flag -topic: no topic in {topic!r}\n" in capsys.readouterr().err


@pytest.mark.parametrize("job", ["load", "archive", "stats", "replay"])
def test_a_path_that_is_empty_is_told_before_spark_starts(job, capsys):
    assert main(["pipeline", job, "-topic", "t", ""], {}) == 78
    assert "a path after the flags is empty\n" in capsys.readouterr().err


@pytest.mark.parametrize(("module", "command", "said"), [("pyspark", "", "Spark is missing"), ("", "java", "Java is")])
def test_what_is_not_installed_is_named(module, command, said, monkeypatch, capsys):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(needs, "find_spec", lambda name: None if name == module else object())
    monkeypatch.setattr(needs.shutil, "which", lambda name, path: None if name == command else "/bin/true")
    assert main(["pipeline", "load", "-topic", "t", "x.csv"], {}) == 78
    assert said in capsys.readouterr().err


def test_a_secret_is_read_from_its_file_and_a_file_that_is_not_there_is_named(tmp_path):
    (tmp_path / "secret").write_text("word\n")
    flags = {"url": "redis://q:1", "secret-file": str(tmp_path / "secret")}
    assert session.options(flags) == {"url": "redis://q:1", "secret": "word"}
    with pytest.raises(pipeline.ConfigError, match="flag -secret-file"):
        session.options({"secret-file": str(tmp_path / "other")})


def test_a_number_of_digits_that_are_no_decimals_is_refused():
    with pytest.raises(pipeline.ConfigError, match="must be a whole number"):
        pipeline._number({"window": "²"}, "window", 60)


def test_a_number_that_is_too_small_is_refused_and_its_flag_is_named():
    with pytest.raises(pipeline.ConfigError, match="flag -window: invalid number: 0; must be at least 1"):
        pipeline._number({"window": "0"}, "window", 60, least=1)
    assert pipeline._number({"every": "0"}, "every", 0) == 0


@pytest.mark.parametrize("run_id", ["../up", "a/b", "..", "_run", "a*", "x?", "a[1]", "{a,b}", "a\nb", "a\\b"])
def test_a_run_id_that_would_name_another_directory_is_refused(run_id):
    with pytest.raises(pipeline.ConfigError, match="flag -run-id"):
        pipeline._run_id({"run-id": run_id})


def test_a_run_id_is_kept_as_it_is_given_and_made_where_it_is_not():
    assert pipeline._run_id({"run-id": "rides of 2026-01-31"}) == "rides of 2026-01-31"
    assert pipeline._run_id({}) != pipeline._run_id({"run-id": ""})


@pytest.mark.parametrize("job", [["load", "x.csv"], ["replay", "archive"]])
def test_bug_messages_were_published_to_a_topic_whose_name_no_job_can_read(job, capsys):
    assert main(["pipeline", job[0], "-topic", "a,b", job[1]], {}) == 78
    said = f"flag -topic: {job[0]} publishes to one topic; commas in 'a,b' separate several\n"
    assert said in capsys.readouterr().err
