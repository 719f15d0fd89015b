"""The guard of webhooks: what is not public is refused before a socket is opened.

No test here has a socket: a guard that is wrong must not make its test the attack.
"""

from __future__ import annotations

import asyncio
import ssl
from ipaddress import ip_address
from typing import Any

import httpcore
import pytest

from tenure.errors import BadSettings
from tenure.shapes.webhook.addresses import is_public
from tenure.shapes.webhook.calling import Called, Caller, Pinned
from tenure.shapes.webhook.guard import ForbiddenAddress, ForbiddenUrl, Guard, Target

BAD_URLS = [
    "http://acme.example/hook", "ftp://acme.example/", "file:///etc/passwd", "gopher://acme.example/",
    "//acme.example/", "acme.example/hook", "", "https://", "https:///hook", "https://acme.example:22/",
    "https://acme.example:0/", "https://acme.example:99999/", "https://acme.example:x/", "https://user@acme.example/",
    "https://user:word@acme.example/", "https://acme.example@127.0.0.1/", "https://127.0.0.1/", "https://127.1/",
    "https://127.0.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0177.0.0.1/",
    "https://127.0.0.1./", "https://0/", "https://0.0.0.0/", "https://10.0.0.8/", "https://172.16.0.1/",
    "https://192.168.1.1/", "https://100.100.100.200/", "https://169.254.169.254/latest/meta-data/",
    "https://168.63.129.16/", "https://192.0.0.192/", "https://198.18.0.1/", "https://224.0.0.1/",
    "https://255.255.255.255/", "https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/",
    "https://[::127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://[2001:0:7f00:1::]/",
    "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[2606:4700::1%25eth0]/", "https://[fd00:ec2::254]/",
    "https://[fec0::1]/", "https://[2001:db8::1]/", "https://[ff02::1]/", "https://[3fff::1]/", "https://[::1/",
    "https://localhost/", "https://localhost./", "https://LOCALHOST/", "https://db/",
    "https://metadata.google.internal/", "https://printer.local/", "https://a.localhost/",
    "https://acme.example\\@127.0.0.1/", "https://acme.example /", "https://acme.example/\r\nX: y",
    "https://acme.example/\0", "https://äcme.example/", "https://127。0。0。1/", "https://①27.0.0.1/",
    "https://-acme.example/", "https://acme..example/", "https://acme.example/#x", "https://" + "a" * 64 + ".example/",
    "https://acme.example/" + "a" * 2048, "https://%31%32%37.0.0.1/", "https://acme.example:443:80/", "HTTPS://1.1.1/",
    "https://1.0x1/",
]  # fmt: skip
BAD_ADDRESSES = [
    "0.0.0.0", "0.1.2.3", "10.255.255.255", "100.64.0.1", "127.0.0.1", "127.255.255.254", "168.63.129.16",
    "169.254.169.254", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.19.255.255",
    "198.51.100.1", "203.0.113.9", "224.0.0.251", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::1",
    "::127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1",
    "2001:20::1", "2001:db8::1", "2002:808:808::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fec0::1", "ff02::1", "2606:4700::1%eth0", "not an address", "",
]  # fmt: skip
GOOD_ADDRESSES = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001::200e",
]


