"""Nouns and pure rules: rows, leases, answers. No I/O and no clock."""

from __future__ import annotations

from .rows import BUCKETS as BUCKETS
from .rows import Attempt as Attempt
from .rows import BlockedKey as BlockedKey
from .rows import Claimed as Claimed
from .rows import Depth as Depth
from .rows import Enqueued as Enqueued
from .rows import Held as Held
from .rows import Identity as Identity
from .rows import Lane as Lane
from .rows import Lease as Lease
from .rows import NewRow as NewRow
from .rows import Offer as Offer
from .rows import Renewed as Renewed
from .rows import Row as Row
from .rows import Settled as Settled
from .rows import Standing as Standing
from .rows import Stuck as Stuck
from .rows import Swept as Swept
from .rows import Worker as Worker
