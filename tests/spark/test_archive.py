"""`miniqueue pipeline archive` from run to run: with a group that comes and goes, and messages that are gone."""

from tests.spark.needs import IN_A_SESSION

pytestmark = IN_A_SESSION


def test_an_archive_that_began_without_a_group_or_lost_it_has_one_where_it_was(pipeline, client, tmp_path):
    client.create_topic("joined", retention="forever")
    without_group = ("archive", "joined", tmp_path / "archive")
    with_group = (*without_group, "-group", "late")
    client.publish_many("joined", [b"a", b"b"])
    assert pipeline(*without_group)[0] == 0
    client.publish("joined", b"c")
    assert pipeline(*with_group)[:2] == (0, "joined: 1 message archived in 1 step\n")
    client.delete_group("joined", "late")
    client.publish_many("joined", [b"d", b"e"])
    assert pipeline(*with_group)[:2] == (0, "joined: 2 messages archived in 1 step\n")
    assert [group.lag for group in client.groups("joined") if group.name == "late"] == [2]  # moved by the next step
