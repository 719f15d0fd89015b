"""A TCP proxy that fails on demand: what stands between a client and its database, as bad as a drill wants it."""

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
ASKS_MAX = 3  # for one encryption, for the other, and in plain
REFUSAL = "this is the line of a drill, and its secret was not shown: connect by the address that the drill gives"
SETTLE_SECONDS_MAX = 5.0

Pair = tuple[socket.socket, socket.socket]


class _Stranger(Exception):
    """Whoever this is, it is not let through."""


class FaultProxy:
    """Forwards loopback TCP to a server's port or unix socket; `url` is the server's address through it.

    Only who has `url` gets through: it holds a secret, which the first packet of a connection must show and which goes
    no further. Everybody on a machine can connect to its loopback, and behind a unix socket stands a server that asks
    for no password, because its folder is closed to others. Two kinds pass without it: a cancel request, which proves
    itself by its session's key, and what a TCP server has agreed to encrypt, which nobody can look into; there the
    server's own authentication stands, as for whoever connects to its port without us.

    It passes everything until told otherwise, and again after `heal()`. Use it as a context manager.
    """

    def __init__(self, url: str) -> None:
        self._server = ServerAddress(url)
        self._secret = secrets.token_hex(16)
        self._flowing = threading.Event()
        self._lock = threading.Lock()  # over who is there, and whether packets are dropped
        self._pairs: list[Pair] = []
        self._strangers: list[socket.socket] = []  # have not shown the secret yet; the longest waiting first
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._refusing = self._dropping_replies = self._dropping_packets = self._closed = False
        self._delay_seconds = 0.0
        self._flowing.set()

    @property
    def url(self) -> str:
        """Where the server is to be found behind this proxy, with the secret that lets in: pass it on as a password."""
        return self._server.through(self._listener, self._secret)

    @property
    def connections(self) -> int:
        """How many connections pass through now."""
        return len(self._pairs)

    def heal(self) -> None:
        """Pass everything, what was held back by `blackhole` included."""
        self._refusing = self._dropping_replies = False
        self._delay_seconds = 0.0
        self._filter(DETACH_FILTER)
        self._flowing.set()

    def blackhole(self) -> None:
        """Let packets vanish both ways, as behind a pulled cable: nothing is forwarded or acknowledged.

        Where packets cannot be dropped (`can_drop_packets`) they are acknowledged all the same.
        """
        self._flowing.clear()
        # The kernel would go on sending what the peer has not acknowledged yet, and that is a sign of life.
        by = time.monotonic() + SETTLE_SECONDS_MAX
        while any(unacknowledged(end) for end in self._ends()):
            if time.monotonic() > by:
                raise TimeoutError(f"what was sent has not arrived within {SETTLE_SECONDS_MAX:.0f} s")
            time.sleep(0.001)
        self._filter(ATTACH_FILTER)

    def drop_replies(self) -> None:
        """Let the server hear everything and swallow what it answers; TCP itself stays in good health."""
        self._dropping_replies = True

    def refuse(self) -> None:
        """Reset every new connection; those that stand are left alone."""
        self._refusing = True

    def delay(self, seconds: float) -> None:
        """Hold every packet back for so long, both ways."""
        self._delay_seconds = seconds

    def cut(self) -> None:
        """Reset every connection that stands, at once."""
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

    # -- who comes

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
        """Somebody has come; where too many wait to be let in, the longest waiting gives way: friends do not wait."""
        with self._lock:
            self._strangers.append(client)
            if self._dropping_packets:  # it came before the listener had the filter
                set_filter(client, ATTACH_FILTER)
            over = self._strangers.pop(0) if len(self._strangers) > STRANGERS_MAX else None
        if over is not None:
            reset(over)

    def _meet(self, client: socket.socket) -> None:
        """Let a client through that shows the secret, and then be its pump; one that does not, or dawdles, is ended."""
        try:
            self._introduce(client)
        except _Stranger:
            self._end(client)
        except OSError:  # there is no server to let it in to, or the client has left
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
        """The next packet of one that was not let in, or only its first four bytes if they are no length."""
        length = self._heard(client, 4)
        rest = rest_of(length)
        return length if rest is None else length + self._heard(client, rest)

    def _heard(self, client: socket.socket, n: int) -> bytes:
        """Just so many bytes, and soon; time does not count while it is us who keep a client waiting."""
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
        """What the server is to see of who shows the secret; everybody else is told, and the server hears nothing."""
        known = without_secret(packet, self._secret) if kind_of(packet) == "startup" else None
        if known is None:
            client.sendall(no("28000", REFUSAL))
            raise _Stranger
        return known

    def _let_in(self, client: socket.socket) -> socket.socket:
        """The server's end of a client that is no stranger any more."""
        server = self._dial()
        with self._lock:
            if self._closed or client not in self._strangers:  # it had to give way, or all of it is over
                reset(server)
                raise _Stranger
            self._strangers.remove(client)
            self._pairs.append((client, server))
            if self._dropping_packets:
                set_filter(server, ATTACH_FILTER)
        return server

    def _agrees(self, client: socket.socket, server: socket.socket) -> bool:
        """Does the server encrypt? Then what follows is between the two of them."""
        answer = server.recv(1)
        if answer not in (b"N", b"S", b"G"):
            raise _Stranger
        self._forward(answer, client, replies=True)
        return answer != b"N"

    def _dial(self) -> socket.socket:
        """The server's end of a new connection."""
        if self._refusing:
            raise ConnectionRefusedError
        return self._server.dial()

    # -- what passes

    def _pass(self, pair: Pair, *, only_replies: bool) -> None:
        """Forward both ways, one of them on this thread, until either end has had enough."""
        threading.Thread(target=self._pump, args=(pair, *pair[::-1], True), daemon=True).start()
        if not only_replies:
            self._pump(pair, *pair, False)

    def _pump(self, pair: Pair, source: socket.socket, sink: socket.socket, replies: bool) -> None:
        with suppress(OSError):
            while part := source.recv(65536):
                self._forward(part, sink, replies=replies)
        self._end(pair[0])

    def _forward(self, part: bytes, sink: socket.socket, *, replies: bool) -> None:
        self._flowing.wait()
        if replies and self._dropping_replies:
            return
        time.sleep(self._delay_seconds)
        sink.sendall(part)

    def _end(self, client: socket.socket) -> None:
        """Close a client, and the server's end of it if it has one."""
        with self._lock:
            ends = next((pair for pair in self._pairs if pair[0] is client), (client,))
            self._pairs = [pair for pair in self._pairs if pair[0] is not client]
            self._strangers = [each for each in self._strangers if each is not client]
        for end in ends:
            close(end)

    def _ends(self) -> list[socket.socket]:
        with self._lock:
            return [*self._strangers, *(end for pair in self._pairs for end in pair)]

    def _filter(self, option: int) -> None:
        """Put the filter that drops every packet on all sockets, or take it off; new ones inherit the listener's."""
        with self._lock:
            self._dropping_packets = option == ATTACH_FILTER
            for end in (self._listener, *self._strangers, *(end for pair in self._pairs for end in pair)):
                set_filter(end, option)
