"""`miniqueue pipeline load` of text: CSV, and JSON lines; of numbers in these `test_json_numbers.py` knows."""

import json

import pytest

from tests.spark.jobs.loaded import quarantined, taken
from tests.spark.needs import JOBS

pytestmark = JOBS


def test_csv_is_loaded_and_bad_rows_are_counted_with_file_and_line(pipeline, client, tmp_path):
    file = tmp_path / "rides in town.csv"
    file.write_text('id,"land",note\n1,fr,"a, b"\n2,de,\n\n3\nx,nl,c\n4,it,' + "n" * 200 + "\n5,es,ü\n3\n")
    flags = ("-schema", "id int, land string, note string", "-key", "land", "-headers", "from=land")
    job = ("load", "csv", *flags, "-columns", "id,note", "-max-message-bytes", 100, "-run-id", "r1", file)
    code, out, err = pipeline(*job)
    assert (code, out) == (1, f"csv: 3 messages published, 4 bad rows in {tmp_path}/bad/r1\n")
    assert "row 5: its number of fields is 1, not 3" in err
    messages = {message.key: (json.loads(message.payload), message.headers) for message in taken(client, "csv")}
    assert messages == {
        b"fr": ({"id": 1, "note": "a, b"}, (("from", b"fr"),)),
        b"de": ({"id": 2, "note": None}, (("from", b"de"),)),
        b"es": ({"id": 5, "note": "ü"}, (("from", b"es"),)),
    }
    bad = quarantined(tmp_path / "bad" / "r1")
    assert [(row["row"], row["cause"]) for row in bad] == [
        (5, "its number of fields is 1, not 3"),
        (6, "it cannot be parsed"),
        (7, "the message is longer than 100 bytes"),
        (9, "its number of fields is 1, not 3"),
    ]
    assert bad[0]["record"] == "3"
    assert all(row["file"].endswith("rides%20in%20town.csv") for row in bad)


def test_quotes_in_csv_are_doubled_and_a_backslash_is_one(pipeline, client, tmp_path):
    (tmp_path / "in.csv").write_text('id,"a ""note"""\n1,"say ""hi"", now"\n2,"C:\\"\n3,"""q"""\n4,a\\b\n')
    assert pipeline("load", "quotes", tmp_path / "in.csv")[0] == 0
    notes = [json.loads(message.payload)['a "note"'] for message in taken(client, "quotes")]
    assert notes == ['say "hi", now', "C:\\", '"q"', "a\\b"]


def test_a_field_of_csv_that_spans_lines_is_one_value_and_rows_keep_their_order(pipeline, client, tmp_path):
    (tmp_path / "in.csv").write_bytes(
        b'\xef\xbb\xbfid,"the\nzone"\r\n1,"a\r\n2,b"\r\n3,"c\n\n""d"""\r\n\r\n4,"\re"\n5,f'
    )
    assert pipeline("load", "longer", "-key", "id", tmp_path / "in.csv")[0] == 0
    found = [(message.key, json.loads(message.payload)["the\nzone"]) for message in taken(client, "longer")]
    assert found == [(b"1", "a\r\n2,b"), (b"3", 'c\n\n"d"'), (b"4", "\re"), (b"5", "f")]


def test_bug_half_of_a_row_of_csv_was_a_message_where_a_quote_is_broken(pipeline, client, tmp_path):
    (tmp_path / "in.csv").write_bytes(
        b'id,zone\r\n1,"a\r\n2,b"\r\n3,"c"d\r\n"4" ,x\n\n5,5" pipe\n6,good\n7\r8,f\n9,"e\n10,g'
    )
    code, out, err = pipeline("load", "halves", "-run-id", "r", tmp_path / "in.csv")
    assert (code, out.partition(" in ")[0]) == (1, "halves: 2 messages published, 6 bad rows")
    assert "in.csv, row 4: there is text after a closing quote" in err
    zones = [json.loads(message.payload)["zone"] for message in taken(client, "halves")]
    assert zones == ["a\r\n2,b", "good"]
    assert [(row["row"], row["cause"], row["record"]) for row in quarantined(tmp_path / "bad")] == [
        (4, "there is text after a closing quote", '3,"c"d'),
        (5, "there is text after a closing quote", '"4" ,x'),
        (7, "there is a quote in a field that does not start with one", '5,5" pipe'),
        (9, "there is a carriage return in a field without quotes", "7\r8,f"),
        (10, "a quote that is opened in row 10 is not closed", '9,"e'),
        (11, "a quote that is opened in row 10 is not closed", "10,g"),
    ]


