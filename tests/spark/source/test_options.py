"""Options of reads and writes: defaults, values, and what is said of mistakes."""

from datetime import UTC, datetime

import pytest

from miniqueue.errors import ConfigError
from miniqueue.server.security.certificates import ensure_certificates
from miniqueue.spark.options import OPTIONS, Options, Use
from tests.meta.modules import ROOT


def problems(given, use=Use.BATCH_READ):
    with pytest.raises(ConfigError) as caught:
        Options(given, use)
    return caught.value.problems


def test_what_is_not_given_has_its_default():
    options = Options({"topic": "t"}, Use.STREAM_READ)
    assert (options["url"], options["minPartitions"], options["failOnDataLoss"]) == ("redis://localhost:6379", 1, True)


def test_names_are_compared_without_case_and_the_path_is_the_topic():
    assert Options({"TOPIC": "t", "minpartitions": "4"}, Use.BATCH_READ)["minPartitions"] == 4
    assert Options({"path": "a, b,"}, Use.BATCH_READ).topics == ["a", "b"]


@pytest.mark.parametrize("use", [Use.BATCH_WRITE, Use.STREAM_WRITE])
@pytest.mark.parametrize("topic", ["a,b", "a,"])
def test_a_write_goes_to_one_topic(use, topic):
    """Found by a reader: it made a topic `a,b`, which a read takes for two."""
    assert problems({"topic": topic}, use) == [f"invalid topic: {topic!r}; a write goes to exactly one topic"]


def test_what_spark_adds_is_no_mistake():
    Options({"topic": "t", "checkpointLocation": "/c", "queryName": "q"}, Use.STREAM_WRITE)


@pytest.mark.parametrize(
    ("name", "meant"), [("startingOffset", "startingOffsets"), ("dedup", "deduplicate"), ("topics", "topic")]
)
def test_an_unknown_option_is_refused_with_the_one_that_was_probably_meant(name, meant):
    assert problems({"topic": "t", name: "x"}, Use.BATCH_WRITE) == [f"there is no option {name}; did you mean {meant}?"]


def test_a_topic_that_is_given_as_the_path_too_is_refused():
    said = "the topic is set twice, as the option topic and as the path; set one of them"
    for use in (Use.BATCH_READ, Use.STREAM_READ, Use.BATCH_WRITE, Use.STREAM_WRITE):
        assert problems({"Topic": "t", "path": "u"}, use) == [said]


def test_an_option_like_no_other_is_refused_with_all_there_are():
    [problem] = problems({"topic": "t", "xyz": "1"})
    assert all(name in problem for name in OPTIONS)


def test_an_option_for_something_else_is_refused():
    assert problems({"topic": "t", "runId": "1"}) == ["the option runId is not for a batch read"]


def test_all_mistakes_are_told_at_once():
    given = {"minPartitions": "0", "failOnDataLoss": "yes", "timeoutSeconds": "soon"}
    assert problems(given) == [
        "timeoutSeconds='soon': could not convert string to float: 'soon'",
        "minPartitions='0': must be 1 or more",
        "failOnDataLoss='yes': must be true or false",
        "the option topic is missing",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"startingOffsets": "latest", "startingTime": "2026-01-01"},
            "startingOffsets and startingTime are both set",
        ),
        ({"endingOffsets": "latest", "endingTime": "2026-01-01"}, "endingOffsets and endingTime are both set"),
        ({"startingOffsets": '{"t":{"0":-2}}'}, "invalid offset: -2; must be an integer of 0 or more"),
        ({"startingOffsets": "first"}, "invalid offsets: 'first'; must be earliest, latest, or as in "),
        ({"endingOffsets": "earliest"}, "there is nothing before the earliest message"),
        ({"endingTime": "20260101"}, "is 20260101 ms after the start of 1970"),
        (
            {"startingOffsets": '{"t":{"0":17,"1":0}}', "endingOffsets": '{"t":{"0":3,"1":0,"2":0}}'},
            "t, partition 0: endingOffsets, 3, is before startingOffsets, 17",
        ),
        (
            {"startingTime": "2026-01-02T00:00+00:00", "endingTime": "1767225600000"},
            "endingTime, 2026-01-01 00:00:00+00:00, is before startingTime, 2026-01-02 00:00:00+00:00",
        ),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused(given, said):
    [problem] = problems({"topic": "t", **given})
    assert said in problem


