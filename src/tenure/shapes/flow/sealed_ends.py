"""Values of children that are encrypted: a flow is told them in clear, and its record of them is encrypted as well."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from ...app.awaiting import opened
from ...app.codec import Codec
from ...app.encryption import RESULT_OF
from ...model.ended import Ended, EndedRow
from ...model.envelope import MissingKey, find


class Sealing:
    """For one call or map of a flow: bound to the flow and the name, for a child may move to another queue."""

    def __init__(self, codec: Codec | None, name: str, flow: UUID) -> None:
        self._codec, self._bound = codec, {"kind": f"{RESULT_OF}{name}", "queue": "", "key": str(flow)}

    def read(self, row: EndedRow) -> Ended[Any]:
        """How a child ended, in clear; MissingKey if this worker cannot open its value."""
        return opened(row, self._codec)

    def sealed(self, end: Ended[Any], row: EndedRow) -> Ended[Any]:
        """The same as it is recorded: its value is encrypted if the row's is."""
        if row.value is None or self._codec is None or find(row.value) is None:
            return end
        return end._replace(value=self._codec.encrypt(end.value, **self._bound))

    def opened(self, end: Ended[Any]) -> Ended[Any]:
        """What was recorded, in clear."""
        text = msgspec.json.encode(end.value).decode() if isinstance(end.value, dict) else ""
        envelope = find(text)
        if envelope is None:
            return end
        if self._codec is None:
            raise MissingKey(envelope.key, "and this inbox has no codec")
        return end._replace(value=msgspec.json.decode(self._codec.decrypt(text, envelope, **self._bound)))
