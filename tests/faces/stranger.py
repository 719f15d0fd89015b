"""Another user of the machine, who tries every way in that it has; needs nothing but Python, for it may read nothing.

Facts come as JSON on stdin, and one object goes to stdout: by the name of each way, what was got by it; "" is nothing.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

SECONDS_MAX = 30.0
CHANGING = {"x-tenure": "1", "content-type": "application/json"}
GUESSES = ("", "admin", "tenure", "password", "0" * 32, "é" * 8)
SSL, GSS, CANCEL = 80_877_103, 80_877_104, 80_877_102
TLS_HELLO = bytes.fromhex("16030100050100000100")


class Stranger:
    """Knows what anybody can find out: addresses, ports, pids, the names of files; and a link that was used."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.ways: dict[str, Callable[[], str]] = {
            "the page": lambda: self.page(),
            "the numbers": lambda: self.asked("GET", "/api/overview"),
            "the rows": lambda: self.asked("GET", "/api/rows/export"),
            "the metrics": lambda: self.asked("GET", "/metrics"),
            "the stream": lambda: self.asked("GET", "/api/events"),
            "the drills": lambda: self.asked("GET", "/api/drills"),
            "a stage": lambda: self.asked("POST", "/api/stage", CHANGING),
            "an enqueue": lambda: self.enqueue({}),
            "a login by guessing": lambda: first(self.login(guess) for guess in GUESSES),
            "a guessed token": lambda: first(self.token(guess) for guess in GUESSES),
            "a guessed link": lambda: first(self.link(guess) for guess in GUESSES),
            "a used link": lambda: self.link(facts["used"]),
            "a forged cookie": lambda: first(self.cookie(guess) for guess in (facts["used"], *GUESSES)),
            "another host name": lambda: first(self.host(name) for name in ("localhost", "[::1]", "evil.example", "")),
            "its own origin": lambda: self.enqueue({"origin": facts["address"]}),
            "a header of proxies": lambda: self.enqueue({"x-forwarded-for": "::1"}),
            "old HTTP": lambda: self.old(),
            "Postgres on a port": lambda: self.ports(startup()),
            "Postgres by a guessed secret": lambda: self.ports(startup("-c tenure.line=" + "0" * 32)),
            "Postgres after asking for TLS": lambda: self.ports(words(SSL), startup()),
            "Postgres after asking for GSS": lambda: self.ports(words(GSS), words(SSL), startup()),
            "Postgres by beginning TLS": lambda: self.ports(TLS_HELLO, startup()),
            "Postgres behind a cancel request": lambda: self.ports(words(CANCEL, 1, 1) + startup()),
            "Postgres by its socket": lambda: self.unix(),
            "the folder of Postgres": lambda: first(map(listed, facts["folders"])),
            "its files and logs": lambda: first(map(opened, facts["files"])),
            "the environment of a process": lambda: first(opened(f"/proc/{pid}/environ") for pid in facts["pids"]),
            "the memory of a process": lambda: first(opened(f"/proc/{pid}/mem") for pid in facts["pids"]),
            "the words of a process": lambda: first(said(pid) for pid in facts["pids"]),
        }

    # -- the dashboard

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, str, bytes]:
        """Status, cookie and the first bytes of an answer."""
        with http_connection(self.facts["address"]) as asking:
            given = {"connection": "close", **headers}
            asking.request(method, path, body or (b"{}" if method == "POST" else None), given)
            answer = asking.getresponse()
            return answer.status, answer.getheader("set-cookie") or "", answer.read(200)

    def asked(self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> str:
        """Something, unless it is refused."""
        status, cookie, text = self.answer(method, path, headers or {}, body)
        return cookie or (f"{method} {path}: {status} {text!r}" if status < 300 else "")

    def page(self) -> str:
        """The page itself is nobody's secret; what would let in must not be on it."""
        _, cookie, _ = self.answer("GET", "/", {})
        with http_connection(self.facts["address"]) as asking:
            asking.request("GET", "/")
            text = asking.getresponse().read()
        return cookie or ("a link" if b"link=" in text or b"tenure.line" in text else "")

    def enqueue(self, headers: dict[str, str]) -> str:
        return self.asked("POST", "/api/rows", {**CHANGING, **headers}, b'{"kind": "k"}')

    def login(self, guess: str) -> str:
        body = json.dumps({"token": guess or "nothing"}).encode()
        return self.asked("POST", "/api/login", CHANGING, body)

    def token(self, guess: str) -> str:
        basic = base64.b64encode(f"local:{guess}".encode()).decode()
        plain = guess.encode().decode("latin-1")
        return first(
            self.asked("GET", "/api/me", {"authorization": text}) for text in (f"Bearer {plain}", f"Basic {basic}")
        )

    def link(self, guess: str) -> str:
        """Neither a GET nor a HEAD of it gives a cookie."""
        path = f"/?link={guess.encode().hex() if not guess.isascii() else guess}"
        return first(self.answer(method, path, {})[1] for method in ("HEAD", "GET"))

    def cookie(self, guess: str) -> str:
        plain, port = guess.encode().decode("latin-1"), self.facts["address"].rpartition(":")[2]
        return self.asked("GET", "/api/me", {"cookie": f"tenure={plain}; tenure-{port}={plain}"})

    def host(self, name: str) -> str:
        return self.asked("GET", "/api/me", {"host": name})

    def old(self) -> str:
        with tcp(self.port) as plain:
            plain.sendall(b"GET /api/me HTTP/1.0\r\nHost: localhost\r\n\r\n")
            text = plain.recv(200)
        return repr(text) if text.split()[1:2] == [b"200"] else ""

    @property
    def port(self) -> int:
        return int(self.facts["address"].rpartition(":")[2])

    # -- the database

    def ports(self, *packets: bytes) -> str:
        """Say this on every port, waiting for an answer between the words; got in is who is asked for no more."""
        return first(self.knock(port, packets) for port in self.facts["ports"])

    def knock(self, port: int, packets: Iterable[bytes]) -> str:
        text = b""
        try:
            with tcp(port) as plain:
                for packet in packets:
                    plain.sendall(packet)
                    text = plain.recv(500)
        except OSError:
            pass
        return f"port {port}: {text!r}" if text[:1] == b"R" else ""

    def unix(self) -> str:
        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(SECONDS_MAX)
            try:
                plain.connect(self.facts["socket"])
            except OSError:
                return ""
        return "connected"


def http_connection(address: str) -> contextlib.closing[http.client.HTTPConnection]:
    host, _, port = address.removeprefix("http://").rpartition(":")
    return contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=SECONDS_MAX))


