"""A broker with users, and the clients that others wrote: what they need to get in is what they always do."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
import redis

from tests.acceptance import patient
from tests.acceptance.curl import Curl
from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust, run_to_end
from tests.acceptance.tools import MAX_SECONDS, needs, on_both_http_servers, run
from tests.acceptance.users import PASSWORD, UsersFile

pytestmark = [pytest.mark.acceptance, needs("curl", "redis-cli"), on_both_http_servers]


@pytest.fixture(scope="module")
def tokens() -> dict[str, str]:
    """By user; filled when the broker is started."""
    return {}


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory, tokens: dict[str, str]) -> UsersFile:
    file = UsersFile(tmp_path_factory.mktemp("users"))
    file.add_with_password("ada", "-publisher", "*", "-subscriber", "*")
    for name, flags in (("reader", ("-subscriber", "*")), ("boss", ("-admin", "*")), ("watch", ("-monitor", "*"))):
        tokens[name] = file.add(name, *flags)
    return file


@pytest.fixture(scope="module")
def broker(
    trust: Trust, users: UsersFile, tmp_path_factory: pytest.TempPathFactory, http_server: str
) -> Iterator[BrokerProcess]:
    """In place of the common one: with users, and so free to listen anywhere."""
    flags = ["-users", str(users.path), "-host", "0.0.0.0", "-http-server", http_server]
    process = BrokerProcess([*FREE_PORTS, *trust.flags, *flags], cwd=tmp_path_factory.mktemp("broker"))
    try:
        yield process.wait_until_ready()
        process.stop()
        assert PASSWORD not in process.output
    finally:
        process.end()


@pytest.fixture
def curl(broker: BrokerProcess, trust: Trust) -> Curl:
    return Curl(broker, trust)


@pytest.fixture
def redis_cli(broker):
    def call(*words: str) -> str:
        done = subprocess.run(
            ["redis-cli", "-p", str(broker.resp_port), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=MAX_SECONDS,
        )
        return done.stdout + "".join(line for line in done.stderr.splitlines() if "may not be safe" not in line)

    return call


def test_redis_cli_with_a_user_and_with_a_token(redis_cli, topic, tokens):
    assert redis_cli("--user", "ada", "--pass", PASSWORD, "PUBLISH", topic, "x") == "OK\n"
    assert redis_cli("-3", "--user", "ada", "--pass", PASSWORD, "PUBLISH", topic, "x") == "OK\n"
    assert redis_cli("-a", tokens["boss"], "PUBLISH", topic, "x") == "OK\n"
    assert redis_cli("-a", tokens["reader"], "PUBLISH", topic, "x").startswith("NOPERM this user has no permissions")
    assert redis_cli("PUBLISH", topic, "x") == "NOAUTH Authentication required.\n\n"
    assert "WRONGPASS" in redis_cli("-a", "wrong", "PING")


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_with_a_user(broker, topic, tokens, protocol):
    options = {"port": broker.resp_port, "protocol": protocol}
    with patient.Redis(username="ada", password=PASSWORD, **options) as ada:
        assert ada.execute_command("PUBLISH", topic, "x") == b"OK"
        with pytest.raises(redis.exceptions.NoPermissionError):
            ada.execute_command("TOPIC DELETE", topic)
    with patient.Redis(password=tokens["boss"], **options) as boss:
        assert boss.execute_command("TOPIC DELETE", topic) == b"OK"
    eve = patient.Connection(username="ada", password="wrong", **options)
    with pytest.raises(redis.AuthenticationError):
        eve.connect()
    with patient.Redis(**options) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.execute_command("TOPICS")


def test_curl_with_a_user_and_with_a_token(curl, topic, tokens):
    path = f"/publish/{topic}"
    assert curl(path, "-u", f"ada:{PASSWORD}", body=b"x").status == 201
    assert curl(path, "-H", f"Authorization: Bearer {tokens['boss']}", body=b"x").status == 201
    assert curl(path, "-H", f"Authorization: Bearer {tokens['reader']}", body=b"x").status == 403
    assert curl(path, "-u", "ada:wrong", body=b"x").status == 401
    assert curl(path, body=bytes(1 << 19)).status == 401, "also when the body is still on its way"
    assert curl(f"/{topic}", "-X", "DELETE", "-u", f"ada:{PASSWORD}").status == 403
    answer = curl(f"/{topic}", "-X", "DELETE", "-H", f"Authorization: Bearer {tokens['boss']}")
    assert answer.status == 200


def test_curl_is_told_how_to_say_who_it_is(curl, broker, trust):
    said = run(["curl", "-s", "-i", "--cacert", trust.ca, broker.url("/publish/t"), "-d", "x"]).decode().lower()
    assert 'www-authenticate: basic realm="miniqueue"' in said
    assert 'www-authenticate: bearer realm="miniqueue"' in said


def test_the_monitoring_port_tells_strangers_that_it_is_there_and_no_more(broker, users, tokens, tmp_path):
    assert broker.monitor("/healthz")
    assert broker.monitor("/readyz")
    for path in ("/metrics", "/stats", "/backup"):
        with pytest.raises(HTTPError, match="401"):
            broker.monitor(path)
    address = f"http://127.0.0.1:{broker.monitor_port}"
    stats = run(["curl", "-sf", "-H", f"Authorization: Bearer {tokens['watch']}", f"{address}/stats"])
    assert "topics" in json.loads(stats)


def test_a_backup_takes_the_token_of_an_admin(broker, users, tmp_path):
    ports = ("-monitor-port", str(broker.monitor_port))
    for name, code in (("watch", 69), ("boss", 0)):
        flags = ("-token-file", users.token_file(name))
        done = run_to_end("backup", *ports, *flags, str(tmp_path / name), cwd=tmp_path)
        assert done.returncode == code, done.stderr
    assert run_to_end("export", *ports, cwd=tmp_path).returncode == 69
    assert run_to_end("export", *ports, "-token-file", "no", cwd=tmp_path).returncode == 78


def test_sighup_cuts_off_who_is_gone_and_nobody_else(start_broker, trust, tmp_path, http_server):
    users = UsersFile(tmp_path)
    tokens = {name: users.add(name, "-subscriber", "*", "-publisher", "*") for name in ("gone", "kept")}
    broker = start_broker("data", "-users", str(users.path), "-http-server", http_server)
    gone, kept = (patient.Connection(port=broker.resp_port, password=tokens[name]) for name in ("gone", "kept"))
    for connection in (kept, gone):
        connection.send_command("PUBLISH", "t", "x")
        assert connection.read_response() == b"OK"
    gone.send_command("SUBSCRIBE", "t")
    assert gone.read_response() == b"x"
    users.run("remove", "gone")
    broker.process.send_signal(signal.SIGHUP)
    broker.wait_for_event("users read again")
    with pytest.raises(redis.ConnectionError):
        gone.read_response()
    kept.send_command("SUBSCRIBE", "t")
    assert kept.read_response() == b"x", "what was held is back"
    users.path.write_text("[user.kept")
    broker.process.send_signal(signal.SIGHUP)
    broker.wait_for_event("the users stay as they were: their file cannot be used")
    kept.send_command("ACK")
    assert kept.read_response() == b"OK"
    for connection in (gone, kept):
        connection.disconnect()
    broker.stop()


def test_quotas_of_a_running_broker_change_on_sighup_and_cut_off_nobody(start_broker, trust, tmp_path, http_server):
    users = UsersFile(tmp_path)
    token = users.add("ada", "-admin", "*")
    users.run("quota", "-max-topics", "1", "ada")
    broker = start_broker("data", "-users", str(users.path), "-http-server", http_server)
    ada = patient.Connection(port=broker.resp_port, password=token)

    def publish(topic):
        ada.send_command("PUBLISH", topic, "x")
        return ada.read_response()

    assert publish("{a}") == b"OK"
    with pytest.raises(redis.ResponseError, match=r"one user may have, 1 \(max_topics\)"):
        publish("{a}b")
    users.run("quota", "-max-topics", "2", "-max-connections", "1", "ada")
    broker.process.send_signal(signal.SIGHUP)
    broker.wait_for_events("users read again")
    assert publish("{a}b") == b"OK"
    reply = Curl(broker, trust)("/publish/%7Ba%7Db", "-H", f"Authorization: Bearer {token}", body=b"x")
    assert reply.status == (507 if http_server == "hypercorn" else 201), "Granian shows no connections"
    assert publish("{a}b") == b"OK", "the connection that is there stays"
    ada.disconnect()
    broker.stop()


def test_a_users_file_that_cannot_be_used_is_78(trust, tmp_path: Path, http_server):
    for content, word in ((None, "it is missing"), ("[user.x]\nsecret = 'x'\n", "key secret")):
        if content is not None:
            (tmp_path / "users.toml").write_text(content)
            (tmp_path / "users.toml").chmod(0o600)
        done = run_to_end(*FREE_PORTS, *trust.flags, "-users", "users.toml", cwd=tmp_path)
        assert done.returncode == 78
        assert word in done.stderr