def test_a_quote_that_is_broken_within_a_line_of_csv_is_set_aside_where_no_row_has_two(pipeline, client, tmp_path):
    (tmp_path / "in.csv").write_text('id,zone\n1,"c"d\n2, "a, b"\n3,"x\u2028"\n4,"x"\u2028\n')
    code, _, _ = pipeline("load", "lines-alone", "-run-id", "r", tmp_path / "in.csv")
    assert (code, [message.payload for message in taken(client, "lines-alone")]) == (
        1,
        ['{"id":"3","zone":"x\u2028"}'.encode()],
    )
    assert [(row["row"], row["cause"]) for row in quarantined(tmp_path / "bad")] == [
        (2, "there is text after a closing quote"),
        (3, "there is a quote in a field that does not start with one"),
        (5, "there is text after a closing quote"),
    ]


def test_bug_a_nul_at_the_end_of_a_field_of_csv_was_lost(pipeline, client, tmp_path):
    (tmp_path / "in.csv").write_text('id,zone\n1,"a\0"\n2,b\0\n3,c\n')
    assert pipeline("load", "nul", "-run-id", "r", tmp_path / "in.csv")[0] == 1
    assert [message.payload for message in taken(client, "nul")] == [b'{"id":"3","zone":"c"}']
    assert [row["cause"] for row in quarantined(tmp_path / "bad")] == ["there is a NUL"] * 2


@pytest.mark.parametrize("end", ["", '\n"\n'])
def test_a_row_of_csv_with_very_many_quotes_is_no_fault(pipeline, client, tmp_path, end):
    (tmp_path / "in.csv").write_text('id,zone\n1,"' + '""' * 200_000 + '"\n2,"' + '"x"' * 100_001 + f'\n3,"{end}')
    topic = f"quotes-only-{len(end)}"
    assert pipeline("load", topic, "-run-id", "r", tmp_path / "in.csv")[0] == 1
    assert [json.loads(message.payload)["zone"] for message in taken(client, topic)] == ['"' * 200_000]


