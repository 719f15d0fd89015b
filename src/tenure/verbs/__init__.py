"""Verbs and questions as values: which SQL to run, its parameters, and how to read the answer. Nothing runs here.

The verbs of the life cycle are here by name: `from tenure import verbs`, then `verbs.claim(...)`.
"""

from __future__ import annotations

from .lifecycle import ALL_BUCKETS as ALL_BUCKETS
from .lifecycle import FORGOTTEN_MAX as FORGOTTEN_MAX
from .lifecycle import LEASE_SECONDS as LEASE_SECONDS
from .lifecycle import LEASE_SECONDS_MAX as LEASE_SECONDS_MAX
from .lifecycle import Entered as Entered
from .lifecycle import archive as archive
from .lifecycle import cancel as cancel
from .lifecycle import check_lease_seconds as check_lease_seconds
from .lifecycle import claim as claim
from .lifecycle import claim_ordered as claim_ordered
from .lifecycle import claim_params as claim_params
from .lifecycle import claimed_by as claimed_by
from .lifecycle import enter as enter
from .lifecycle import fence as fence
from .lifecycle import guard as guard
from .lifecycle import holding as holding
from .lifecycle import last_entered as last_entered
from .lifecycle import note_forgotten as note_forgotten
from .lifecycle import once as once
from .lifecycle import redrive as redrive
from .lifecycle import renew as renew
from .lifecycle import sweep as sweep
from .lifecycle import sweep_pages as sweep_pages
from .lifecycle import within as within
from .sending import enqueue as enqueue
from .sending import enqueue_many as enqueue_many
