"""How long a connection waits: as words for libpq, and as settings of the server."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a connection waits before it gives up, and for what; None leaves it to the server's settings.

    A peer that does not acknowledge packets is given up after `silence_seconds`, by us and by the server. A peer that
    acknowledges but does not answer (a stopped server, a stuck pooler) is given up with `statement_seconds`: that long,
    plus `silence_seconds`, after the statement was sent. With `doubt_seconds` the server is asked after that long, on
    another connection, whether it still works on the statement; if not, the peer is given up at once. Through a pooler
    it cannot be asked: there a silent peer is given up after ten minutes.
    """

    silence_seconds: float = 10.0
    statement_seconds: float | None = None
    lock_seconds: float | None = None
    idle_in_transaction_seconds: float | None = 60.0
    doubt_seconds: float | None = None

    @property
    def answer_seconds(self) -> float | None:
        """How long to wait for any byte from the server after a statement was sent."""
        return None if self.statement_seconds is None else self.statement_seconds + self.silence_seconds

    def of_client(self) -> dict[str, int]:
        """The conninfo words with which we notice that the server is gone."""
        idle, interval, count = self._keepalive()
        return {
            "connect_timeout": max(2, math.ceil(self.silence_seconds)),  # libpq accepts no less
            "keepalives_idle": idle,
            "keepalives_interval": interval,
            "keepalives_count": count,
            "tcp_user_timeout": math.ceil(self.silence_seconds * 1000),
        }

    def of_server(self) -> dict[str, int]:
        """The settings with which the server notices that we are gone, and limits our statements."""
        idle, interval, count = self._keepalive()
        timeouts = {
            "tcp_user_timeout": self.silence_seconds,
            "statement_timeout": self.statement_seconds,
            "lock_timeout": self.lock_seconds,
            "idle_in_transaction_session_timeout": self.idle_in_transaction_seconds,
        }
        return {
            "tcp_keepalives_idle": idle,
            "tcp_keepalives_interval": interval,
            "tcp_keepalives_count": count,
            **{name: math.ceil(seconds * 1000) for name, seconds in timeouts.items() if seconds is not None},
        }

    def _keepalive(self) -> tuple[int, int, int]:
        """Idle, interval and count that add up to the silence, with three probes where whole seconds allow it."""
        silence = math.ceil(self.silence_seconds)
        idle = max(1, silence * 2 // 5)
        interval = max(1, (silence - idle) // 3)
        return idle, interval, max(1, (silence - idle) // interval)


PATIENT = Patience()
