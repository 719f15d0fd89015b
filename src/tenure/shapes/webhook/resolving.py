"""Addresses of names, resolved in threads of their own: a name server that is silent keeps none but its own callers.

The C library waits for as long as it likes, and nothing ends that: who asked gives up, and the thread is left to it.
Who asks for a name that is being asked for waits for the same answer.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

from ...errors import TenureError

LOOKUP_SECONDS = 10.0
Found = asyncio.Future[list[str]]


class Unresolved(TenureError):
    """A name whose addresses nobody said in time."""


class Resolver:
    """A thread for each name that is being asked for; none of them keeps a process from its end."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], Found] = {}

    async def __call__(self, host: str, port: int) -> list[str]:
        """Every address of a name, each once; Unresolved if they do not come in time."""
        found = self._asked.get((host, port))
        if found is None or found.get_loop() is not asyncio.get_running_loop():
            found = self._ask(host, port)
        done, _ = await asyncio.wait([found], timeout=LOOKUP_SECONDS)
        if not done:
            self._forget(host, port, found)  # the next one asks anew
            raise Unresolved(f"{host[:80]!r} was not resolved within {LOOKUP_SECONDS:g} s")
        return found.result()

    def _ask(self, host: str, port: int) -> Found:
        loop = asyncio.get_running_loop()
        found: Found = loop.create_future()
        found.add_done_callback(lambda ended: self._forget(host, port, ended))

        def tell(addresses: list[str] | None, error: Exception | None) -> None:
            if error is not None:
                found.set_exception(error)
            else:
                found.set_result(addresses or [])

        def ask() -> None:
            said: tuple[list[str] | None, Exception | None]
            try:
                said = addresses_of(host, port), None
            except Exception as error:
                said = None, error
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(tell, *said)

        self._asked[host, port] = found
        try:
            threading.Thread(target=ask, name="tenure resolves", daemon=True).start()
        except RuntimeError:  # no more threads
            self._forget(host, port, found)
            raise
        return found

    def _forget(self, host: str, port: int, found: Found) -> None:
        if found.done():
            found.exception()  # it is known: perhaps nobody waits for it any more
        if self._asked.get((host, port)) is found:
            del self._asked[host, port]


def addresses_of(host: str, port: int) -> list[str]:
    """As the machine resolves names; it waits."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