def test_what_is_empty_is_not_given():
    options = Options({"topic": "t", "startingOffsets": "", "startingTime": "2026-01-01"}, Use.BATCH_READ, "UTC")
    assert options["startingTime"] == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_time_without_a_zone_is_in_that_of_the_session_and_is_compared_there():
    given = {"topic": "t", "startingTime": "2026-01-01T12:00", "endingTime": "2026-01-01T11:30Z"}
    assert Options(given, Use.BATCH_READ, "+01:00")["startingTime"] == datetime(2026, 1, 1, 11, tzinfo=UTC)
    with pytest.raises(ConfigError, match="is before startingTime"):
        Options(given, Use.BATCH_READ, "UTC")


def test_a_request_of_more_rows_than_a_command_takes_is_refused():
    assert Options({"topic": "t", "batchMessages": "9999"}, Use.BATCH_WRITE)["batchMessages"] == 9999
    assert problems({"topic": "t", "batchMessages": "10000"}, Use.BATCH_WRITE) == [
        "batchMessages='10000': must be at most 9999"
    ]


def test_a_client_is_made_of_the_options(tmp_path):
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    ensure_certificates(*files, may_create=True, now=datetime.now(UTC))
    ca = str(tmp_path / "ca.pem")
    given = {"topic": "t", "url": "rediss://h:1", "user": "ada", "secret": "s", "caFile": ca, "retries": "3"}
    address = Options(given, Use.BATCH_READ).client().address
    assert (address.url, address.retries, address.timeout_seconds) == ("rediss://h:1", 3, 10.0)
    assert address.options == {"username": "ada", "password": "s", "ssl_ca_certs": ca}


@pytest.mark.parametrize("use", [Use.BATCH_WRITE, Use.STREAM_WRITE])
def test_a_write_that_does_not_deduplicate_has_a_client_that_does_not(use):
    """Its client made an id for each row that had other options than a key."""
    assert not Options({"topic": "t", "deduplicate": "false"}, use).client().address.deduplicates
    assert Options({"topic": "t"}, use).client().address.deduplicates


def test_authorities_that_are_not_on_this_machine_are_named():
    with pytest.raises(ConfigError, match="caFile='/nowhere/ca': there is no such file on "):
        Options({"topic": "t", "caFile": "/nowhere/ca"}, Use.BATCH_READ).client()


def test_authorities_for_a_broker_without_tls_are_refused(tmp_path):
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    ensure_certificates(*files, may_create=True, now=datetime.now(UTC))
    with pytest.raises(ConfigError, match="caFile requires TLS; set url to rediss://"):
        Options({"topic": "t", "url": "redis://h:1", "caFile": str(tmp_path / "ca.pem")}, Use.BATCH_READ).client()


def test_authorities_that_are_none_are_named(tmp_path):
    (tmp_path / "ca").write_text("none")
    for file in (tmp_path / "ca", tmp_path):
        with pytest.raises(ConfigError, match=f"caFile='{file}': no certificates can be read from it on "):
            Options({"topic": "t", "caFile": str(file)}, Use.BATCH_READ).client()


def test_each_job_has_a_run_of_its_own_unless_it_says_otherwise():
    options = Options({"topic": "t"}, Use.BATCH_WRITE)
    assert options.run_id != options.run_id
    assert Options({"topic": "t", "runId": "daily"}, Use.BATCH_WRITE).run_id == "daily"


@pytest.mark.parametrize("name", OPTIONS)
def test_the_documentation_has_the_table(name):
    option = OPTIONS[name]
    uses = {Use.ALL: "all", Use.READ: "read", Use.WRITE: "write", Use.BATCH_READ: "batch read"}
    uses |= {Use.STREAM_READ: "stream read", Use.BATCH_WRITE: "batch write"}
    default = f"`{option.default}`" if option.default else "–"
    row = f"| `{name}` | {uses[option.use]} | {default} | {option.meaning} |"
    assert row in (ROOT / "docs/spark.md").read_text()