def tcp(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)


def words(*numbers: int) -> bytes:
    """A packet of plain numbers."""
    return struct.pack(f"!{len(numbers) + 1}I", 4 * len(numbers) + 4, *numbers)


def startup(options: str = "") -> bytes:
    """The first packet of the superuser of the embedded Postgres."""
    settings = {"user": "tenure", "database": "tenure"} | ({"options": options} if options else {})
    body = struct.pack("!I", 3 << 16) + b"".join(f"{k}\0{v}\0".encode() for k, v in settings.items()) + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def first(gots: Iterable[str] | Iterator[str]) -> str:
    """The first thing that was got."""
    return next((got for got in gots if got), "")


def opened(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return f"{path}: {file.read(100)!r}"
    except OSError:
        return ""


def listed(path: str) -> str:
    try:
        return f"{path}: {os.listdir(path)}"
    except OSError:
        return ""


def said(pid: int) -> str:
    """Everybody may read the arguments of a process; they must not hold what lets in."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            text = file.read()
    except FileNotFoundError:
        return ""
    return repr(text) if b"link=" in text or b"tenure.line" in text else ""


if __name__ == "__main__":
    stranger = Stranger(json.loads(sys.stdin.read()))
    print(json.dumps({name: way() for name, way in stranger.ways.items()}))
