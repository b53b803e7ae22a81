"""`miniqueue context`, and which broker a command uses."""

import stat

import pytest

from miniqueue.commands.shell.contexts import Context, Contexts, read_contexts, write_contexts

pytestmark = pytest.mark.acceptance


def test_contexts_are_added_chosen_listed_and_removed(without_url):
    assert without_url.out("context", "list") == "context  in use  url  user\n"
    assert without_url.out("context", "add", "home", "--url", "redis://localhost") == "home: added, in use\n"
    assert (
        without_url.out("context", "add", "prod", "--url", "rediss://a:b@queue:1", "--user", "ada") == "prod: added\n"
    )
    assert without_url.out("context", "list").splitlines() == [
        "context  in use  url                user",
        "home     yes     redis://localhost  –",
        "prod     no      rediss://queue:1   ada",
    ]
    assert without_url.out("context", "use", "prod") == "prod: in use\n"
    assert without_url.out("context", "show").splitlines() == [
        "context  prod",
        "in use   yes",
        "url      rediss://queue:1",
        "user     ada",
    ]
    assert without_url.refused("context", "remove", "prod") == (
        78,
        "to remove the context 'prod', use --yes; there is no terminal on which it could be confirmed",
    )
    assert without_url.out("context", "remove", "prod", "--yes") == "prod: removed\n"
    assert without_url.refused("context", "show") == (78, "no context is in use; see miniqueue context use -h")


def test_the_file_of_contexts_is_private(without_url):
    without_url.out("context", "add", "home", "--url", "redis://ada:secret@localhost")
    path = without_url.home / "config/miniqueue/contexts.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]
    path.chmod(0o640)
    code, line = without_url.refused("ping")
    assert (code, line) == (78, f"{path}: other users can read or change it; run chmod 600")


@pytest.mark.parametrize("content", ["x", "contexts = 1", "[contexts.a]\nurl = 1", "[contexts.a]", "zzz = 1", "\xff"])
def test_a_file_of_contexts_that_is_wrong_is_refused(without_url, content):
    path = without_url.home / "config/miniqueue/contexts.toml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode("latin-1"))
    path.chmod(0o600)
    code, line = without_url.refused("ping")
    assert code == 78
    assert line.startswith(f"{path}: invalid file of contexts: ")


def test_any_name_and_any_text_is_read_as_it_was_written(tmp_path):
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    named = {name: Context("redis://x", user=name) for name in ("a", "a.b", 'q"\\', "é\n\x01\x7f", "#", " ")}
    write_contexts(environ, Contexts(named, "é\n\x01\x7f"))
    assert read_contexts(environ) == Contexts(named, "é\n\x01\x7f")


def test_flags_precede_variables_and_these_the_context_in_use(without_url, url):
    without_url.out("context", "add", "good", "--url", url)
    without_url.out("context", "add", "bad", "--url", "redis://localhost:1", "--use")
    assert without_url("ping").code == 69
    assert without_url("ping", "--context", "good").code == 0
    assert without_url("ping", "--url", url).code == 0
    assert without_url("ping", "--context", "good", "--url", "redis://localhost:1").code == 69
    without_url.variables |= {"MINIQUEUE_CONTEXT": "good"}
    assert without_url("ping").code == 0
    assert without_url("ping", "--context", "bad").code == 69
    without_url.variables |= {"MINIQUEUE_URL": "redis://localhost:1"}
    assert without_url("ping").code == 69
    assert without_url("ping", "--context", "good").code == 0


def test_a_command_beside_a_broker_finds_it_by_the_brokers_settings(without_url, broker):
    without_url.variables |= {"MINIQUEUE_RESP_PORT": str(broker.resp_port)}
    assert without_url("ping").code == 0


def test_contexts_are_completed(without_url):
    without_url.out("context", "add", "prod", "--url", "redis://queue")
    without_url.variables |= {"_MINIQUEUE_COMPLETE": "bash_complete"}
    typed = {"COMP_WORDS": "miniqueue topics --context p", "COMP_CWORD": "3"}
    assert without_url.in_a_pipe(**typed).out == "plain,prod\n"


def test_a_person_is_asked(without_url):
    without_url.out("context", "add", "prod", "--url", "redis://queue")
    shown = without_url.on_a_terminal("context", "remove", "prod", typed=b"n\n")
    question = "Remove the context 'prod'? [y/N] "
    assert (shown.code, shown.out.splitlines()[-1]) == (1, f"{question}miniqueue: nothing was done")
    assert without_url.on_a_terminal("context", "remove", "prod", typed=b"y\n").code == 0