def test_files_of_csv_with_rows_of_several_lines_are_loaded_once_with_the_same_id(pipeline, client, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("id,zone\n" + "".join(f'{name}{n},"x\n{n}"\n' for n in range(100)))
    job = ("load", "longer-again", "-key", "id", "-run-id", "same", tmp_path / "*.csv")
    assert pipeline(*job)[:2] == (0, "longer-again: 300 messages published\n")
    assert pipeline(*job)[0] == 0
    found = [message.key.decode() for message in taken(client, "longer-again")]
    assert len(found) == 300
    for name in "abc":
        assert [key for key in found if key[0] == name] == [f"{name}{n}" for n in range(100)]
    (tmp_path / "d.csv").write_text('id,"zo\nne"\n')
    code, _, err = pipeline(*job)
    assert (code, "d.csv: the first line differs from that of" in err) == (78, True)


@pytest.mark.parametrize("names", ['id,"a"b', 'id,"a', 'id,5"'])
def test_a_first_line_of_csv_with_a_broken_quote_is_refused(pipeline, tmp_path, names):
    (tmp_path / "in.csv").write_text(f"{names}\n1,2\n")
    code, _, err = pipeline("load", "no-names", tmp_path / "in.csv")
    assert (code, "in.csv: the first line does not name the columns: " in err) == (78, True)


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_a_line_that_is_not_utf_8_is_set_aside_and_no_byte_is_replaced(pipeline, client, tmp_path, name):
    topic = f"latin-{name}"
    lines = [b'{"a":"caf\xe9"}', b'{"a":"ok","b":1}', b'{"a":"x","\xe9":1}']
    if name == "in.csv":
        lines = [b"a,b", b"caf\xe9,", b"ok,1", b"\xed\xa0\x80,"]
    (tmp_path / name).write_bytes(b"\n".join(lines))
    code, out, err = pipeline("load", topic, "-schema", "a string, b int", tmp_path / name)
    assert (code, out.partition(" in ")[0]) == (1, f"{topic}: 1 message published, 2 bad rows")
    assert "it is not UTF-8" in err
    assert pipeline("load", topic, tmp_path / name)[0] == 1
    with_schema, without = (json.loads(message.payload) for message in taken(client, topic))
    assert with_schema == {"a": "ok", "b": 1}
    assert without == {"a": "ok", "b": "1" if name == "in.csv" else 1}


def test_a_line_of_json_is_a_message_as_it_stands(pipeline, client, tmp_path):
    lines = ['{"id":1, "no.":1.10,"big":' + "9" * 60 + "}", '{"meta":{},"deep":[{ }],"":{"":[]}}', "{}"]
    lines += ['{"_broken":1,"id":null}', '{"_broken":""," ":null}', '{"id":"\\u00e9\\ud83d\\ude00"}', '{"ID":2}']
    (tmp_path / "in.jsonl").write_text("\n".join([lines[0] + " \t", "", " \t" + lines[1], *lines[2:]]))
    assert pipeline("load", "as-it-is", tmp_path / "in.jsonl")[:2] == (0, "as-it-is: 7 messages published\n")
    assert [message.payload.decode() for message in taken(client, "as-it-is")] == lines


def test_members_that_are_empty_objects_are_kept(pipeline, client, tmp_path):
    rows = [{"id": n, "meta": {}, "deep": {"x": {}, "y": 1}, "all": [{}], "{ }": 'a "{}', 'a"{}': 1} for n in range(2)]
    rows.append({**rows[0], "id": 2, "text": "{" + '\\"{}' * 100_000})
    (tmp_path / "in.jsonl").write_text("\n".join(json.dumps({"text": None, **row}) for row in rows))
    assert pipeline("load", "hollow", tmp_path / "in.jsonl")[0] == 0
    messages = [json.loads(message.payload) for message in taken(client, "hollow")]
    assert messages == [{"text": None, **row} for row in rows]


def test_members_that_are_asked_for_are_found_whatever_their_names_and_values(pipeline, client, tmp_path):
    lines = ['{"":{"":{}},"a.b":1,"`\'\\"":"x"}', '{"a.b":{"c":null},"A.B":3}', '{"a.b":null,"_broken":4}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    flags = ("-key", "a.b", "-headers", "h=`'\"")
    assert pipeline("load", "named", *flags, "-columns", "a.b,_broken", tmp_path / "in.jsonl")[0] == 0
    assert [(message.payload, message.key, message.headers) for message in taken(client, "named")] == [
        (b'{"a.b":1,"_broken":null}', b"1", (("h", b"x"),)),
        (b'{"a.b":{"c":null},"_broken":null}', b'{"c":null}', ()),
        (b'{"a.b":null,"_broken":4}', b"", ()),
    ]
    assert pipeline("load", "named", *flags, tmp_path / "in.jsonl")[0] == 0
    assert [message.payload.decode() for message in taken(client, "named")] == lines


@pytest.mark.parametrize(("schema", "message"), [("", '{"a":{}}'), ("`` int, ____ string", '{"":1,"____":"x"}')])
def test_what_is_one_value_and_no_object_is_set_aside(pipeline, client, tmp_path, schema, message):
    bad = ['[{"a":1}]', '[{"a":1},{"a":2}]', "1", "null", '"{}"', "[]"]
    (tmp_path / "in.jsonl").write_text("\n".join([*bad, message]))
    topic = f"values-{bool(schema)}"
    code, out, _ = pipeline("load", topic, "-schema", schema, "-run-id", "r", tmp_path / "in.jsonl")
    assert (code, out.partition(" in ")[0]) == (1, f"{topic}: 1 message published, 6 bad rows")
    assert {row["cause"] for row in quarantined(tmp_path / "bad")} == {"it is not a JSON object"}
    assert [one.payload.decode() for one in taken(client, topic)] == [message]


@pytest.mark.parametrize(
    ("name", "text", "schema_and_cause"),
    [
        ("in.csv", '_broken,a\n1,2\n3,"4,",5\n', ("", "its number of fields is 3, not 2")),
        ("in.jsonl", '{"_broken":"1","a":"2"}\n{"_broken":"","a"}\n', ("_broken string, a string", "it is not JSON")),
        ("nan.jsonl", '{"_broken":"1","a":"2"}\n{"a":NaN}\n', ("", "it is not JSON")),
    ],
)
def test_a_column_that_is_named_broken_is_not_lost(pipeline, client, tmp_path, name, text, schema_and_cause):
    schema, cause = schema_and_cause
    (tmp_path / name).write_text(text)
    code, out, err = pipeline("load", name, "-schema", schema, tmp_path / name)
    assert (code, out.partition(" in ")[0]) == (1, f"{name}: 1 message published, 1 bad row")
    assert f"row {text.count(chr(10))}: {cause}\n" in err
    assert [message.payload for message in taken(client, name)] == [b'{"_broken":"1","a":"2"}']


def test_a_byte_order_mark_of_some_files_is_in_no_name_and_no_value(pipeline, client, tmp_path):
    (tmp_path / "in").mkdir()
    mark = b"\xef\xbb\xbf"
    for number, begin in enumerate([mark, b"", mark]):
        (tmp_path / "in" / f"{number}.csv").write_bytes(begin + b"id,x\n%d,2\n" % number)
        (tmp_path / "in" / f"{number}.jsonl").write_bytes(begin + b'{"id":"%d","x":"2"}' % number)
    for pattern in ("*.csv", "*.jsonl"):
        assert pipeline("load", "marked", "-key", "id", tmp_path / "in" / pattern)[0] == 0
        messages = {message.key: message.payload for message in taken(client, "marked")}
        assert messages == {b"%d" % number: b'{"id":"%d","x":"2"}' % number for number in range(3)}


def test_blank_lines_in_front_of_the_names_of_csv_are_skipped(pipeline, client, tmp_path):
    (tmp_path / "in.csv").write_text("\n \nid,x\n1,2\n")
    assert pipeline("load", "blank", tmp_path / "in.csv")[0] == 0
    assert [message.payload for message in taken(client, "blank")] == [b'{"id":"1","x":"2"}']


def test_a_file_without_rows_is_no_mistake(pipeline, tmp_path):
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert pipeline("load", "empty", tmp_path / "empty.csv")[:2] == (0, "empty: 0 messages published\n")


@pytest.mark.parametrize(("text", "done"), [("", "0 messages"), ("{}\n", "1 message"), ("nonsense\n", "0 messages")])
def test_json_lines_of_which_none_has_a_member_lack_no_column(pipeline, tmp_path, text, done):
    (tmp_path / "in.jsonl").write_text(text)
    code, out, _ = pipeline("load", "bare", "-key", "id", tmp_path / "in.jsonl")
    assert (code, out.startswith(f"bare: {done} published")) == (int(text == "nonsense\n"), True)


def test_lines_that_are_no_json_are_set_aside(pipeline, client, tmp_path):
    file = tmp_path / "in.jsonl"
    file.write_text('{"a":1}\nnonsense\n{"a":2}\n{"a":\n')
    code, out, _ = pipeline("load", "json", "-run-id", "r", file)
    assert (code, out.partition(" in ")[0]) == (1, "json: 2 messages published, 2 bad rows")
    assert [(row["row"], row["record"]) for row in quarantined(tmp_path / "bad")] == [(2, "nonsense"), (4, '{"a":')]
    assert [message.payload for message in taken(client, "json")] == [b'{"a":1}', b'{"a":2}']


@pytest.mark.parametrize("schema", [(), ("-schema", "a struct<b:int>, c int")])
def test_a_line_of_which_spark_would_lose_a_part_is_set_aside_and_the_others_are_loaded(
    pipeline, client, tmp_path, schema
):
    topic = f"doubled-{len(schema)}"
    good = '{"a":{"b":1},"c":2}'
    bad = ['{"c":1,"c":2}', '{"a":{"b":1,"b":2}}', '{"c":1} {"c":2}', '{"c":1},{"c":2}', '{"c":1} and more']
    bad += ['{"c":1}] {"c":2}', '{"c":1}] and more', '{"c":1},"the end of the line"]']
    (tmp_path / "in.jsonl").write_text("\n".join([*bad, good]))
    code, _, err = pipeline("load", topic, *schema, "-run-id", "r", tmp_path / "in.jsonl")
    assert (code, "in.jsonl, row 1: it is not one JSON object, or has a member twice" in err) == (1, True)
    assert [(row["row"], row["record"]) for row in quarantined(tmp_path / "bad")] == [*enumerate(bad, 1)]
    assert [json.loads(message.payload) for message in taken(client, topic)] == [json.loads(good)]


def test_names_that_differ_in_case_are_different_names(pipeline, client, tmp_path):
    (tmp_path / "in.csv").write_text("id,ID\n1,2\n")
    assert pipeline("load", "cases", "-key", "ID", tmp_path / "in.csv")[0] == 0
    (tmp_path / "in.jsonl").write_text('{"id":1}\n{"ID":2}\n')
    assert pipeline("load", "cases", "-key", "ID", tmp_path / "in.jsonl")[0] == 0
    messages = [(message.key, json.loads(message.payload)) for message in taken(client, "cases")]
    assert messages == [(b"2", {"id": "1", "ID": "2"}), (b"", {"id": 1}), (b"2", {"ID": 2})]


@pytest.mark.parametrize("other", ["x,id\n1,2\n", "id\n1\n", "\n7,8\nid,x\n"])
def test_a_file_of_csv_that_begins_with_other_names_is_refused_and_named(pipeline, tmp_path, other):
    (tmp_path / "a.csv").write_text("\n \nid,x\n1,2\n")
    (tmp_path / "b.csv").write_text(other)
    (tmp_path / "c.csv").write_text("id,x\n" + "3,4\n" * 10)
    code, _, err = pipeline("load", "swapped", tmp_path / "[ac].csv", tmp_path / "b.csv")
    assert (code, "the first line differs from that of" in err, "b.csv" in err) == (78, True, True)
    assert pipeline("load", "swapped", tmp_path / "[ac].csv")[:2] == (0, "swapped: 11 messages published\n")


def test_a_first_line_of_csv_that_is_no_names_but_very_long_is_refused(pipeline, tmp_path):
    (tmp_path / "in.csv").write_text("x" * 200_000 + "\n")
    code, _, err = pipeline("load", "endless", tmp_path / "in.csv")
    assert (code, "in.csv: the first line does not name the columns: " in err) == (78, True)


def test_a_first_line_of_csv_that_is_no_text_is_refused(pipeline, tmp_path):
    (tmp_path / "in.csv").write_bytes(b"id,caf\xe9\n1,2\n")
    code, _, err = pipeline("load", "latin", tmp_path / "in.csv")
    assert (code, "in.csv: the first line is not UTF-8" in err) == (78, True)


@pytest.mark.parametrize("schema", [" ", "long", "a int,"])
def test_a_schema_that_names_no_columns_is_refused(pipeline, tmp_path, schema):
    (tmp_path / "in.jsonl").write_text('{"a":1}\n')
    assert pipeline("load", "t", "-schema", schema, tmp_path / "in.jsonl")[0] == 78


@pytest.mark.parametrize("schema", ["id int, id int", "a int, n struct<b:map<string,array<struct<id:int,id:int>>>>"])
@pytest.mark.parametrize("name", ["in.jsonl", "in.csv"])
def test_a_schema_that_names_a_column_twice_is_refused(pipeline, tmp_path, name, schema):
    (tmp_path / name).write_text("{}\n")
    code, _, err = pipeline("load", "twice-in-schema", "-schema", schema, tmp_path / name)
    assert (code, "the schema has the column 'id' twice\n" in err) == (78, True)


def test_a_column_that_is_asked_for_twice_is_refused(pipeline, spark, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id":1}\n')
    (tmp_path / "in.csv").write_text("id\n1\n")
    spark.range(1).write.parquet(str(tmp_path / "in.parquet"))
    for name in ("in.jsonl", "in.csv", "in.parquet"):
        code, _, err = pipeline("load", "twice-asked", "-columns", "id,id", tmp_path / name)
        assert (code, "a message cannot have the column 'id' twice\n" in err) == (78, True)


def test_a_schema_may_name_columns_that_differ_in_case_but_not_for_parquet(pipeline, client, spark, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id":1,"ID":2}\n')
    job = ("-schema", "id long, ID long", "-columns", "ID,id")
    assert pipeline("load", "cases-of-schema", *job, tmp_path / "in.jsonl")[0] == 0
    assert [message.payload for message in taken(client, "cases-of-schema")] == [b'{"ID":2,"id":1}']
    spark.range(1).write.parquet(str(tmp_path / "in.parquet"))
    code, _, err = pipeline("load", "cases-of-schema", *job, tmp_path / "in.parquet")
    assert (code, "The column `id` already exists" in err) == (78, True)


def test_a_member_that_is_in_no_line_of_json_is_named(pipeline, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"a":1,"b":2}\n{"d":3}\n')
    code, _, err = pipeline("load", "t", "-key", "c", "-columns", "d", tmp_path / "in.jsonl")
    assert (code, "there is no column c; there are a, b, d" in err) == (78, True)
