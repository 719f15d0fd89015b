"""Checks of the tables, their indexes, vacuum and what holds it back, and the archive."""

from __future__ import annotations

import re
from importlib.resources import files

from .. import sql
from ..verbs.questions import spoken
from .finding import Finding, Level
from .questions import Day, HotTable, Index, Open, Server

OLD_SECONDS = 60.0  # how long a transaction may be open before it is reported
ANCIENT_SECONDS = 900.0
HELD_XIDS_MAX = 1_000_000  # for a slot, which has no age in seconds
LOCKS_A_DAY = 4  # that an erase holds on each day of the archive
ERASES = 10  # at once, or questions for a row twice as many, that the server should have locks for
DEAD_MIN = 20_000  # housekeeping itself leaves this many dead versions


def indexes_there(found: list[Index], wanted: frozenset[str]) -> Finding:
    """Every index of the migrations is there and can be used."""
    missing = sorted(wanted - {index.name for index in found})
    broken = sorted(index.name for index in found if not index.usable)
    if missing:
        said = f"missing: {', '.join(missing)}"
        return Finding(
            "indexes", "fault", missing, said, "create them again: `tenure migrate --sql` has the statements"
        )
    if broken:
        return Finding(
            "indexes", "fault", broken, f"invalid: {', '.join(broken)}", f"REINDEX INDEX CONCURRENTLY {broken[0]}"
        )
    return Finding("indexes", "ok", len(found), f"{len(found)} there, all valid")


def indexes_wanted() -> frozenset[str]:
    """The names of all indexes that the migrations create and do not drop again."""
    texts = [file.read_text(encoding="utf-8") for file in sorted((files(sql) / "migrations").iterdir(), key=str)]
    found: set[str] = set()
    for made, gone in re.findall(
        r"^(?:CREATE (?:UNIQUE )?INDEX (\w+) ON|DROP INDEX tenure\.(\w+))", "\n".join(texts), re.MULTILINE
    ):
        found = found - {gone} | {made} - {""}  # in the order of the migrations
    return frozenset(found)


def autovacuum(server: Server, table: HotTable | None) -> Finding:
    """Whether dead versions are removed."""
    if not server.autovacuum or not server.track_counts:
        said = f"{'autovacuum' if not server.autovacuum else 'track_counts'} is off: tables and indexes only grow"
        return Finding("autovacuum", "fault", False, said, "ALTER SYSTEM SET autovacuum = on, and track_counts")
    if table is not None and not table.enabled:
        said = "autovacuum is off for the hot table"
        return Finding(
            "autovacuum", "fault", False, said, "ALTER TABLE live RESET (autovacuum_enabled) in Tenure's schema"
        )
    return Finding("autovacuum", "ok", True, "autovacuum is on")


def bloat(table: HotTable | None) -> Finding:
    """Dead versions of the hot table against live ones."""
    if table is None:
        return Finding("bloat", "ok", None, "no statistics yet")
    share = table.dead / max(1, table.dead + table.live)
    ago = "never vacuumed" if table.vacuumed_seconds is None else f"vacuumed {spoken(table.vacuumed_seconds)} ago"
    megabytes = (table.table_bytes + table.index_bytes) / 1_000_000
    said = f"{table.dead} dead versions beside {table.live} live ({share:.0%}), {megabytes:.0f} MB with indexes, {ago}"
    value = {
        "dead": table.dead,
        "live": table.live,
        "share": round(share, 3),
        "bytes": table.table_bytes + table.index_bytes,
    }
    if table.dead > 10 * DEAD_MIN and share > 0.5:
        return Finding("bloat", "warn", value, said, "see `horizon` for what holds vacuum back, then VACUUM live")
    return Finding("bloat", "ok", value, said)


def horizon(found: list[Open], sees_all: bool) -> Finding:
    """What keeps vacuum from removing dead versions."""
    blind = "" if sees_all else " (sessions of other users are hidden: GRANT pg_read_all_stats)"
    held = [each for each in found if each.held_xids is not None and _held_long(each)]
    if not held:
        return Finding("horizon", "ok", 0, f"nothing holds vacuum back{blind}")
    worst = held[0]
    level: Level = (
        "fault"
        if (worst.open_seconds or 0) > ANCIENT_SECONDS or (worst.held_xids or 0) > 10 * HELD_XIDS_MAX
        else "warn"
    )
    return Finding(
        "horizon", level, worst._asdict(), f"{_who(worst)}, {worst.held_xids} transactions since{blind}", _end(worst)
    )


def _held_long(each: Open) -> bool:
    return (each.open_seconds or 0) > OLD_SECONDS or (each.held_xids or 0) > HELD_XIDS_MAX


def idle(found: list[Open]) -> Finding:
    """Sessions that have a transaction open and do nothing."""
    lazy = sorted(
        (each for each in found if (each.idle_seconds or 0) > OLD_SECONDS), key=lambda each: -(each.idle_seconds or 0)
    )
    if not lazy:
        return Finding("idle_in_transaction", "ok", 0, "no session has been idle in a transaction for a minute")
    return Finding(
        "idle_in_transaction", "warn", len(lazy), f"{len(lazy)}, first of them {_who(lazy[0])}", _end(lazy[0])
    )


def _who(each: Open) -> str:
    names = {
        "session": f"session {each.pid} ({each.name.strip()}, {each.state})",
        "slot": f"replication slot {each.name}",
    }
    who = names.get(each.what, f"prepared transaction {each.name!r}")
    since = f" for {spoken(each.open_seconds)}" if each.open_seconds is not None else ""
    query = f": {' '.join((each.query or '').split())[:60]}" if each.query else ""
    return f"{who}{since}{query}"


def _end(each: Open) -> str:
    steps = {
        "session": f"SELECT pg_terminate_backend({each.pid})",
        "slot": f"let its consumer go on, or SELECT pg_drop_replication_slot({_literal(each.name)})",
    }
    return steps.get(each.what, f"ROLLBACK PREPARED {_literal(each.name)}")


def _literal(text: str) -> str:
    """The text as SQL writes it, on one line."""
    if text.isprintable() and "\\" not in text:
        return "'" + text.replace("'", "''") + "'"
    written = text.encode("unicode_escape").decode().replace("'", "\\'")
    return f"E'{written}'"


def archive(days: list[Day]) -> Finding:
    """Whether the archive has partitions for today and the coming days."""
    missing = [each.day for each in days if not each.made]
    stray = days[0].stray if days else 0
    many = f"{stray} rows" if stray <= 1000 else "more than 1,000 rows"
    value = {"missing": missing, "stray": stray, "kept": days[0].kept if days else 0}
    step = "run a worker with housekeeping, or `SELECT * FROM tenure.keep_archive()`"
    if missing:
        level: Level = "fault" if days[0].day in missing else "warn"
        return Finding("archive", level, value, f"no partition for {', '.join(missing)}", step)
    if stray:
        return Finding("archive", "warn", value, f"{many} are in no day's partition", "retention takes them row by row")
    if (held := days[-1].kept * LOCKS_A_DAY) * ERASES > days[-1].locks > 0:
        said = (
            f"{days[-1].kept:,} days are kept: one erase holds about {held:,} of the server's {days[-1].locks:,} locks"
        )
        return Finding(
            "archive", "warn", value, said, "raise max_locks_per_transaction, or shorten the longest retention"
        )
    return Finding("archive", "ok", value, f"partitions until {days[-1].day}, no row outside them")
