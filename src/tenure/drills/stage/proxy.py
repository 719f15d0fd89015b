"""A TCP proxy between a client and its database that fails on demand."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType

from .handshake import kind_of, no, rest_of, without_secret
from .server_address import ServerAddress
from .sockets import ATTACH_FILTER, DETACH_FILTER, close, reset, set_filter, unacknowledged

HELLO_SECONDS_MAX = 5.0
STRANGERS_MAX = 64
ASKS_MAX = 3  # SSL, GSS, and plain
REFUSAL = "this line belongs to a drill, and its secret was not shown: connect by the address that the drill gives"
SETTLE_SECONDS_MAX = 5.0

Pair = tuple[socket.socket, socket.socket]


class _Stranger(Exception):
    """This client is not let through."""


class FaultProxy:
    """Forwards loopback TCP to a server's port or unix socket; `url` is the server's address through it.

    Only clients that have `url` get through: it contains a secret, which the first packet of a connection must show and
    which the server never sees. Every user of a machine can connect to its loopback; and a server behind a unix socket
    may ask for no password, because file permissions protect the socket. Two kinds of connections pass without the
    secret: a cancel request, which has the key of its session, and a connection that a TCP server agreed to encrypt,
    because we cannot read it; there the server's own authentication protects it, as without a proxy.

    It passes everything at first, and again after `heal()`. Use it as a context manager.
    """

    def __init__(self, url: str) -> None:
        self._server = ServerAddress(url)
        self._secret = secrets.token_hex(16)
        self._flowing = threading.Event()
        self._lock = threading.Lock()  # for the lists of clients, and for whether packets are dropped
        self._pairs: list[Pair] = []
        self._stranded: list[socket.socket] = []  # of these clients nothing is forwarded any more
        self._strangers: list[socket.socket] = []  # have not shown the secret yet; the oldest first
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._refusing = self._dropping_replies = self._dropping_packets = self._closed = False
        self._delay_seconds = 0.0
        self._flowing.set()

    @property
    def url(self) -> str:
        """The server's address through this proxy, with the secret in it: treat it as a password."""
        return self._server.through(self._listener, self._secret)

    @property
    def connections(self) -> int:
        """How many connections are open through it."""
        return len(self._pairs)

    def heal(self) -> None:
        """Pass everything, also what `blackhole` held back."""
        self._refusing = self._dropping_replies = False
        self._delay_seconds = 0.0
        self._filter(DETACH_FILTER)
        self._flowing.set()

    def blackhole(self) -> None:
        """Drop packets both ways, as if a cable was pulled: nothing is forwarded or acknowledged.

        Where the kernel cannot drop packets (`can_drop_packets`), they are still acknowledged.
        """
        self._flowing.clear()
        # The kernel would send again what the peer has not acknowledged, and that is a sign of life.
        by = time.monotonic() + SETTLE_SECONDS_MAX
        while any(unacknowledged(end) for end in self._ends()):
            if time.monotonic() > by:
                raise TimeoutError(f"data that was sent is not acknowledged after {SETTLE_SECONDS_MAX:.0f} s")
            time.sleep(0.001)
        self._filter(ATTACH_FILTER)

    def drop_replies(self) -> None:
        """Pass requests and drop the server's replies; TCP itself stays healthy."""
        self._dropping_replies = True

    def strand(self) -> None:
        """Drop what passes on open connections, both ways, for ever; clients see them open. New connections pass."""
        with self._lock:
            self._stranded += [pair[0] for pair in self._pairs]

    def refuse(self) -> None:
        """Reset every new connection; open ones stay."""
        self._refusing = True

    def delay(self, seconds: float) -> None:
        """Hold every packet back for so long, both ways."""
        self._delay_seconds = seconds

    def cut(self) -> None:
        """Reset every open connection at once."""
        for end in self._ends():
            reset(end)

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        with self._lock:
            self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    # -- new clients

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refusing:
                    reset(client)
                    continue
                self._receive(client)
                threading.Thread(target=self._meet, args=[client], daemon=True).start()

    def _receive(self, client: socket.socket) -> None:
        """Add a new client; if too many have not shown the secret, the oldest of them is reset."""
        with self._lock:
            self._strangers.append(client)
            if self._dropping_packets:  # it connected before the listener had the filter
                set_filter(client, ATTACH_FILTER)
            over = self._strangers.pop(0) if len(self._strangers) > STRANGERS_MAX else None
        if over is not None:
            reset(over)

    def _meet(self, client: socket.socket) -> None:
        """Forward for a client that shows the secret; end one that does not, or is too slow."""
        try:
            self._introduce(client)
        except _Stranger:
            self._end(client)
        except OSError:  # the server cannot be reached, or the client has left
            reset(client)
            self._end(client)

    def _introduce(self, client: socket.socket) -> None:
        server: socket.socket | None = None
        for _ in range(ASKS_MAX):
            packet = self._first_packet(client)
            kind = kind_of(packet)
            if kind == "encryption" and self._server.is_unix_socket:
                self._forward(b"N", client, replies=True)
                continue
            if kind in ("startup", "nonsense") or (self._server.is_unix_socket and kind == "tls"):
                packet = self._checked(client, packet)
            server = server or self._let_in(client)
            self._forward(packet, server, replies=False)
            if kind != "encryption" or self._agrees(client, server):
                self._pass((client, server), only_replies=kind == "cancel")
                return
        raise _Stranger

    def _first_packet(self, client: socket.socket) -> bytes:
        """The next packet of a client that is not let in yet; only its first four bytes if they are not a length."""
        length = self._heard(client, 4)
        rest = rest_of(length)
        return length if rest is None else length + self._heard(client, rest)

    def _heard(self, client: socket.socket, n: int) -> bytes:
        """Exactly n bytes within the time limit; the time does not count while the proxy itself holds data back."""
        by, said = time.monotonic() + HELLO_SECONDS_MAX, b""
        while len(said) < n:
            client.settimeout(max(0.01, by - time.monotonic()))
            try:
                part = client.recv(n - len(said))
            except TimeoutError:
                if self._flowing.is_set() and not self._dropping_replies:
                    raise _Stranger from None
                by = time.monotonic() + HELLO_SECONDS_MAX
                continue
            if not part:
                raise _Stranger
            said += part
        client.settimeout(None)
        return said

    def _checked(self, client: socket.socket, packet: bytes) -> bytes:
        """The packet for the server if it shows the secret; else the client gets a refusal, and the server nothing."""
        known = without_secret(packet, self._secret) if kind_of(packet) == "startup" else None
        if known is None:
            client.sendall(no("28000", REFUSAL))
            raise _Stranger
        return known

    def _let_in(self, client: socket.socket) -> socket.socket:
        """Let a client in, and open its connection to the server."""
        server = self._dial()
        with self._lock:
            if self._closed or client not in self._strangers:  # it was reset for a newer one, or the proxy has ended
                reset(server)
                raise _Stranger
            self._strangers.remove(client)
            self._pairs.append((client, server))
            if self._dropping_packets:
                set_filter(server, ATTACH_FILTER)
        return server

    def _agrees(self, client: socket.socket, server: socket.socket) -> bool:
        """Does the server agree to encrypt? Then we cannot read what follows."""
        answer = server.recv(1)
        if answer not in (b"N", b"S", b"G"):
            raise _Stranger
        self._forward(answer, client, replies=True)
        return answer != b"N"

    def _dial(self) -> socket.socket:
        """A new connection to the server."""
        if self._refusing:
            raise ConnectionRefusedError
        return self._server.dial()

    # -- forwarding

    def _pass(self, pair: Pair, *, only_replies: bool) -> None:
        """Forward both ways, one of them on this thread, until one end closes."""
        threading.Thread(target=self._pump, args=(pair, *pair[::-1], True), daemon=True).start()
        if not only_replies:
            self._pump(pair, *pair, False)

    def _pump(self, pair: Pair, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        with suppress(OSError):
            while part := source.recv(65536):
                if pair[0] not in self._stranded:
                    self._forward(part, sink, replies=replies)
        if not (replies and pair[0] in self._stranded):
            self._end(pair[0])

    def _forward(self, part: bytes, sink: socket.socket, *, replies: bool) -> None:
        self._flowing.wait()
        if replies and self._dropping_replies:
            return
        time.sleep(self._delay_seconds)
        sink.sendall(part)

    def _end(self, client: socket.socket) -> None:
        """Close a client, and its connection to the server if it has one."""
        with self._lock:
            ends = next((pair for pair in self._pairs if pair[0] is client), (client,))
            self._pairs = [pair for pair in self._pairs if pair[0] is not client]
            self._stranded = [each for each in self._stranded if each is not client]
            self._strangers = [each for each in self._strangers if each is not client]
        for end in ends:
            close(end)

    def _ends(self) -> list[socket.socket]:
        with self._lock:
            return [*self._strangers, *(end for pair in self._pairs for end in pair)]

    def _filter(self, option: int) -> None:
        """Set or remove the filter that drops every packet, on all sockets; new ones inherit it from the listener."""
        with self._lock:
            self._dropping_packets = option == ATTACH_FILTER
            for end in (self._listener, *self._strangers, *(end for pair in self._pairs for end in pair)):
                set_filter(end, option)
