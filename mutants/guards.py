"""Find every guard in the SQL, line by line, and what the line becomes without it. Pure: text in, mutants out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

QUESTIONS = ("claimed", "due_schedules", "standing")
UNGUARDED = (
    "new_id",
    "bucket",
    "timeline",
    "lanes",
    "ordered_queues",
    "channel",
    "near",
    "seen_held",
    "read_through",
    "all_counts",
    "state_counts",
    "fingerprint",
    "id_at",
)
CHANGED = re.compile(
    r"^(?:DROP FUNCTION tenure\.(\w+)|CREATE (?:OR REPLACE )?FUNCTION tenure\.(\w+))[(;]", re.MULTILINE
)
DOOR = ("door", "known_keys", "places", "handoff")
DOOR_QUESTIONS = ("adopt_ranges", "forget_inbox", "left_of_ranges", "note_waiting", "takers", "waiting_ranges")
TABLES = ("live", "dead", "attempts", "idempotency", "effects", "fences", "workers")

_IMPLIED = re.compile(r"--\s*implied:\s*(.*\S)")
_LOCK = r"FOR (?:UPDATE|NO KEY UPDATE|SHARE)"
_END = re.compile(rf"\b(ORDER BY|LIMIT|{_LOCK}|ON CONFLICT|RETURNING|THEN|LOOP|UNION|GROUP BY)\b")
_LAST = re.compile(r"\$\$;|\);|\) WITH|\s+AS '.*';$")  # of a function or a table
_CLOCKED = re.compile(r"(<=|>=)\s*(?:(?:clock|statement)_timestamp\(\)|moment\b)")


@dataclass(frozen=True)
class Mutant:
    """One guard taken out of one line of one statement."""

    statement: str
    file: Path
    line: int
    what: str
    before: str
    after: str
    implied: str | None

    def apply(self, text: str) -> str:
        """The file without the guard."""
        lines = text.split("\n")
        assert lines[self.line - 1] == self.before
        lines[self.line - 1] = self.after
        return "\n".join(lines)


def every_mutant(sql: Path) -> list[Mutant]:
    """All of them, in the order of the files."""
    found: list[Mutant] = []
    for path in sorted((sql / "verbs").glob("*.sql")) + [sql / f"questions/{name}.sql" for name in QUESTIONS]:
        lines = path.read_text(encoding="utf-8").split("\n")
        found += _mutants_of(path.stem, path.relative_to(sql), 1, lines)
    again = _checks_made_again(sql)
    for name in TABLES:
        tables = Path("migrations/0001_inbox.sql")
        made = _of_block(sql, tables, f"CREATE TABLE tenure.{name} (", name, only_constraints=True)
        found += [mutant for mutant in made if not any(f"CONSTRAINT {check} " in mutant.before for check in again)]
    for file, line, code in filter(None, again.values()):
        found += _mutants_of("live", file, line, [code], constraints=True)
    for name, path in _functions(sql).items():
        if name not in UNGUARDED:
            found += _of_block(sql, path.relative_to(sql), f"CREATE FUNCTION tenure.{name}(", name)
    return list(_told_apart(found))


def door_mutants(sql: Path) -> list[Mutant]:
    """Those of the door to a Citus cluster, and of the handoff beside its inboxes."""
    found: list[Mutant] = []
    for file in (Path(f"citus/{name}.sql") for name in DOOR):
        text = (sql / file).read_text(encoding="utf-8")
        for schema, name in re.findall(r"^CREATE OR REPLACE FUNCTION (\w+)\.(\w+)\(", text, re.MULTILINE):
            found += _of_block(sql, file, f"CREATE FUNCTION {schema}.{name}(", name)
        found += _calls_left_out(file, text.split("\n"))
    for name in DOOR_QUESTIONS:
        file = Path(f"citus/{name}.sql")
        found += _mutants_of(name, file, 1, (sql / file).read_text(encoding="utf-8").split("\n"))
    return list(_told_apart(found))


def _calls_left_out(file: Path, lines: list[str]) -> Iterator[Mutant]:
    """The door's locks and checks are functions of its own: each call of one is a guard."""
    for n, line in enumerate(lines, 1):
        if found := re.fullmatch(r"(\s*)PERFORM (?:tenure_door|pg_catalog)\.(\w+)\(.*;", line):
            yield Mutant(
                found.group(2), file, n, f"without the call of {found.group(2)}", line, f"{found.group(1)}NULL;", None
            )