class Without:
    """A backend without sockets: it says to which address it would have connected."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    async def connect_tcp(self, host: str, port: int, **_: Any) -> Any:
        self.asked.append((host, port))
        raise httpcore.ConnectError("there is no socket")


def lookup(*answers: list[str]) -> Any:
    """A resolver that says these, one after the other."""
    left = list(answers)

    async def say(host: str, port: int) -> list[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return say


def call(target: Target, inner: Any, found: Any, guard: Guard | None = None) -> Called:
    async def once() -> Called:
        caller = Caller(guard or Guard(), inner=inner, lookup=found)
        try:
            return await caller.post(target, {}, b"{}")
        finally:
            await caller.close()

    return asyncio.run(once())


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_bad_url_is_refused_before_anything_is_resolved(url: str) -> None:
    with pytest.raises(ForbiddenUrl):
        Guard().target(url)


def test_at_least_forty_bad_urls_are_tried() -> None:
    assert len(set(BAD_URLS)) == len(BAD_URLS) >= 40


def test_a_good_url_is_taken_in_parts() -> None:
    assert Guard().target("https://Acme.Example/hook?a=1") == Target("https", "acme.example", 443, "/hook?a=1")
    assert Guard().target("https://acme.example.:8443") == Target("https", "acme.example", 8443, "/")
    assert Guard().target("https://xn--cme-qla.example/x").host == "xn--cme-qla.example"
    assert Guard().target("https://[2606:4700::1111]/").host == "2606:4700::1111"
    assert Guard(ports=(80,), allow_http=True).target("http://acme.example/").port == 80


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_a_name_that_leads_to_a_bad_address_opens_no_socket(address: str) -> None:
    inner = Without()
    called = call(Guard().target("https://acme.example/"), inner, lookup([address]))
    assert called.status is None
    assert "not called" in called.note
    assert not inner.asked
    both = call(Guard().target("https://acme.example/"), inner, lookup(["1.1.1.1", address]))
    assert "not called" in both.note  # one of two is enough
    assert not inner.asked


@pytest.mark.parametrize("address", GOOD_ADDRESSES)
def test_a_public_address_is_connected_to_as_it_was_judged(address: str) -> None:
    inner = Without()
    called = call(Guard().target("https://acme.example/"), inner, lookup([address]))
    assert inner.asked == [(address, 443)]  # the address, not the name: nobody resolves again
    assert "no socket" in called.note
    assert is_public(ip_address(address))


def test_a_name_that_turns_private_after_it_was_looked_at_is_refused_and_without_the_guard_it_is_reached() -> None:
    target = Guard().target("https://acme.example/")
    inner, answers = Without(), lookup(["1.1.1.1"], ["127.0.0.1"])
    call(target, inner, answers)
    assert "127.0.0.1" in call(target, inner, answers).note
    assert inner.asked == [("1.1.1.1", 443)]

    naive = Without()  # control: looked at when it was added, and resolved again by whoever connects

    class Trusting(Guard):
        def judge(self, host: str, found: Any) -> list[str]:  # noqa: ARG002
            return list(found)

    call(target, naive, lookup(["127.0.0.1"]), Trusting())
    assert naive.asked == [("127.0.0.1", 443)]


def test_a_name_without_an_address_is_not_called() -> None:
    inner = Without()
    assert "no address" in call(Guard().target("https://acme.example/"), inner, lookup([])).note
    assert not inner.asked


def test_networks_are_allowed_by_name_and_no_other() -> None:
    guard = Guard(allow_networks=("10.1.0.0/16", "fd00:1::/32"))
    assert guard.target("https://10.1.2.3/").host == "10.1.2.3"
    assert guard.judge("a", ["10.1.2.3", "fd00:1::1"]) == ["10.1.2.3", "fd00:1::1"]
    for bad in ("10.2.0.1", "127.0.0.1", "fd00:2::1", "fd00:1::1%eth0"):
        with pytest.raises(ForbiddenAddress):
            guard.judge("a", [bad])
    with pytest.raises(BadSettings, match="allow_networks"):
        Guard(allow_networks=("10.1.0.1/16",))


def test_a_socket_of_the_machine_is_never_connected_to() -> None:
    with pytest.raises(ForbiddenAddress):
        asyncio.run(Pinned(Guard(), Without()).connect_unix_socket("/run/postgresql"))


class Scripted:
    """A backend whose stream answers with these bytes, and remembers what was written and the name of TLS."""

    def __init__(self, *answers: bytes, endless: bytes = b"") -> None:
        self.answers, self.endless, self.written, self.named, self.read_bytes = list(answers), endless, b"", "", 0

    async def connect_tcp(self, host: str, port: int, **_: Any) -> Any:  # noqa: ARG002
        return self

    async def start_tls(self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, **_: Any) -> Any:
        assert ssl_context.verify_mode == ssl.CERT_REQUIRED
        self.named = server_hostname or ""
        return self

    async def read(self, n: int, **_: Any) -> bytes:
        said = self.answers.pop(0) if self.answers else self.endless[:n]
        self.read_bytes += len(said)
        return said

    async def write(self, buffer: bytes, **_: Any) -> None:
        self.written += buffer

    async def aclose(self) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return ("1.1.1.1", 443) if name == "server_addr" else None


def test_the_name_stays_the_host_of_tls_and_of_the_request() -> None:
    inner = Scripted(b"HTTP/1.1 204 No Content\r\n\r\n")
    called = call(Guard().target("https://acme.example:8443/hook?a=1"), inner, lookup(["1.1.1.1"]))
    assert (called.status, called.address, inner.named) == (204, "1.1.1.1", "acme.example")
    assert inner.written.startswith(b"POST /hook?a=1 HTTP/1.1\r\nHost: acme.example:8443\r\n")


def test_an_endless_answer_is_read_to_a_limit_and_little_of_it_is_kept() -> None:
    inner = Scripted(b"HTTP/1.1 500 No\r\nretry-after: 7\r\n\r\n", endless=b"<b>\x1b[2J\n" * 100_000)
    called = call(Guard().target("https://acme.example/"), inner, lookup(["1.1.1.1"]))
    assert (called.status, called.retry_after) == (500, "7")
    assert len(called.note) <= 500
    assert called.note.isprintable()
    assert inner.read_bytes < 64 * 1024 * 4


def test_a_receiver_that_answers_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.shapes.webhook.calling.CALL_SECONDS", 0.2)

    class Silent(Scripted):
        async def read(self, n: int, **_: Any) -> bytes:  # noqa: ARG002
            await asyncio.sleep(600)
            return b""

    called = call(Guard().target("https://acme.example/"), Silent(), lookup(["1.1.1.1"]))
    assert called.note == "no answer within 0.2 s"


@pytest.mark.parametrize("status", [200, 500])
def test_a_status_is_the_answer_though_the_body_after_it_drips(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """The headers come at the last moment; what is left of the time of the call does not count any more."""
    monkeypatch.setattr("tenure.shapes.webhook.calling.CALL_SECONDS", 1.0)
    monkeypatch.setattr("tenure.shapes.webhook.calling.ANSWER_SECONDS", 1.5)

    class Dripping(Scripted):
        async def read(self, n: int, **_: Any) -> bytes:
            if not self.answers:
                await asyncio.sleep(0.05)
            return await super().read(n)

    inner = Dripping(b"HTTP/1.1 %d So\r\ncontent-length: 999999\r\n\r\n" % status, endless=b".")
    called = call(Guard().target("https://acme.example/"), inner, lookup(["1.1.1.1"]))
    assert (called.status, called.address, set(called.note)) == (status, "1.1.1.1", {"."})
    assert 1000 < called.ms < 15_000
