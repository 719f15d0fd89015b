"""Where verbs and questions are run: connections, a Statement on one of them, migrations, what errors mean."""

from __future__ import annotations

from .connection import PLANS as PLANS
from .connection import AsyncQueueConnection as AsyncQueueConnection
from .connection import QueueConnection as QueueConnection
from .connection import connect as connect
from .connection import connect_async as connect_async
from .connection import conninfo as conninfo
from .connection import find_pooler as find_pooler
from .connection import find_pooler_async as find_pooler_async
from .patience import PATIENT as PATIENT
from .patience import Patience as Patience
from .runner import copy as copy
from .runner import copy_async as copy_async
from .runner import run as run
from .runner import run_both as run_both
