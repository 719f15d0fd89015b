"""HTTP: one POST an event. The receiver dedupes by Idempotency-Key and fences each Tenure-Publisher by Tenure-Fence."""

from __future__ import annotations

from inspect import signature
from typing import Any

from ...errors import BadSettings
from .broker_address import check_address
from .cloudevent import headers
from .transport import Answer, Away, Duplicate, Fenced, Message, Refused, Sent, brief, needs

TRY_LATER = (401, 407, 408, 425, 429)  # who we are, or when: nothing that the event could change


class Http:
    """`Http("https://events.example/in")`: 2xx is a confirm, 409 a duplicate, 412 a fence, other 4xx a refusal.

    3xx, 401, 407, 408, 425, 429 and 5xx are a receiver that is away: no other event would be taken either.
    Redirects are not followed. For addresses that others gave you, use webhooks: they are guarded.
    """

    def __init__(self, url: str, *, bytes_max: int = 1_000_000, **options: Any) -> None:
        check_address(url, ("http", "https"), "https://events.example/in")
        self._httpx = needs("httpx", "http")
        self._url, self._options, self.bytes_max = url, options, bytes_max
        self._client: Any = None
        known = signature(self._httpx.AsyncClient).parameters
        if unknown := sorted(name for name in options if name not in known):
            raise BadSettings(
                f"{unknown[0]!r} is no option of httpx.AsyncClient: see its documentation, or leave it out"
            )
        for name, value in dict(options.get("headers") or {}).items():
            if not isinstance(value, str | bytes) or any(c in str(value) for c in "\r\n\0"):
                raise BadSettings(f"the header {name!r} must be a text of one line")

    async def open(self, lease_seconds: float) -> None:  # noqa: ARG002
        """There is nothing to ask before the first event."""
        await self.close()
        given = {"timeout": 9.0, "trust_env": False, "follow_redirects": False, **self._options}
        self._client = self._httpx.AsyncClient(**given)

    async def close(self) -> None:
        """Leave."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def send(self, message: Message) -> Answer:
        """Any status is an answer; no answer is a receiver that is away."""
        if self._client is None:
            return Away("the connection is closed")
        said = {
            **headers(message.attributes, "ce-"),
            "Idempotency-Key": message.once,
            "Tenure-Fence": str(message.fence),
            "Tenure-Publisher": message.publisher,
        }
        try:
            status = (await self._client.post(self._url, content=message.body, headers=said)).status_code
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            return Away(brief(error))
        if 200 <= status < 300:
            return Sent()
        if status in (409, 412):
            return Duplicate() if status == 409 else Fenced("the receiver answered 412")
        if status < 400:
            return Away(f"the receiver answered {status}, and redirects are not followed: give the address it has now")
        if status in TRY_LATER or status >= 500:
            return Away(f"the receiver answered {status}")
        return Refused(f"the receiver answered {status}")
