"""Every act that can be done on a stage, and their union for JSON."""

from __future__ import annotations

from .act import Act as Act
from .line_acts import Cut as Cut
from .line_acts import Heal as Heal
from .line_acts import Set as Set
from .shop_acts import ORDER as ORDER
from .shop_acts import Crowd as Crowd
from .shop_acts import Cure as Cure
from .shop_acts import Enqueue as Enqueue
from .shop_acts import Orders as Orders
from .shop_acts import Redrive as Redrive
from .shop_acts import Rollback as Rollback
from .shop_acts import SkipBackoff as SkipBackoff
from .worker_acts import Answer as Answer
from .worker_acts import Cast as Cast
from .worker_acts import Drain as Drain
from .worker_acts import Kill as Kill
from .worker_acts import OfWorker as OfWorker
from .worker_acts import Pause as Pause
from .worker_acts import Resume as Resume
from .worker_acts import Start as Start
from .worker_acts import Work as Work

AnyAct = (
    Enqueue | Orders | Crowd | Rollback | Start | Cast | Work | Answer | Pause | Resume | Kill | Drain | Cut | Heal
    | Set | SkipBackoff | Redrive | Cure
)  # fmt: skip
