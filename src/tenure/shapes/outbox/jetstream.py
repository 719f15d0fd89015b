"""NATS JetStream: deduped by id inside the stream's window, fenced by marks in the last message of each subject."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from ...errors import BadSettings
from .broker_address import check_address, check_broker_name
from .cloudevent import headers
from .transport import Answer, Away, Duplicate, Fenced, Mark, Message, Refused, Sent, Unfit, brief, needs

PUBLISHERS_MAX = 16  # of one key, whose marks a message carries: those that wrote last
KEYS_MAX = 10_000  # whose last message is remembered
SCHEMES = ("nats", "tls", "ws", "wss")
WRONG_LAST, TOO_LARGE = 10071, 10054
WINDOW_MARGIN_SECONDS = 60.0
CONNECT_SECONDS = 3.0
Marks = dict[str, Mark]  # by publisher, the last one first
_MARK = re.compile(r"([0-9a-f]*)=(\d+)\.(\d+)")
_SUBJECT = re.compile(r"[^\s*>.]+(\.[^\s*>.]+)*")


class JetStream:
    """`JetStream("nats://127.0.0.1:4222", stream="SHOP", subject="shop")`: the key order:7 goes to shop.order:7.

    The stream is made by you: it takes `shop.>`, and its duplicate window is twice the lease and a minute, or more.
    """

    def __init__(self, url: str, *, stream: str, subject: str, bytes_max: int = 1_000_000, **options: Any) -> None:
        if not _SUBJECT.fullmatch(subject):
            raise BadSettings(f"subject={subject!r} must be words with dots between them, such as 'shop.orders'")
        for each in url.split(",") if isinstance(url, str) else url if isinstance(url, list) else [url]:
            plain = isinstance(each, str) and "://" not in each
            check_address(f"nats://{each.strip()}" if plain else each, SCHEMES, "nats://127.0.0.1:4222")
        check_broker_name(stream, "stream", never=" \t\r\n.*>/\\")
        self._nats, self._errors = needs("nats", "nats"), needs("nats.js.errors", "nats")
        self._url, self._stream, self._subject, self._options = url, stream, subject, options
        self.bytes_max = bytes_max
        self._client: Any = None
        self._js: Any = None
        self._last: OrderedDict[str, tuple[int, Marks]] = OrderedDict()

    async def open(self, lease_seconds: float) -> None:
        """Connect, and read the stream's window."""
        await self.close()
        given = {"allow_reconnect": False, "connect_timeout": 3, "error_cb": _ignored, **self._options}
        try:  # by itself the client tries a server that refuses it again and again
            self._client = await asyncio.wait_for(self._nats.connect(self._url, **given), CONNECT_SECONDS)
        except TimeoutError:
            raise ConnectionError(f"no server answers within {CONNECT_SECONDS:g} s") from None
        except self._nats.errors.Error as error:  # such as a login that is refused
            raise ConnectionError(brief(error)) from None
        self._js = self._client.jetstream()
        self._last.clear()
        config = await self._config()
        window, least = config.duplicate_window or 0.0, 2 * lease_seconds + WINDOW_MARGIN_SECONDS
        if window < least:
            raise Unfit(
                f"stream {self._stream!r} forgets ids after {window:g} s, a relay may send again after {least:g}: "
                f"set its duplicate window to {least:g} s at least"
            )

    async def _config(self) -> Any:
        """What the stream is set to; ConnectionError if there is none to send to."""
        try:
            return (await self._js.stream_info(self._stream)).config
        except self._errors.NotFoundError:
            raise ConnectionError(f"there is no stream {self._stream!r}: make it, nothing is made unasked") from None
        except self._errors.ServiceUnavailableError:
            raise ConnectionError("JetStream is not up on this server") from None
        except self._nats.errors.Error as error:
            raise ConnectionError(brief(error)) from None

    async def close(self) -> None:
        """Leave at once: every message was confirmed by itself."""
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            await client.close()

    async def send(self, message: Message) -> Answer:
        """One subject a key. The last message there must be the one we know, or an older one."""
        if self._client is None or not self._client.is_connected:
            return Away("the connection is closed")
        subject = self.subject_of(message.key)
        try:
            if message.key is None:
                return await self._publish(subject, message, None) or Away("no answer")
            for _ in range(3):
                last, marks = self._last.get(subject) or await self._read_last(subject)
                if marks.get(message.publisher, (0, 0)) >= message.mark:
                    return await self._late(subject, message)
                answer = await self._publish(subject, message, last)
                if answer is not None:
                    return answer
                self._last.pop(subject, None)  # somebody else has written: look again
            return Fenced(f"others write to {subject} all the time")
        except self._errors.NoStreamResponseError:
            return Away(f"no stream takes the subject {subject!r}")
        except self._errors.APIError as error:
            alone = error.err_code == TOO_LARGE or "per subject" in str(error)  # else it concerns every subject
            return Refused(brief(error)) if alone else Away(brief(error))
        except (self._nats.errors.MaxPayloadError, self._nats.errors.BadSubjectError) as error:
            return Refused(brief(error))
        except self._nats.errors.Error as error:
            return Away(brief(error))

    async def _publish(self, subject: str, message: Message, last: int | None) -> Sent | Duplicate | Refused | None:
        """None if the last message of the subject is another one."""
        marks, sent_with = self._marks_with(message), self.sent_with(message, last)
        large = self._too_large(sent_with, message.body)
        if large is not None:
            return large
        try:
            ack = await self._js.publish(subject, message.body, headers=sent_with)
        except self._errors.APIError as error:
            if error.err_code == WRONG_LAST and last is not None:
                return None
            raise
        if message.key is not None and not ack.duplicate:
            self._remember(subject, ack.seq, marks)
        return Duplicate() if ack.duplicate else Sent()

    def _too_large(self, sent_with: Mapping[str, str], body: bytes) -> Refused | None:
        """The client looks at the body alone. The server counts all, and closes the connection for a byte too many."""
        lines = (f"{name}: {said}\r\n".encode() for name, said in sent_with.items())
        headers_bytes = len(b"NATS/1.0\r\n\r\n") + sum(map(len, lines))
        if headers_bytes + len(body) <= self._client.max_payload:
            return None
        return Refused(
            f"its headers have {headers_bytes} bytes and its body {len(body)}, "
            f"the server takes {self._client.max_payload} bytes in all (max_payload): store it, and publish its address"
        )

    def sent_with(self, message: Message, last: int | None) -> dict[str, str]:
        """CloudEvents, the id to dedupe by, the stream, marks, and which message must be the last of its subject."""
        fenced = {} if last is None else {"Nats-Expected-Last-Subject-Sequence": str(last)}
        marks = " ".join(f"{name}={fence}.{seq}" for name, (fence, seq) in self._marks_with(message).items())
        ours = {"Nats-Msg-Id": message.once, "Nats-Expected-Stream": self._stream, "Tenure-Marks": marks}
        return {**headers(message.attributes, "ce-"), **ours, **fenced}

    def _marks_with(self, message: Message) -> Marks:
        """Its own, and those of others that stand in the last message of its subject: they would be lost with it."""
        _, known = self._last.get(self.subject_of(message.key), (0, Marks()))
        others = [(name, mark) for name, mark in known.items() if name != message.publisher]
        return dict([(message.publisher, message.mark), *others[: PUBLISHERS_MAX - 1]])

    async def _read_last(self, subject: str) -> tuple[int, Marks]:
        try:
            found = await self._js.get_last_msg(self._stream, subject)
        except self._errors.NotFoundError:
            return 0, {}
        self._remember(subject, found.seq, _marks_of(found))
        return self._last[subject]

    async def _late(self, subject: str, message: Message) -> Answer:
        """A later mark stands there: it is the same message, or a newer relay has written."""
        found = await self._js.get_last_msg(self._stream, subject)
        if (found.headers or {}).get("Nats-Msg-Id") == message.once:
            return Duplicate()
        self._last.pop(subject, None)
        seen, _ = _marks_of(found).get(message.publisher, (0, 0))
        return Fenced(f"{subject} has seen fence {seen}, ours is {message.fence}")

    def _remember(self, subject: str, seq: int, marks: Marks) -> None:
        self._last[subject] = seq, marks
        self._last.move_to_end(subject)
        if len(self._last) > KEYS_MAX:
            self._last.popitem(last=False)

    def subject_of(self, key: str | None) -> str:
        """Where the events of a key go; what no subject may contain is written as %XX."""
        if key is None:
            return f"{self._subject}._"
        plain = "".join(c if c.isascii() and (c.isalnum() or c in ":-") else _percent(c) for c in key)
        return f"{self._subject}.{plain}"


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


def _marks_of(found: Any) -> Marks:
    """Of a message that was not sent by a relay, or by one of 0.1.0, which did not say whose its mark is: none."""
    said = _MARK.findall((found.headers or {}).get("Tenure-Marks", ""))
    return {name: (int(fence), int(seq)) for name, fence, seq in said}


async def _ignored(_error: Exception) -> None:
    """What the client prints by default; we are told by the next send."""
