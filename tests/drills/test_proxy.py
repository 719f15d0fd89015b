"""The line of a drill lets through who shows its secret, keeps the secret to itself, and is held up by no stranger."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from crew import eventually
from faces.stranger import CANCEL, GSS, SSL, TLS_HELLO, startup, words
from tenure import postgres
from tenure.drills.stage import proxy as proxying
from tenure.drills.stage.handshake import kind_of, options_with, without_secret
from tenure.drills.stage.proxy import FaultProxy

pytestmark = pytest.mark.one_server
WAIT_SECONDS_MAX = 90.0
SECRET = "5" * 32


@pytest.fixture
def line(server_url: str) -> Iterator[FaultProxy]:
    with FaultProxy(server_url) as made:
        yield made


def address(line: FaultProxy) -> tuple[str, int]:
    given = conninfo_to_dict(line.url)
    return str(given["hostaddr"]), int(given["port"] or 0)


def knock(line: FaultProxy, *packets: bytes) -> bytes:
    """The answer to the last of these packets, each sent when the one before it was answered; empty for none."""
    answer = b""
    with socket.create_connection(address(line), WAIT_SECONDS_MAX) as plain:
        for packet in packets:
            plain.sendall(packet)
            try:
                answer = plain.recv(1000)
            except ConnectionResetError:
                return b""
    return answer


def secret_of(line: FaultProxy) -> str:
    return str(conninfo_to_dict(line.url)["options"]).rpartition("tenure.line=")[2]


# -- the secret


def test_who_has_the_address_gets_through_and_the_server_sees_no_secret(line: FaultProxy) -> None:
    with postgres.connect(line.url) as conn:
        assert conn.execute("SELECT current_setting('tenure.line', true)").fetchone() in ((None,), ("",))
        assert conn.execute("SHOW enable_seqscan").fetchone() == ("off",)
        assert line.connections == 1
        seen = conn.execute("SELECT a::text FROM pg_stat_activity a UNION ALL SELECT s::text FROM pg_settings s")
        assert not [text for (text,) in seen if secret_of(line) in text]


@pytest.mark.parametrize("options", ["", "-c tenure.line=", f"-c tenure.line={SECRET}", "-c tenure.line", SECRET])
def test_who_does_not_show_it_is_told_so_and_the_server_is_not_dialled(line: FaultProxy, options: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="its secret was not shown") as refused:
        psycopg.connect(make_conninfo(line.url, options=options))
    assert secret_of(line) not in str(refused.value)
    answer = knock(line, startup(options))
    assert (answer[:1], b"C28000\0" in answer, b"SFATAL\0" in answer) == (b"E", True, True)
    assert line.connections == 0


def test_every_line_has_a_secret_of_its_own(line: FaultProxy, server_url: str) -> None:
    with FaultProxy(server_url) as other, pytest.raises(psycopg.OperationalError, match="secret"):
        psycopg.connect(make_conninfo(line.url, options=f"-c tenure.line={secret_of(other)}"))


def test_settings_of_the_address_and_of_the_environment_stay(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=7MB")
    for given, expected in (({}, "7MB"), ({"options": "-c work_mem=9MB"}, "9MB")):
        with FaultProxy(make_conninfo(server_url, **given)) as line, psycopg.connect(line.url) as conn:
            assert conn.execute("SHOW work_mem").fetchone() == (expected,)


def test_a_packet_without_the_secret_is_as_if_it_had_never_been_there() -> None:
    for options in ("", "-c jit=off", r"-c a.b=x\ y  -c c.d=é"):
        plain = startup(options)
        if options:
            assert kind_of(plain) == "startup"
        assert without_secret(startup(options_with(SECRET, options)), SECRET) == plain
        assert without_secret(plain, SECRET) is None


@pytest.mark.parametrize(
    "options", [f"-c tenure.line={SECRET}0", f"-c tenure.line=0{SECRET}", f"-c x=-c\\ttenure.line={SECRET}", "=" * 5000]
)
def test_nothing_but_the_very_word_is_the_secret(options: str) -> None:
    assert without_secret(startup(options), SECRET) is None


# -- other first words


@pytest.mark.parametrize("question", [SSL, GSS])
def test_a_unix_socket_encrypts_nothing_and_what_follows_in_plain_needs_the_secret(
    line: FaultProxy, question: int
) -> None:
    if conninfo_to_dict(line.url).get("sslmode") != "disable":
        pytest.skip("this server is reached by TCP")
    assert knock(line, words(question)) == b"N"
    assert knock(line, words(question), startup())[:1] == b"E"
    assert knock(line, *[words(question)] * (proxying.ASKS_MAX + 1)) == b""
    assert knock(line, TLS_HELLO)[:1] in (b"", b"E")
    assert line.connections == 0


class Answering:
    """A TCP server that answers each first packet with the next of these words, and keeps what it hears after it."""

    def __init__(self, *words: bytes) -> None:
        self.heard: list[bytes] = []
        self._words = words
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"host=127.0.0.1 port={self._listener.getsockname()[1]} user=tenure"

    def _serve(self) -> None:
        conn, _ = self._listener.accept()
        with closing(self._listener), conn, suppress(ConnectionResetError):  # the line ends by RST
            for word in self._words:
                self.heard.append(conn.recv(1000))
                conn.sendall(word)
            while part := conn.recv(1000):
                self.heard.append(part)


def test_a_tcp_server_that_encrypts_is_left_to_its_own_authentication() -> None:
    server = Answering(b"S", b"hello")
    with FaultProxy(server.url) as line:
        assert knock(line, words(SSL), b"as good as TLS") == b"hello"
    assert server.heard == [words(SSL), b"as good as TLS"]


def test_a_tcp_server_that_does_not_encrypt_hears_nothing_without_the_secret() -> None:
    server = Answering(b"N")
    with FaultProxy(server.url) as line:
        answer = knock(line, words(SSL), startup())
        assert (answer[:1], b"C28000\0" in answer) == (b"E", True)
    assert server.heard == [words(SSL)]


def test_who_begins_with_tls_is_left_to_a_tcp_server() -> None:
    server = Answering(b"hello")
    with FaultProxy(server.url) as line, socket.create_connection(address(line), WAIT_SECONDS_MAX) as client:
        client.sendall(TLS_HELLO)
        eventually(lambda: b"".join(server.heard) == TLS_HELLO)
        assert client.recv(5) == b"hello"


def test_a_statement_is_cancelled_through_the_line(line: FaultProxy) -> None:
    with psycopg.connect(line.url, autocommit=True) as conn:
        # Not cancel(): that waits for the line without letting any other thread of this process run.
        cancelling = threading.Timer(0.3, conn.cancel_safe)
        cancelling.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute("SELECT pg_sleep(60)")
        cancelling.join(WAIT_SECONDS_MAX)


def test_behind_a_cancel_request_nothing_passes(line: FaultProxy) -> None:
    assert knock(line, words(CANCEL, 1, 1) + startup(options_with(secret_of(line), ""))) == b""


@pytest.mark.parametrize(
    "packet",
    [
        struct.pack("!I", 7),
        struct.pack("!II", 10_005, 3 << 16),
        struct.pack("!II", 0xFFFFFFFF, 3 << 16),
        words(2 << 16),
        words(CANCEL) + bytes(9000),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!II", 12, 3 << 16) + b"user",
        struct.pack("!II", 9, 3 << 16) + b"\0",
    ],
)
def test_what_is_no_first_packet_is_refused(line: FaultProxy, packet: bytes) -> None:
    assert knock(line, packet)[:1] in (b"", b"E")
    assert line.connections == 0


# -- strangers who stay


def test_a_silent_stranger_holds_up_nobody_and_is_ended(line: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxying, "HELLO_SECONDS_MAX", 0.5)
    with (
        socket.create_connection(address(line), WAIT_SECONDS_MAX) as silent,
        socket.create_connection(address(line), WAIT_SECONDS_MAX) as slow,
    ):
        slow.sendall(b"\0\0")
        with psycopg.connect(line.url) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
        assert (silent.recv(1), slow.recv(1)) == (b"", b"")


def test_many_strangers_give_way_to_one_another_and_who_shows_the_secret_gets_through(line: FaultProxy) -> None:
    with ExitStack() as stack:
        there = [
            stack.enter_context(socket.create_connection(address(line), WAIT_SECONDS_MAX))
            for _ in range(proxying.STRANGERS_MAX + 8)
        ]
        eventually(lambda: len(line._strangers) == proxying.STRANGERS_MAX)
        with psycopg.connect(line.url) as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(ConnectionResetError):
            there[0].recv(1)


def test_who_waits_because_of_us_is_no_dawdler(line: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxying, "HELLO_SECONDS_MAX", 0.1)
    with socket.create_connection(address(line), WAIT_SECONDS_MAX) as silent:
        eventually(lambda: line._strangers)
        line.drop_replies()
        time.sleep(0.5)
        assert line._strangers, "its time does not count"
        line.heal()
        assert silent.recv(1) == b""


def test_a_cut_ends_strangers_too_and_nobody_is_let_in_when_it_is_over(server_url: str) -> None:
    with FaultProxy(server_url) as line:
        silent = socket.create_connection(address(line), WAIT_SECONDS_MAX)
        eventually(lambda: line._strangers)
    with silent, pytest.raises(ConnectionResetError):
        silent.recv(1)
    eventually(lambda: not line._strangers)
