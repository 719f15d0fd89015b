"""On a standby: what cannot be promised there is refused in a sentence."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import FeatureNotSupported

from guarantees.facts import until
from tenure import postgres
from tenure.drills.failover.load import furnish
from tenure.drills.failover.pair import Pair
from tenure.verbs import journal

pytestmark = pytest.mark.one_server


def test_the_journal_is_not_read_on_a_standby() -> None:
    """It does not see the marks of the primary: a reader would pass by an event that is committed late."""
    with Pair(synchronous=True) as pair:
        pair.start()
        furnish(pair.url, "tenure")
        pair.join()
        with postgres.connect(pair.primary_url) as primary:
            postgres.run(primary, journal.horizon())
        with psycopg.connect(pair.standby_url, autocommit=True) as standby:
            until(lambda: standby.execute("SELECT to_regclass('tenure.journal')").fetchone() != (None,), "it follows")
            for asked in (journal.horizon(), journal.read_after(0)):
                with pytest.raises(FeatureNotSupported, match="read on the primary"):
                    postgres.run(standby, asked)