def _told_apart(mutants: Iterable[Mutant]) -> Iterator[Mutant]:
    """The same words a second time in a statement are another guard: `without x (2)`."""
    times: Counter[tuple[str, str]] = Counter()
    for mutant in mutants:
        times[mutant.statement, mutant.what] += mutant.implied is None
        n = times[mutant.statement, mutant.what]
        yield replace(mutant, what=f"{mutant.what} ({n})") if n > 1 and mutant.implied is None else mutant


def _checks_made_again(sql: Path) -> dict[str, tuple[Path, int, str] | None]:
    """The checks that a later migration has added to a table, each where it was written last; None: it is dropped."""
    found: dict[str, tuple[Path, int, str] | None] = {}
    for path in sorted((sql / "migrations").glob("*.sql")):
        for n, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if dropped := re.search(r"DROP CONSTRAINT (live_\w+)", line):
                found[dropped.group(1)] = None
            if named := re.search(r"ADD CONSTRAINT (live_\w+) CHECK \(", line):
                found[named.group(1)] = (path.relative_to(sql), n, line)
    return found


def _functions(sql: Path) -> dict[str, Path]:
    """Each function with the migration that wrote it last: earlier versions are in use nowhere."""
    found: dict[str, Path] = {}
    for path in sorted((sql / "migrations").glob("*.sql")):
        for dropped, written in CHANGED.findall(path.read_text(encoding="utf-8")):
            found.pop(dropped or written, None)
            if written:
                found[written] = path
    return found


def _of_block(sql: Path, file: Path, opening: str, name: str, *, only_constraints: bool = False) -> list[Mutant]:
    lines = (sql / file).read_text(encoding="utf-8").split("\n")
    start = next(n for n, line in enumerate(lines) if line.replace("OR REPLACE ", "").startswith(opening))
    end = next(n for n, line in enumerate(lines) if n > start and _LAST.match(line))
    return _mutants_of(name, file, start + 1, lines[start : end + 1], constraints=only_constraints)


def _mutants_of(name: str, file: Path, first: int, lines: list[str], *, constraints: bool = False) -> list[Mutant]:
    found = []
    for n, line in enumerate(lines):
        code, implied = _code(line), _IMPLIED.search(line)
        changes = _constraint_changes(code) if constraints else _changes(code)
        for what, after in changes:
            found.append(Mutant(name, file, first + n, what, line, after, implied and implied.group(1)))
    return list({(mutant.line, mutant.after): mutant for mutant in found}.values())


def _code(line: str) -> str:
    """The line without its comment."""
    return "" if line.lstrip().startswith("--") else re.split(r"\s+--\s", line)[0]


