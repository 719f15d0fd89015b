"""The book of drills: every one by its name, in the order in which to read them."""

from __future__ import annotations

from collections.abc import Callable

from ..stage.scene import Drill
from .crash import crash
from .deploy import deploy
from .drain import drain
from .duplicate import duplicate
from .late_commit import late_commit
from .lease_race import lease_race
from .order import order
from .outage import outage
from .poison import poison
from .receipt import receipt
from .relay import relay
from .ring import ring
from .rollback import rollback
from .saga import saga
from .signal import signal

BOOK: dict[str, Callable[[], Drill]] = {
    "receipt": receipt,
    "crash": crash,
    "lease-race": lease_race,
    "duplicate": duplicate,
    "poison": poison,
    "ring": ring,
    "drain": drain,
    "order": order,
    "outage": outage,
    "rollback": rollback,
    "late-commit": late_commit,
    "relay": relay,
    "saga": saga,
    "signal": signal,
    "deploy": deploy,
}
