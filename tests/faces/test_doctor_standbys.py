"""`tenure doctor` on a primary and its standby: what a failover would lose, and whether anybody would find the next."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from guarantees.facts import until
from tenure.doctor import Finding, examine, standbys
from tenure.doctor.questions import Standbys
from tenure.doctor.standbys import Address, address_of
from tenure.drills.failover.judge import Failover, epoch_at_work, watch
from tenure.drills.failover.load import Load, furnish
from tenure.drills.failover.pair import Pair
from tenure.verbs.questions import Member

pytestmark = pytest.mark.one_server

MEMBER = Member("worker-A", "alive", 1.0, 60.0, True, {})
ONE, BOTH = Address(1, writable=False), Address(2, writable=True)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair(synchronous=False) as mine:
        mine.start()
        furnish(mine.url, "tenure")
        yield mine


def found(url: str) -> dict[str, Finding]:
    return {each.check: each for each in examine(url, "tenure", {})}


def change(url: str, how: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"ALTER SYSTEM {how}".encode())
        conn.execute("SELECT pg_reload_conf()")


def test_doctor_tells_what_a_failover_would_do(pair: Pair) -> None:
    """One story on two servers: alone, followed, waited for, and after the promotion alone again."""
    alone = found(pair.url)
    assert (alone["standbys"].level, alone["address"].level) == ("warn", "ok")
    assert "names 2 servers, and no standby follows" in alone["standbys"].said
    pair.join()
    followed, narrow = found(pair.url), found(pair.primary_url)
    assert "1 standby follows this server and none is synchronous" in followed["standbys"].said
    assert (followed["standbys"].level, followed["address"].level, narrow["address"].level) == ("warn", "ok", "warn")
    change(pair.primary_url, "SET synchronous_standby_names = '*'")
    until(lambda: found(pair.url)["standbys"].level == "ok", "commits wait for the standby")
    change(pair.primary_url, "SET synchronous_commit = 'local'")
    until(lambda: "synchronous_commit = local" in found(pair.url)["standbys"].said, "commits wait for nobody")
    with Load(pair.url, "tenure", lambda _: None) as load:
        failover = Failover(time.monotonic(), epoch_at_work(load))
        assert found(pair.url)["gap"].value["gap_seconds"] == 0
        pair.kill()
        pair.promote()
        watch(load, failover)
        until(lambda: found(pair.url)["gap"].value["gap_seconds"] > 0, "a worker tells how long it was away")


def test_a_setting_without_its_standby_stops_every_commit() -> None:
    said = standbys.synchronous(Standbys(0, 0, "ANY 1 (*)", "on"), BOTH)
    assert (said.level, "every commit waits" in said.said) == ("fault", True)
    assert standbys.synchronous(Standbys(0, 0, "", "on"), ONE).level == "ok"


def test_an_address_is_read_as_libpq_reads_it() -> None:
    assert address_of("postgresql://a,b/shop?target_session_attrs=read-write") == BOTH
    assert address_of("host=a,b target_session_attrs=primary") == BOTH
    assert address_of("postgresql://a/shop") == ONE
    assert address_of("") == ONE
    assert standbys.address(Standbys(1, 1, "*", "on"), Address(2, writable=False)).level == "warn"
    assert standbys.address(Standbys(1, 1, "*", "on"), Address(1, writable=False, pooled=True)).level == "ok"


@pytest.mark.parametrize(
    ("away", "level"), [(0, "ok"), (45, "ok"), (46, "warn"), (1e9, "ok"), ("x", "ok"), (None, "ok")]
)
def test_a_lease_should_last_twice_the_gap(away: object, level: str) -> None:
    said = standbys.gap([MEMBER._replace(metadata={"away_seconds": away})], {})
    assert said.level == level
    if level == "warn":
        assert "raise TENURE_LEASE_SECONDS to 92 or more" in said.next
    assert standbys.gap([MEMBER], {"TENURE_LEASE_SECONDS": "none"}).value["lease_seconds"] == 90
