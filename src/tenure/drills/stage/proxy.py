"""A TCP proxy that fails on demand: what stands between a client and its database, as bad as a drill wants it."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import sys
import termios
import threading
import time
from contextlib import suppress
from types import TracebackType

from psycopg.conninfo import conninfo_to_dict, make_conninfo

SETTLE_SECONDS_MAX = 5.0
_ATTACH_FILTER, _DETACH_FILTER = 26, 27
_DROP_ALL = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # one BPF instruction: keep 0 bytes


class FaultProxy:
    """Forwards loopback TCP to a server's port or unix socket; `url` is the server's address through it.

    It passes everything until told otherwise, and again after `heal()`. Use it as a context manager.
    """

    def __init__(self, url: str) -> None:
        self._given = conninfo_to_dict(url)
        self._flowing = threading.Event()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._refusing = self._dropping_replies = False
        self._delay_seconds = 0.0
        self._flowing.set()

    @property
    def url(self) -> str:
        """Where the server is to be found behind this proxy."""
        address, port = self._listener.getsockname()
        named = str(self._given.get("host") or address)  # a certificate is checked by the server's own name
        host = address if named.startswith("/") else named
        return make_conninfo(**{**self._given, "host": host, "hostaddr": address, "port": port})

    @property
    def connections(self) -> int:
        """How many connections pass through now."""
        return len(self._pairs)

    def heal(self) -> None:
        """Pass everything, what was held back by `blackhole` included."""
        self._refusing = self._dropping_replies = False
        self._delay_seconds = 0.0
        self._filter(_DETACH_FILTER)
        self._flowing.set()

    def blackhole(self) -> None:
        """Let packets vanish both ways, as behind a pulled cable: nothing is forwarded or acknowledged.

        Where packets cannot be dropped (`can_drop_packets`) they are acknowledged all the same.
        """
        self._flowing.clear()
        # The kernel would go on sending what the peer has not acknowledged yet, and that is a sign of life.
        by = time.monotonic() + SETTLE_SECONDS_MAX
        while any(_unacknowledged(end) for end in self._ends()):
            if time.monotonic() > by:
                raise TimeoutError(f"what was sent has not arrived within {SETTLE_SECONDS_MAX:.0f} s")
            time.sleep(0.001)
        self._filter(_ATTACH_FILTER)

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
        for client, server in list(self._pairs):
            _reset(client)
            _reset(server)

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    pair = (client, self._dial())
                except OSError:
                    _reset(client)
                    continue
                self._pairs.append(pair)
                for source, sink, replies in ((*pair, False), (*pair[::-1], True)):
                    threading.Thread(target=self._pump, args=(pair, source, sink, replies), daemon=True).start()

    def _dial(self) -> socket.socket:
        """The server's end of a new connection."""
        if self._refusing:
            raise ConnectionRefusedError
        host = str(self._given.get("hostaddr") or self._given.get("host") or "127.0.0.1")
        port = int(self._given.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{host}/.s.PGSQL.{port}")
        return server

    def _pump(
        self, pair: tuple[socket.socket, socket.socket], source: socket.socket, sink: socket.socket, replies: bool
    ) -> None:
        with suppress(OSError):
            while part := source.recv(65536):
                self._flowing.wait()
                if replies and self._dropping_replies:
                    continue
                time.sleep(self._delay_seconds)
                sink.sendall(part)
        with suppress(ValueError):
            self._pairs.remove(pair)
        for end in pair:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _ends(self) -> list[socket.socket]:
        return [end for pair in self._pairs for end in pair]

    def _filter(self, option: int) -> None:
        """Put the filter that drops every packet on all sockets, or take it off; new ones inherit the listener's."""
        for end in (self._listener, *self._ends()):
            with suppress(OSError):  # one that has no filter to take off, or has just ended
                end.setsockopt(socket.SOL_SOCKET, option, _program())


def can_drop_packets() -> bool:
    """Linux has the filter; some systems let only root use it."""
    with socket.socket() as end:
        try:
            end.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, _program())
        except OSError:
            return False
    return sys.platform == "linux"


def _program() -> bytes:
    return struct.pack("HP", 1, ctypes.addressof(_DROP_ALL))


def _unacknowledged(end: socket.socket) -> int:
    """How many bytes the peer's kernel has not yet said it has; none of a connection that has just ended."""
    with suppress(OSError):
        answer = fcntl.ioctl(end, termios.TIOCOUTQ, bytes(4))
        return int(struct.unpack("i", answer)[0])
    return 0


def _reset(end: socket.socket) -> None:
    """End a connection by RST rather than FIN."""
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RD)  # wakes whoever reads from it, and tells the peer nothing yet
    end.close()
