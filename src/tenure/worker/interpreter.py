"""What a worker sets in a Python process of its own: how often garbage is looked for, how soon a thread has its turn.

A thread that wants the interpreter asks the one that has it to give way after 5 ms. The claimer asks several times for
each claim, while quick handlers keep the loop's thread busy: it would stand still for most of the time.
"""

from __future__ import annotations

import sys

from .worker import Worker

PYTHONS_SECONDS = 0.005
TURN_SECONDS = 0.0005


def own(worker: Worker) -> None:
    """Nothing else is done in this process; what the application has chosen stays."""
    worker.garbage.ours = True
    if sys.getswitchinterval() == PYTHONS_SECONDS:
        sys.setswitchinterval(TURN_SECONDS)