def _changes(code: str) -> Iterator[tuple[str, str]]:
    """Every way to weaken a line of a statement."""
    for start, end in _conjuncts(code):
        yield f"without {code[start:end]}", f"{code[:start]}true{code[end:]}"
    for found in re.finditer(r"(?<!EXCEPTION )\b(?:WHEN|IF|ELSIF)\s+((?!EXISTS|MATCHED).+?)(?=\s+THEN\b|;)", code):
        if not re.match(r"'|\d", found.group(1)):  # CASE x WHEN 'word' compares, it does not decide
            yield f"never {found.group(1)}", f"{code[: found.start(1)]}false{code[found.end(1) :]}"
    for pattern, put, what in (
        (rf"\s*{_LOCK}(?: OF \w+)?(?: SKIP LOCKED)?", "", "without the lock"),
        (r" SKIP LOCKED", "", "without SKIP LOCKED"),
        (r"\s*ON CONFLICT(?: \([^)]*\))? DO NOTHING", "", "without ON CONFLICT"),
        (r"\+ 1\b", "+ 0", "+ 0"),
        (r"\bclock_timestamp\(\)", "now()", "now()"),
        (r"\bstatement_timestamp\(\)", "now()", "now()"),
        (r"\brandom\(\)", "0", "without jitter"),
    ):
        for found in re.finditer(pattern, code):
            yield f"{what}: {found.group().strip()}", code[: found.start()] + put + code[found.end() :]
    if not _CLOCKED.search(code):  # at the very microsecond of a clock either answer is right
        for found in re.finditer(r"(?<![<>])(>=|<=)", code):
            yield (
                f"{found.group()} as {found.group()[0]}",
                code[: found.start()] + found.group()[0] + code[found.end() :],
            )
    for found in re.finditer(r"\bLEAST\(", code):
        start, end = _first_argument(code, found.end())
        yield "without the cap", code[: found.start()] + code[start:end] + code[_closing(code, found.end()) + 1 :]


def _constraint_changes(code: str) -> Iterator[tuple[str, str]]:
    """Every way to weaken a line of a table."""
    if found := re.match(r"(\s*)PRIMARY KEY \(.*\)$", code):
        yield "without the primary key", f"{found.group(1)}CHECK (true)"
    elif found := re.search(r" (PRIMARY KEY|UNIQUE)\b", code):
        yield f"without {found.group(1).lower()}", code[: found.start()] + code[found.end() :]
    for found in re.finditer(r"\bCHECK \(", code):
        yield "without the check", f"{code[: found.end()]}true OR {code[found.end() :]}"


def _conjuncts(code: str) -> Iterator[tuple[int, int]]:
    """Where the conditions of a line stand: after each WHERE, and after an AND that begins the line."""
    starts = [found.end() for found in re.finditer(r"\bWHERE\s+", code)]
    if found := re.match(r"\s*AND\s+", code):
        starts.append(found.end())
    for start in starts:
        yield from _split(code, start)


def _split(code: str, start: int) -> Iterator[tuple[int, int]]:
    """The conditions between here and the end of the clause, cut at the ANDs and ORs of this depth; only whole ones.

    A clause that stands in a quoted text, as in EXECUTE format('... WHERE ...'), ends with that text.
    """
    depth, begin, between, at = 0, start, False, start
    if code.count("'", 0, start) % 2:
        code = code[:start] + re.split(r"(?<!')'(?!')", code[start:])[0]
    while at < len(code):
        rest = code[at:]
        if rest[0] == "'":
            at = code.index("'", at + 1)
        elif rest[0] == "(":
            depth += 1
        elif rest[0] == ")":
            depth -= 1
        if depth < 0 or (depth == 0 and (rest[0] == ";" or (_END.match(rest) and code[at - 1] == " "))):
            break
        if depth == 0 and re.match(r"\bBETWEEN\b", rest) and code[at - 1] == " ":
            between = True
        elif depth == 0 and (found := re.match(r" (AND|OR) ", rest)):
            if between:
                between = False
            else:
                yield from _whole(code, begin, at)
                begin = at + found.end()
                at = begin - 1
        at += 1
    if depth <= 0:
        yield from _whole(code, begin, min(at, len(code)))


def _whole(code: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    text = re.sub(r"^(AND|OR)\s+", "", code[begin:end].strip())
    begin = code.index(text, begin) if text else begin
    cut = text.count("(") != text.count(")") or text.count("CASE ") > text.count(" END")
    whole = not cut and text.startswith("CASE ") <= text.endswith(" END")
    if text and text != "true" and whole:
        yield begin, begin + len(text)


def _first_argument(code: str, start: int) -> tuple[int, int]:
    depth = 0
    for at in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if code[at] == "," and depth == 0:
            return start, at
    raise ValueError(code)


def _closing(code: str, start: int) -> int:
    depth = 0
    for at in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth < 0:
            return at
    raise ValueError(code)
