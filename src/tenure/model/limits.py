"""How large a row may be: the limits of every door into the inbox. The SQL of 0017_doors.sql has the same numbers."""

from __future__ import annotations

NAME_BYTES_MAX = 128  # a kind, a queue, a worker, an effect
KEY_BYTES_MAX = 512  # a partition key, an idempotency key
PAYLOAD_BYTES_MAX = 1024 * 1024  # of the JSON text as Postgres writes it
DEPTH_MAX = 200
HEADERS_BYTES_MAX = 4096
PRIORITY_MAX = 100  # and as far below 0
ATTEMPTS_MAX = 10_000
DELAY_SECONDS_MAX = 315_576_000.0  # ten years, before or after now
ERROR_BYTES_MAX = 8192
