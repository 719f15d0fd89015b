"""Redis streams: one script adds an event, unless its id was seen or a later mark stands for its key."""

from __future__ import annotations

from typing import Any

from .broker_address import check_address, check_broker_name
from .cloudevent import headers
from .transport import Answer, Away, Duplicate, Fenced, Message, Refused, Sent, brief, needs

SEEN_SECONDS = 86_400  # how long an id is remembered, and the mark of a key
UNABLE = ("OOM", "MISCONF", "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "NOPERM", "BUSY")
UNABLE_IN_WORDS = (
    "maxmemory",
    "user executing the script can't run",
    "exhausted the last possible ID",
    "unknown command",
)
_ADD = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 'duplicate' end
if KEYS[3] then
  local last = redis.call('GET', KEYS[3])
  if last and last >= ARGV[1] then return 'fenced ' .. last end
end
if ARGV[3] == '0' then redis.call('XADD', KEYS[1], '*', unpack(ARGV, 4))
else redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', unpack(ARGV, 4)) end
redis.call('SET', KEYS[2], '', 'EX', ARGV[2])
if KEYS[3] then redis.call('SET', KEYS[3], ARGV[1], 'EX', ARGV[2]) end
return 'sent'
"""


class RedisStream:
    """`RedisStream("redis://127.0.0.1:6379", stream="shop")`: every event goes to one stream, its body as field `data`.

    What was confirmed is as safe as your Redis makes it: see appendfsync. `length_max` trims the stream, roughly.
    """

    def __init__(
        self, url: str, *, stream: str, length_max: int = 0, seen_seconds: int = SEEN_SECONDS, **options: Any
    ) -> None:
        check_address(url, ("redis", "rediss", "unix"), "redis://127.0.0.1:6379")
        check_broker_name(stream, "stream")
        self._redis = needs("redis.asyncio", "redis")
        self._errors = needs("redis.exceptions", "redis")
        self._url, self._stream, self._options = url, stream, options
        self._length_max, self._seen_seconds = length_max, seen_seconds
        self.bytes_max = 1_000_000
        self._client: Any = None
        self._add: Any = None

    async def open(self, lease_seconds: float) -> None:  # noqa: ARG002
        """Connect, and ask for an answer."""
        await self.close()
        self._client = self._redis.from_url(self._url, **{"socket_connect_timeout": 3, **self._options})
        try:
            await self._client.ping()
        except self._errors.RedisError as error:  # its ConnectionError and TimeoutError are none of Python's
            raise ConnectionError(brief(error)) from None
        self._add = self._client.register_script(_ADD)

    async def close(self) -> None:
        """Leave."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def send(self, message: Message) -> Answer:
        """Keys of one slot: the name of the stream in braces."""
        if self._client is None:
            return Away("the connection is closed")
        tag = f"{{{self._stream}}}"
        keys = [self._stream, f"{tag}:seen:{message.once}"]
        if message.key is not None:
            keys.append(f"{tag}:mark_of:{message.publisher}:{message.key}")
        fields = {**headers(message.attributes, "ce_"), "data": message.body}
        flat = [part for field in fields.items() for part in field]
        # As text of one width: a script's numbers are too small for a fence.
        mark = f"{message.fence:019d}-{message.seq:019d}"
        try:
            said = bytes(await self._add(keys=keys, args=[mark, self._seen_seconds, self._length_max, *flat])).decode()
        except self._errors.ResponseError as error:
            return await self._answer_to(error)
        except (self._errors.RedisError, OSError) as error:
            return Away(brief(error))
        if said.startswith("fenced"):
            return Fenced(f"key {message.key!r} has seen {said.removeprefix('fenced ')}, ours is {mark}")
        return Sent() if said == "sent" else Duplicate()

    async def _answer_to(self, error: Exception) -> Answer:
        """Something else under the stream's name concerns every event, under the name of a mark one key alone."""
        if str(error).startswith("WRONGTYPE") and await self._is_taken():
            said = f"the key {self._stream!r} holds something else than a stream"
            return Away(f"{said}: rename or delete it, or give the outbox another stream")
        return Away(brief(error)) if self._is_unable(error) else Refused(brief(error))

    async def _is_taken(self) -> bool:
        try:
            return (await self._client.type(self._stream)) not in (b"stream", b"none", "stream", "none")
        except (self._errors.RedisError, OSError):
            return True

    def _is_unable(self, error: Exception) -> bool:
        """A server that is full, loads, is a replica or denies us takes nothing; any other no is about this message."""
        known = self._errors
        unable = (known.ReadOnlyError, known.NoPermissionError, known.ClusterError, known.AskError, known.TryAgainError)
        said = str(error)  # the client has cut off the code of each error that has a class of its own
        return isinstance(error, unable) or said.startswith(UNABLE) or any(each in said for each in UNABLE_IN_WORDS)
