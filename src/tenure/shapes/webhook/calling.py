"""One call to a receiver: to a judged address, 15 s in all, redirects not followed.

Status and headers are the answer; of its body a little is read, for a moment, to be shown.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from ...errors import BadSettings
from .guard import ForbiddenAddress, Guard, Target
from .resolving import Resolver, Unresolved

CALL_SECONDS = 15.0
CONNECT_SECONDS = 5.0
ANSWER_BYTES_MAX = 65_536
ANSWER_SECONDS = 1.0  # for its body: what drips is not waited for
NOTE_CHARS = 500
Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Called:
    """How a call went. Without a status nobody answered, and the note says why."""

    status: int | None
    ms: int
    address: str | None
    note: str
    retry_after: str | None = None


class Pinned:
    """A network backend for httpcore that connects to judged addresses alone. It stands before one that has sockets."""

    def __init__(self, guard: Guard, inner: Any, lookup: Resolve | None = None) -> None:
        self._guard, self._inner, self._lookup = guard, inner, lookup or Resolver()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Any:
        """Resolve once, judge every address, connect to the first that answers."""
        failed: Exception | None = None
        for address in self._guard.judge(host, await self._lookup(host, port)):
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout=timeout, local_address=local_address, socket_options=socket_options
                )
            except Exception as error:
                failed = error
        raise failed or ForbiddenAddress(f"{host[:80]!r} leads to no address")

    async def connect_unix_socket(self, *_: Any, **__: Any) -> Any:
        """Never."""
        raise ForbiddenAddress("a socket of this machine is not called")

    async def sleep(self, seconds: float) -> None:
        """As httpcore asks for it."""
        await asyncio.sleep(seconds)


class Caller:
    """Calls receivers through one pool of connections. Proxies of the environment are not used.

    With an egress proxy every call goes through it: it resolves names and judges addresses, in place of the guard.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        inner: Any = None,
        lookup: Resolve | None = None,
        ssl_context: Any = None,
        proxy: str | None = None,
    ) -> None:
        try:
            self._http = importlib.import_module("httpcore")
            importlib.import_module("anyio")
        except ImportError:
            raise BadSettings("'httpcore' is not installed: `pip install 'tenure[webhooks]'`") from None
        inner = inner if inner is not None else self._http.AnyIOBackend()
        self._proxy = None if proxy is None else self._http.Proxy(**proxied(proxy))
        self._backend = inner if proxy is not None else Pinned(guard, inner, lookup)
        self._ssl, self._pool = ssl_context, None

    def _open(self) -> Any:
        if self._pool is None:
            self._pool = self._http.AsyncConnectionPool(
                ssl_context=self._ssl,
                max_connections=1000,
                max_keepalive_connections=50,
                keepalive_expiry=5.0,
                network_backend=self._backend,
                proxy=self._proxy,
            )
        return self._pool

    async def close(self) -> None:
        """Leave every connection."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    async def post(self, target: Target, headers: Mapping[str, str], body: bytes) -> Called:
        """One POST. Every end of it is an answer; a cancel goes through."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(CALL_SECONDS) as limit:
                return await self._post(target, headers, body, began, limit)
        except TimeoutError:
            note = f"no answer within {CALL_SECONDS:g} s"
        except (ForbiddenAddress, Unresolved) as error:
            note = str(error)
        except Exception as error:
            note = " ".join(f"{type(error).__name__}: {error}".split())[:NOTE_CHARS].removesuffix(":")
        return Called(None, _ms(began), None, note)

    async def _post(
        self, target: Target, headers: Mapping[str, str], body: bytes, began: float, limit: asyncio.Timeout
    ) -> Called:
        scheme, host, port, path = (part.encode() if isinstance(part, str) else part for part in target)
        url = self._http.URL(scheme=scheme, host=host, port=port, target=path)
        limits = {"connect": CONNECT_SECONDS, "read": CALL_SECONDS, "write": CALL_SECONDS, "pool": CALL_SECONDS}
        given = [("Host", _host(target)), *headers.items(), ("Content-Length", str(len(body)))]
        request = self._open().stream("POST", url, headers=given, content=body, extensions={"timeout": limits})
        async with request as response:
            limit.reschedule(None)  # answered: from here on nothing makes it a call without an answer
            said = await self._said(response)
            stream = response.extensions.get("network_stream")
            peer = stream.get_extra_info("server_addr") if stream is not None else None
            after = next(
                (
                    value.decode("ascii", "replace")
                    for name, value in response.headers
                    if name.lower() == b"retry-after"
                ),
                None,
            )
            return Called(response.status, _ms(began), str(peer[0]) if peer else None, _note(said), after)

    async def _said(self, response: Any) -> bytearray:
        """The beginning of its body, as far as it comes at once."""
        said = bytearray()
        with suppress(TimeoutError, self._http.NetworkError, self._http.ProtocolError):
            async with asyncio.timeout(ANSWER_SECONDS):
                async for chunk in response.aiter_stream():
                    said += chunk[: ANSWER_BYTES_MAX - len(said)]
                    if len(said) >= ANSWER_BYTES_MAX:
                        break
        return said


def proxied(proxy: str) -> dict[str, Any]:
    """An egress proxy in parts, as httpcore takes it; BadSettings with the next step, and never with its password."""
    try:
        parts = urlsplit(proxy if isinstance(proxy, str) else "")
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port
    except ValueError:
        known = None
    if not known or parts.path.strip("/") or parts.query:
        raise BadSettings("proxy must be an address like http://egress.internal:4750, with its port")
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    auth = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    return {"url": f"{parts.scheme}://{host}:{parts.port}", "auth": auth}


def _host(target: Target) -> str:
    """The Host header: the name, never the address that it led to."""
    usual = {"https": 443, "http": 80}[target.scheme]
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host if target.port == usual else f"{host}:{target.port}"


def _note(said: bytearray) -> str:
    text = said[: NOTE_CHARS * 4].decode("utf-8", "replace")
    return "".join(each if each.isprintable() else " " for each in text)[:NOTE_CHARS].strip()


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
